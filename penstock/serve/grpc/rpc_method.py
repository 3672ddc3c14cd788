"""The methods of a service, as a table: the function of each method of the definition, and the permission it needs.

Invariant: each method of a service has an entry, so none is open by mistake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from penstock.rpc import penstock_pb2
from penstock.serve.access.access_tokens import Permission
from penstock.serve.grpc.error_status import abort, refusal_of
from penstock.serve.store.call_meters import RPC, FrontMeter

__all__ = ["RpcMethod", "RpcService", "calls_of_services"]


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """One method. `call` gets a request, or an iterator of them, and the context.

    It returns the answer, or an iterator of answers. A method with `threads` runs in a pool of its own.
    """

    call: Callable[[Any, grpc.ServicerContext], Any]
    needs: Permission
    threads: ThreadPoolExecutor | None = None


class RpcService:
    """A service of `penstock.proto` with its methods by name."""

    def __init__(
        self, definition: ServiceDescriptor, methods: Mapping[str, RpcMethod], meter: FrontMeter | None = None
    ) -> None:
        self.name = definition.full_name
        self.permissions = {f"/{self.name}/{own.name}": methods[own.name].needs for own in definition.methods}
        self.handler = grpc.method_handlers_generic_handler(
            self.name, {own.name: _handler(own, methods[own.name], meter) for own in definition.methods}
        )


def calls_of_services() -> list[tuple[str, str]]:
    """Return the calls of all services as the meters name them."""
    services = penstock_pb2.DESCRIPTOR.services_by_name.values()
    return [(RPC, method.full_name) for own in services for method in own.methods]


def _handler(own: Any, method: RpcMethod, meter: FrontMeter | None) -> grpc.RpcMethodHandler[Any, Any]:
    asked, answered = GetMessageClass(own.input_type), GetMessageClass(own.output_type)
    kind = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[own.client_streaming, own.server_streaming]
    behavior: Any = (_streamed if own.server_streaming else _called)(own.full_name, method, meter)
    if method.threads is not None:
        behavior.experimental_thread_pool = method.threads
    return kind(behavior, asked.FromString, answered.SerializeToString)


def _called(name: str, method: RpcMethod, meter: FrontMeter | None) -> Callable[[Any, grpc.ServicerContext], Any]:
    """Return the function that answers a call, or ends it with the status of its error."""

    def call(request: Any, context: grpc.ServicerContext) -> Any:
        with _counted(name, meter) as status:
            try:
                return method.call(request, context)
            except Exception as error:
                _refuse(name, context, error, status)

    return call


def _streamed(
    name: str, method: RpcMethod, meter: FrontMeter | None
) -> Callable[[Any, grpc.ServicerContext], Iterator[Any]]:
    """Return the function that yields the answers of a call, or ends it with the status of its error."""

    def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with _counted(name, meter) as status:
            try:
                yield from method.call(request, context)
            except Exception as error:
                if context.is_active():  # else the client has ended the call
                    _refuse(name, context, error, status)

    return call


def _refuse(name: str, context: grpc.ServicerContext, error: Exception, status: list[int]) -> NoReturn:
    refusal = refusal_of(error, name)
    status[0] = refusal.code.value[0]
    abort(context, refusal)


@contextmanager
def _counted(name: str, meter: FrontMeter | None) -> Iterator[list[int]]:
    """Count a call with the status that the block puts into the list."""
    began, status = time.monotonic(), [0]
    try:
        yield status
    finally:
        if meter is not None:
            meter.count((RPC, name), status[0], time.monotonic() - began)
