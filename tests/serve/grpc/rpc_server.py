"""The gRPC server of Data over an engine in this process, on a free port of loopback."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import grpc
from grpc_status import rpc_status

import penstock as ps
from penstock.rpc import service_stub
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, digest_of
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.grpc.data_service import DataService
from penstock.serve.grpc.grpc_server import GrpcServer
from penstock.serve.grpc.placement import PlacementReader
from penstock.serve.grpc.rpc_method import calls_of_services
from penstock.serve.store.call_meters import CallMeters
from penstock.serve.store.store_access import LocalAccess, StoreAccess
from penstock.serve.store.store_reading import StoreReading
from penstock.serve.tls.tls_files import TlsContext
from tests.waiting import PATIENCE

TOKEN = "t0k"


class RpcServer:
    """A server with a channel to it, as a context manager."""

    def __init__(
        self,
        engine: ps.Engine,
        app: ps.App,
        access: StoreAccess | None = None,
        role: Role = Role.ADMIN,
        tables: frozenset[str] | None = None,
        tls: TlsContext | None = None,
    ) -> None:
        self._tls = tls
        self._app = app
        self._access = access or LocalAccess(engine)
        self._tokens = TokenBook(AccessToken("test", role, digest_of(TOKEN), tables))

    def __enter__(self) -> Self:
        self.calls = CallMeters(calls_of_services(), 1)
        self.store = StoreReading(self._app, self._access, self.calls.front(0))
        self.data = DataService(self.store, PlacementReader("127.0.0.1:7180", "127.0.0.1:7181"))
        address = ListenAddress("127.0.0.1", 0)
        self.server = GrpcServer(self._app, self._tokens, address, [self.data.service()], 8, tls=self._tls)
        self.server.begin()
        self.target = f"127.0.0.1:{self.server.port}"
        self.channel = grpc.insecure_channel(self.target)
        self.stub = service_stub(self.channel)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()
        self.data.end()
        self.server.stop(5)
        self.data.close()
        self.store.close()

    def call(self, name: str, request: Any, token: str = TOKEN, timeout: float = PATIENCE) -> Any:
        """Make one call, with an answer or an iterator of answers."""
        return self.stub[name](request, timeout=timeout, metadata=[("authorization", f"Bearer {token}")])


def refused(error: grpc.RpcError) -> tuple[str, str, dict[str, str], bool]:
    """Return the code, reason, metadata and advice to repeat of a refused call."""
    from google.rpc import error_details_pb2

    assert isinstance(error, grpc.Call)
    status = rpc_status.from_call(error)
    about, again = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert status is not None, error
    assert status.details[0].Unpack(about)
    return error.code().name, about.reason, dict(about.metadata), any(own.Unpack(again) for own in status.details)
