"""The messages of the gRPC services: `penstock.proto`, and the code that protoc generates from it."""

__all__: list[str] = []
