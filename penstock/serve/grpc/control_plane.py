"""The control plane of one front: the Control service on a port of its own.

Invariant: no method of the port is open to the roles read and write, also not reflection.
"""

from __future__ import annotations

from penstock.serve.access.access_tokens import Permission, TokenBook
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.grpc.call_rate import CallRate
from penstock.serve.grpc.control_service import ControlService
from penstock.serve.grpc.grpc_server import GrpcServer
from penstock.serve.grpc.placement import PlacementReader
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.serve.store.store_reading import StoreReading
from penstock.serve.tls.tls_files import TlsContext

__all__ = ["ControlPlane"]

_THREADS = 8  # calls beyond the limit only refuse


class ControlPlane:
    """A running control plane."""

    def __init__(
        self,
        store: StoreReading,
        runner: OperationRunner,
        tokens: TokenBook,
        address: ListenAddress,
        placement: PlacementReader,
        tls: TlsContext | None = None,
        rate: CallRate | None = None,
    ) -> None:
        self._service = ControlService(store, runner, tokens, placement, rate)
        services = [self._service.service()]
        self._server = GrpcServer(
            store.app, tokens, address, services, _THREADS, rest=Permission.OPERATE, tls=tls, denied=runner.refused
        )
        self._server.begin()
        self.port = self._server.port

    def drain(self) -> None:
        """Tell load balancers to send no more calls."""
        self._server.drain()

    def stop(self, seconds: float) -> None:
        """End the calls that wait for operations, give the others so many seconds, and end the threads."""
        self._service.end()
        self._server.stop(seconds)
        self._service.close()
