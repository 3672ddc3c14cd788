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
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.serve.access.access_tokens import TokenBook
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.grpc.grpc_server import GrpcServer
from penstock.serve.http.gate import Gate
from penstock.serve.http.routes import HttpService
from penstock.serve.metrics.scrape import metrics_application
from penstock.serve.operations.audit_log import AuditLog
from penstock.serve.operations.controlled_store import ControlledStore
from penstock.serve.operations.operation_folder import OperationFolder
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.serve.server_settings import ServerSettings
from penstock.serve.store.call_meters import CallMeters
from penstock.serve.store.store_access import StoreAccess
from penstock.serve.store.store_reading import StoreReading
from penstock.views import App

__all__ = ["FrontSettings", "run_front"]

_HEADERS = 10.0  # seconds in which a new connection must send its headers
_IDLE = 300  # seconds that a connection may wait for its next request
_FINISH = 10  # seconds for calls under way
_OLD = 0.5  # seconds between two looks for old snapshots
_CALLS = 72  # threads for gRPC calls; those beyond the limit only refuse


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """The settings of one front. `metrics` is the socket of the metrics, if this front serves them.

    `grpc` is the address that all fronts bind.
    """

    server: ServerSettings
    number: int
    http: socket.socket
    metrics: socket.socket | None
    grpc: ListenAddress
    tokens: TokenBook
    calls: CallMeters


def run_front(app: App, access: StoreAccess, settings: FrontSettings, started: Callable[[], object]) -> None:
    """Serve until SIGTERM or SIGINT, then close the store."""
    server = settings.server
    store = StoreReading(app, access, settings.calls.front(settings.number))
    controlled = ControlledStore(app, access, server.path, server.snapshot_folder, server.app_file)
    operations = OperationRunner(controlled, OperationFolder.of_store(server.path), AuditLog.of_store(server.path))
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
    gate = Gate(service.application(), front.tokens, _hosts(settings.http), meter=store.meter)
    servers = [(uvicorn.Server(_config(gate)), front.http)]
    if front.metrics is not None:
        gate = Gate(metrics_application(store, front.calls), front.tokens, _hosts(settings.metrics))
        servers.append((uvicorn.Server(_config(gate)), front.metrics))
    tasks = [asyncio.ensure_future(server.serve(sockets=[sock])) for server, sock in servers]
    while not all(server.started or task.done() for (server, _), task in zip(servers, tasks, strict=True)):
        await asyncio.sleep(0.005)
    rpc = GrpcServer(store.app, front.tokens, front.grpc, [], _CALLS)
    rpc.begin()
    closing = asyncio.ensure_future(_close_old(store))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # in place of the handlers of uvicorn
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    started()
    await asyncio.wait([*tasks, asyncio.ensure_future(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
    service.stopping = True
    rpc.drain()
    if stop.is_set():
        await asyncio.sleep(settings.drain)
    closing.cancel()
    operations.stop()
    service.end_streams()
    for server, _ in servers:
        server.should_exit = True
    await asyncio.gather(*tasks, asyncio.to_thread(rpc.stop, _FINISH))


async def _close_old(store: StoreReading) -> None:
    """Close snapshots that are no longer in use."""
    while True:
        await asyncio.sleep(_OLD)
        store.snapshots.close_old()


def _config(gate: Gate) -> Any:
    protocol: Any = _protocol
    return uvicorn.Config(
        gate,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_FINISH,
    )


def _protocol(*args: Any, **named: Any) -> Any:
    """Make the protocol of a connection, which ends if no request begins in time."""
    made = HttpToolsProtocol(*args, **named)

    def silent() -> None:
        if made.cycle is None and made.transport is not None:
            made.transport.close()

    asyncio.get_running_loop().call_later(_HEADERS, silent)
    return made


def _hosts(address: ListenAddress) -> list[str]:
    """Return the names by which clients may ask; a web page of another name that points here is refused."""
    host = address.host
    return [host, f"[{host}]", "localhost", "127.0.0.1", "[::1]"] if address.is_loopback else []
