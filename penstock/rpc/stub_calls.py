"""The calls of a service over a channel, made from the definition. A channel may be of threads or of asyncio."""

from __future__ import annotations

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from penstock.rpc import penstock_pb2

__all__ = ["service_stub"]


def service_stub(channel: Any, service: str = "Data") -> dict[str, Any]:
    """Return the function of each call of a service, by its name."""
    definition = penstock_pb2.DESCRIPTOR.services_by_name[service]
    calls = {}
    for own in definition.methods:
        kind = f"{'stream' if own.client_streaming else 'unary'}_{'stream' if own.server_streaming else 'unary'}"
        calls[own.name] = getattr(channel, kind)(
            f"/{definition.full_name}/{own.name}",
            request_serializer=GetMessageClass(own.input_type).SerializeToString,
            response_deserializer=GetMessageClass(own.output_type).FromString,
        )
    return calls
