"""The server of one port: access, health, reflection, its limits and its end."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

import penstock as ps
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, digest_of
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.grpc.grpc_server import GrpcServer
from tests.serve.asgi import shop

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
HealthCheck = health_pb2.HealthCheckRequest


@pytest.fixture
def server() -> Iterator[GrpcServer]:
    tokens = TokenBook(AccessToken("test", Role.READ, digest_of("t0k")))
    made = GrpcServer(shop(), tokens, ListenAddress("127.0.0.1", 0), [], 4)
    made.begin()
    yield made
    made.stop(0)


def channel(server: GrpcServer) -> grpc.Channel:
    return grpc.insecure_channel(f"127.0.0.1:{server.port}")


def test_health_needs_no_token_and_tells_of_the_end(server: GrpcServer) -> None:
    with channel(server) as to:
        health = health_pb2_grpc.HealthStub(to)
        assert health.Check(HealthCheck()).status == SERVING
        server.drain()
        assert health.Check(HealthCheck()).status == NOT_SERVING


def listed(to: grpc.Channel, token: str | None) -> list[str]:
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    metadata = None if token is None else [("authorization", f"Bearer {token}")]
    stub = reflection_pb2_grpc.ServerReflectionStub(to)
    (answer,) = stub.ServerReflectionInfo(iter([asked]), metadata=metadata)
    return [own.name for own in answer.list_services_response.service]


def test_reflection_needs_a_token(server: GrpcServer) -> None:
    with channel(server) as to:
        assert "grpc.health.v1.Health" in listed(to, "t0k")
        for token in (None, "wrong"):
            with pytest.raises(grpc.RpcError) as refused:
                listed(to, token)
            error: grpc.Call = refused.value  # type: ignore[assignment]
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED
            status = rpc_status.from_call(error)
            about = error_details_pb2.ErrorInfo()
            assert status is not None
            assert status.details[0].Unpack(about)
            assert (about.reason, about.domain) == ("NO_ACCESS_TOKEN", "penstock")


def test_a_role_without_reads_is_refused() -> None:
    tokens = TokenBook(AccessToken("test", Role.METRICS, digest_of("t0k")))
    server = GrpcServer(shop(), tokens, ListenAddress("127.0.0.1", 0), [], 4)
    server.begin()
    with channel(server) as to, pytest.raises(grpc.RpcError, match="role metrics; this needs read"):
        listed(to, "t0k")
    server.stop(0)


def test_an_address_of_another_program_is_refused_by_name() -> None:
    tokens = TokenBook(AccessToken("test", Role.READ, digest_of("t0k")))
    with ListenAddress("127.0.0.1", 0).bound(1)[0] as sock:
        sock.setsockopt(1, 15, 0)  # SO_REUSEPORT of SOL_SOCKET
        sock.listen()
        with pytest.raises(ps.PenstockError, match=r"gRPC can't listen on 127\.0\.0\.1"):
            GrpcServer(shop(), tokens, ListenAddress("127.0.0.1", sock.getsockname()[1]), [], 4)
