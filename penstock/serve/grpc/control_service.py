"""The Control service: the operations of operators over gRPC, as HTTP has them, and the placement.

Invariants:

- a call and a route of one kind have the same arguments, the same checks and the same result;
- the rate of calls is limited for the whole server, so operators can't slow clients down by mistake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from penstock.rpc import penstock_pb2 as pb
from penstock.serve.access.access_tokens import Permission, TokenBook
from penstock.serve.grpc.access_interceptor import token_of
from penstock.serve.grpc.call_limit import CallLimit
from penstock.serve.grpc.call_rate import CallRate
from penstock.serve.grpc.error_status import CallRefused
from penstock.serve.grpc.placement import PlacementReader
from penstock.serve.grpc.rpc_method import RpcMethod, RpcService
from penstock.serve.operations.operation_kinds import KINDS, OperationKind
from penstock.serve.operations.operation_record import OperationRecord, OperationState
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.serve.store.rate_limit import RateLimit
from penstock.serve.store.store_reading import StoreReading
from penstock.views import json_value

__all__ = ["ControlService"]

_RATE = 5  # calls per second
_CALLS = 2  # calls at once
_WAITS = 16  # calls of WaitOperation at once
_LONGEST = 3600.0  # seconds of a call
_LOOK = 0.1  # seconds between two looks at an operation
_ONE_SERVER = "one server has no other place for a partition; see the documentation of several servers"


class ControlService:
    """The methods of one server's Control service."""

    def __init__(
        self,
        store: StoreReading,
        runner: OperationRunner,
        tokens: TokenBook,
        placement: PlacementReader,
        rate: CallRate | None = None,
    ) -> None:
        self._store = store
        self._runner = runner
        self._tokens = tokens
        self._placement = placement
        self._rate = rate or CallRate(RateLimit(_RATE), "calls of the control plane")
        self._calls = CallLimit(_CALLS, "calls of the control plane")
        self._waits = CallLimit(_WAITS, "calls of WaitOperation")
        self._threads = ThreadPoolExecutor(_WAITS + 1, "penstock-wait")
        self._ended = False

    def service(self) -> RpcService:
        """Return the service with all its methods."""
        methods = {name: RpcMethod(self._limited(self._start(kind)), kind.permission) for name, kind in KINDS.items()}
        operate, admin = Permission.OPERATE, Permission.ADMIN
        methods |= {
            "ListPart": RpcMethod(self._limited(self._list), operate),
            "GetOperation": RpcMethod(self._limited(self._get), operate),
            "WaitOperation": RpcMethod(self._wait, operate, self._threads),
            "Cancel": RpcMethod(self._limited(self._cancel), admin),
        }
        definition = pb.DESCRIPTOR.services_by_name["Control"]
        for own in definition.methods:
            if own.name not in methods:
                methods[own.name] = RpcMethod(self._limited(_refuse), admin)
        named = {own.name: methods[own.name] for own in definition.methods}
        return RpcService(definition, named, self._store.meter)

    def end(self) -> None:
        """End the calls that wait for operations."""
        self._ended = True

    def close(self) -> None:
        """Wait for the threads of its own."""
        self.end()
        self._threads.shutdown()

    def _limited(self, call: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
        """Return a function that refuses a call beyond the rate, or beside too many others."""

        def limited(request: Any, context: grpc.ServicerContext) -> Any:
            self._rate.count()
            with self._calls.counted():
                return call(request, context)

        return limited

    def _start(self, kind: OperationKind) -> Callable[[Any, grpc.ServicerContext], pb.Operation]:
        def start(request: Any, context: grpc.ServicerContext) -> pb.Operation:
            token = token_of(self._tokens, context)
            return _message(self._runner.start(kind, arguments_of(request), "" if token is None else token.name))

        return start

    def _list(self, request: Any, context: grpc.ServicerContext) -> pb.Placement:
        with self._store.snapshot() as snap:
            return self._placement.read(snap, [])

    def _get(self, request: Any, context: grpc.ServicerContext) -> pb.Operation:
        return _message(self._found(request.id))

    def _cancel(self, request: Any, context: grpc.ServicerContext) -> pb.Operation:
        token = token_of(self._tokens, context)
        record = self._runner.cancel(request.id, "" if token is None else token.name)
        return _message(_must_be(record, request.id))

    def _wait(self, request: Any, context: grpc.ServicerContext) -> Iterator[pb.Operation]:
        """Yield the record after each change, until the operation ends."""
        self._rate.count()
        with self._waits.counted():
            record, until = self._found(request.id), time.monotonic() + _LONGEST
            yield _message(record)
            while not record.state.ended and context.is_active() and not self._ended:
                if time.monotonic() > until:
                    raise CallRefused(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE", "the call took an hour; repeat it")
                time.sleep(_LOOK)
                found = self._found(request.id)
                if found != record:
                    record = found
                    yield _message(record)

    def _found(self, number: str) -> OperationRecord:
        return _must_be(self._runner.folder.find(number), number)


def arguments_of(request: Any) -> Mapping[str, Any]:
    """Return the arguments of a request as HTTP has them. CallRefused for a field that one server does not know."""
    fields = {own.name: value for own, value in request.ListFields()}
    selection = fields.pop("entries", None)
    if selection is not None:
        fields |= {own.name: value for own, value in selection.ListFields()}
    for name in ("computation", "key", "late", "range", "servers", "from_snapshot", "partition"):
        if name in fields and not (name == "range" and not fields[name]):
            text = f"{request.DESCRIPTOR.name}.{name} is not possible on one server; leave it out"
            raise CallRefused(grpc.StatusCode.UNIMPLEMENTED, "NOT_ON_ONE_SERVER", text)
    if "group" in fields:
        try:
            fields["group"] = json_value(fields["group"])
        except ValueError:
            text = 'group is no JSON; write a text as "NO", with the quotes'
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST", text) from None
    return {name: list(value) if name == "ids" else value for name, value in fields.items()}


def _refuse(request: Any, context: grpc.ServicerContext) -> Any:
    raise CallRefused(grpc.StatusCode.UNIMPLEMENTED, "NOT_ON_ONE_SERVER", _ONE_SERVER)


def _must_be(record: OperationRecord | None, number: str) -> OperationRecord:
    if record is None:
        raise CallRefused(grpc.StatusCode.NOT_FOUND, "NO_OPERATION", f"there is no operation {number!r}")
    return record


_STATES = {
    OperationState.WAITING: pb.Operation.WAITING,
    OperationState.RUNNING: pb.Operation.RUNNING,
    OperationState.DONE: pb.Operation.DONE,
    OperationState.FAILED: pb.Operation.FAILED,
    OperationState.CANCELLED: pb.Operation.CANCELLED,
}


def _message(record: OperationRecord) -> pb.Operation:
    """Return the message of a record."""
    return pb.Operation(
        id=record.id,
        kind=record.kind,
        by=record.by,
        state=_STATES[record.state],
        done=record.done,
        total=record.total,
        result=record.result.encode(),
        error=record.error,
        began=_moment(record.began),
        ended=_moment(record.ended) if record.state.ended else None,
    )


def _moment(seconds: float) -> Timestamp:
    return Timestamp(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))
