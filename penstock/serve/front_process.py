"""One front: it serves HTTP on its socket and gRPC on its port, and stops in order.

After the first SIGTERM it answers 503 at /readyz and NOT_SERVING to health checks, waits for load balancers, and then
takes no more requests. It ends the streams, finishes the calls that run, and closes the store.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvloop

from penstock.serve.access.access_tokens import TokenBook
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.console.console import Console
from penstock.serve.grpc.control_plane import ControlPlane
from penstock.serve.grpc.data_service import DataService
from penstock.serve.grpc.grpc_server import GrpcServer
from penstock.serve.grpc.placement import PlacementReader
from penstock.serve.http.gate import Gate
from penstock.serve.http.http_server import http_server, known_hosts
from penstock.serve.http.routes import HttpService
from penstock.serve.metrics.scrape import metrics_application
from penstock.serve.operations.audit_log import AuditLog
from penstock.serve.operations.controlled_store import ControlledStore
from penstock.serve.operations.operation_folder import OperationFolder
from penstock.serve.operations.operation_runner import AskFirst, OperationRunner
from penstock.serve.server_settings import ServerSettings
from penstock.serve.store.call_meters import CallMeters
from penstock.serve.store.rate_limit import TokenRates
from penstock.serve.store.store_access import StoreAccess
from penstock.serve.store.store_reading import StoreReading
from penstock.serve.tls.tls_files import TlsContext
from penstock.views import App

__all__ = ["FrontSettings", "run_front"]

_FINISH = 10  # seconds for calls under way
_OLD = 0.5  # seconds between two looks for old snapshots
_CALLS = 72  # threads for gRPC calls; those beyond the limit only refuse


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """The settings of one front. `metrics` is the socket of the metrics, if this front serves them.

    `grpc` is the address that all fronts bind, and `control` is for the first one. `tls` is None if the server has no
    certificate.
    """

    server: ServerSettings
    number: int
    http: socket.socket
    metrics: socket.socket | None
    grpc: ListenAddress
    control: ListenAddress
    tokens: TokenBook
    calls: CallMeters
    tls: TlsContext | None
    control_tls: TlsContext | None

    @property
    def certificates(self) -> list[TlsContext]:
        """The certificates that SIGHUP reads again."""
        return list({id(own): own for own in (self.tls, self.control_tls) if own is not None}.values())

    @property
    def address(self) -> ListenAddress:
        """The address of HTTP, with its port."""
        return ListenAddress(self.server.http.host, self.http.getsockname()[1])


def run_front(
    app: App,
    access: StoreAccess,
    settings: FrontSettings,
    started: Callable[[], object],
    ask: AskFirst | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then close the store. `ask` sends a request to the first process."""
    server = settings.server
    store = StoreReading(app, access, settings.calls.front(settings.number))
    controlled = ControlledStore(app, access, server.path, server.snapshot_folder, server.app_file)
    folder, audit = OperationFolder.of_store(server.path), AuditLog.of_store(server.path)
    operations = OperationRunner(controlled, folder, audit, ask)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(store, operations, settings, started))
    finally:
        operations.close()
        store.close()


async def _serve(
    store: StoreReading, operations: OperationRunner, front: FrontSettings, started: Callable[[], object]
) -> None:
    service, settings = HttpService(store, operations), front.server
    rates = TokenRates(settings.rate)
    console = Console(store, service.watch, operations)
    gate = Gate(
        service.application(console.routes, console.error),
        front.tokens,
        known_hosts(settings.http),
        meter=store.meter,
        answer=console.refusal,
        rates=rates,
    )
    servers = [(http_server(gate, front.tls, _FINISH), front.http)]
    if front.metrics is not None:
        gate = Gate(metrics_application(store, front.calls), front.tokens, known_hosts(settings.metrics))
        servers.append((http_server(gate, front.tls, _FINISH), front.metrics))
    tasks = [asyncio.ensure_future(server.serve(sockets=[sock])) for server, sock in servers]
    while not all(server.started or task.done() for (server, _), task in zip(servers, tasks, strict=True)):
        await asyncio.sleep(0.005)
    placement = PlacementReader(str(front.grpc), str(front.address), str(front.control))
    data = DataService(store, placement)
    rpc = GrpcServer(store.app, front.tokens, front.grpc, [data.service()], _CALLS, tls=front.tls, rates=rates)
    rpc.begin()
    ports: list[GrpcServer | ControlPlane] = [rpc]
    if not front.number:
        ports.append(ControlPlane(store, operations, front.tokens, front.control, placement, front.control_tls))
    closing = asyncio.ensure_future(_close_old(store))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # in place of the handlers of uvicorn
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if front.certificates:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload, front.certificates)
    started()
    await asyncio.wait([*tasks, asyncio.ensure_future(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
    service.stopping = True
    for port in ports:
        port.drain()
    if stop.is_set():
        await asyncio.sleep(settings.drain)
    closing.cancel()
    operations.stop()
    service.end_streams()
    data.end()
    for server, _ in servers:
        server.should_exit = True
    await asyncio.gather(*tasks, *(asyncio.to_thread(port.stop, _FINISH) for port in ports))
    console.close()
    data.close()


def _reload(certificates: list[TlsContext]) -> None:
    for own in certificates:
        own.reload()


async def _close_old(store: StoreReading) -> None:
    """Close snapshots that are no longer in use."""
    while True:
        await asyncio.sleep(_OLD)
        store.snapshots.close_old()
