"""The messages of the gRPC services: `penstock.proto`, and the code that protoc generates from it."""

from penstock.rpc.document_stream import documents_in
from penstock.rpc.json_fields import json_field, key_of_field, position_field, position_of_field, value_of_field
from penstock.rpc.stub_calls import service_stub

__all__ = [
    "documents_in",
    "json_field",
    "key_of_field",
    "position_field",
    "position_of_field",
    "service_stub",
    "value_of_field",
]
