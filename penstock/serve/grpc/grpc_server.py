"""A gRPC server on one port: services, health, reflection, limits of messages, and its end.

Fronts share the port: each binds it with SO_REUSEPORT. Invariants:

- health has the states of `drain` and `stop` at once, so load balancers leave before calls are refused;
- `stop` lets the calls under way finish, and ends the rest after its seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.cache import PenstockError
from penstock.serve.access.access_tokens import Permission, TokenBook
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.grpc.access_interceptor import AccessInterceptor, Denied
from penstock.serve.grpc.rpc_credentials import rpc_credentials
from penstock.serve.grpc.rpc_method import RpcService
from penstock.serve.store.rate_limit import TokenRates
from penstock.serve.tls.tls_files import TlsContext
from penstock.views import App

__all__ = ["MOST_BYTES", "GrpcServer"]

MOST_BYTES = (1 << 20) + (64 << 10)
"""The largest request: documents of 1 MiB, and their frame."""
_MOST_ANSWER = 8 << 20  # a page ends after its last row, which may be long
_IDLE = 300_000  # milliseconds after which a connection without calls is closed
_PING = 10_000  # milliseconds between two pings that a client may send


class GrpcServer:
    """The server of one port. `rest` is the permission of methods that are in no service here, as reflection.

    `denied` hears of each call that a role does not allow.
    """

    def __init__(
        self,
        app: App,
        tokens: TokenBook,
        address: ListenAddress,
        services: Sequence[RpcService],
        threads: int,
        *,
        rest: Permission = Permission.READ,
        tls: TlsContext | None = None,
        denied: Denied | None = None,
        rates: TokenRates | None = None,
    ) -> None:
        permissions = {path: needs for own in services for path, needs in own.permissions.items()}
        certified = tls is not None and tls.files.client_ca is not None
        self._threads = ThreadPoolExecutor(threads, "penstock-rpc")
        self._health = health.HealthServicer()
        self._names = [own.name for own in services]
        options: list[tuple[str, int]] = [
            ("grpc.so_reuseport", 1),
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.max_send_message_length", _MOST_ANSWER),
            ("grpc.max_connection_idle_ms", _IDLE),
            ("grpc.http2.min_ping_interval_without_data_ms", _PING),
            ("grpc.keepalive_permit_without_calls", 1),
        ]
        self._server = grpc.server(
            self._threads,
            interceptors=[AccessInterceptor(app, tokens, permissions, rest, certified, denied, rates)],
            options=options,
        )
        for own in services:
            self._server.add_generic_rpc_handlers((own.handler,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        listed = [*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(listed, self._server)
        self.tell(True)
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(str(address))
            else:
                self.port = self._server.add_secure_port(str(address), rpc_credentials(tls))
        except RuntimeError as error:
            raise PenstockError(f"gRPC can't listen on {address}: {error}") from None

    def begin(self) -> None:
        """Accept calls."""
        self._server.start()

    def tell(self, serving: bool) -> None:
        """Set the health of the server and of each service."""
        state = health_pb2.HealthCheckResponse
        for name in ("", *self._names):
            self._health.set(name, state.SERVING if serving else state.NOT_SERVING)

    def drain(self) -> None:
        """Tell load balancers to send no more calls. Later states of the health are ignored."""
        self._health.enter_graceful_shutdown()

    def stop(self, seconds: float) -> None:
        """Refuse further calls, wait so many seconds for those under way, and end the threads."""
        self._health.enter_graceful_shutdown()
        self._server.stop(seconds).wait()
        self._threads.shutdown()
