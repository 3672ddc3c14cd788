"""The first process of a server: it binds the port, and begins and watches the fronts and the holder.

It opens no store and has no threads, so it has little that can fail. Invariants:

- a front that ends is begun again at once, and a holder within seconds. A child that ends right after its begin waits;
- at the end the holder is the last to go, so every front finishes its writes;
- a second signal ends all children at once. That is a crash, and loses nothing that was answered.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.cache import MissingExtra, PenstockError
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, digest_of, new_secret
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.child_process import ChildProcess
from penstock.serve.server_settings import ServerSettings
from penstock.serve.tls.tls_files import TlsContext
from penstock.views import App

if TYPE_CHECKING:
    from penstock.serve.front_process import FrontSettings
    from penstock.serve.operations.idle_request import IdleRequest

__all__ = ["serve"]

Tell = Callable[[str], object]
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
_ENDS = {signal.SIGTERM, signal.SIGINT}
_LOOK = 0.2
_QUICK = 1.0  # seconds after which a child counts as begun; one that ends earlier waits before the next
_FINISH = 13.0  # seconds for the calls of fronts, after the drain
_CLOSE = 60.0  # seconds for the holder to close the store
_RPC = ("grpc", "grpc_health", "grpc_reflection", "grpc_status")
_PROJECTS = {
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "grpc_status": "grpcio-status",
}
_OPERATION = "operation"  # the name of the child that has the store for itself
_log = logging.getLogger("penstock.serve")


def serve(app: App, settings: ServerSettings, tell: Tell) -> int:
    """Serve the store until SIGTERM or SIGINT. Return the exit code."""
    must_be_installed()
    from penstock.serve import front_process  # before any fork, so that a child begins at once

    assert front_process, "its children share its modules"
    sockets = settings.http.bound(1 if settings.in_process else settings.fronts)
    held = list[socket.socket]()  # each front binds these addresses itself; held, they stay those of this server
    token = new_secret()
    try:
        run = AccessToken("this-run", Role.ADMIN, digest_of(token))
        tokens = TokenBook(run, settings.token_file)
        tls = None if settings.tls is None else TlsContext(settings.tls)
        control_tls = tls if settings.control_tls is None else TlsContext(settings.control_tls)
        sockets += settings.metrics.bound(1)
        address = _reached(settings.http, sockets[0])
        metrics = _reached(settings.metrics, sockets[-1])
        held += settings.grpc.bound(1)
        rpc = _reached(settings.grpc, held[0])
        held += settings.control.bound(1)
        control = _reached(settings.control, held[1])

        scheme = "http" if tls is None else "https"

        def ready() -> None:
            tell(f"gRPC on {rpc}, control plane on {control}")
            tell(f"metrics on {scheme}://{metrics}/metrics")
            tell(f"HTTP on {scheme}://{address}, access token of this run: {token}")
            tell(f"console on {scheme}://{address}/?token={token}")

        fronts = _fronts_of(settings, sockets, tokens, rpc, control, tls, control_tls)
        if settings.in_process:
            return _in_process(app, settings, fronts[0], ready)
        return _FirstProcess(app, settings, sockets, fronts, ready, tell).run()
    finally:
        for sock in [*sockets, *held]:
            sock.close()


def _reached(address: ListenAddress, sock: socket.socket) -> ListenAddress:
    """Return an address with the port that it got."""
    return ListenAddress(address.host, sock.getsockname()[1])


def must_be_installed() -> None:
    """Raise MissingExtra if a package of the extra `serve` is missing."""
    for package in ("starlette", "uvicorn", "httptools", "uvloop", "prometheus_client", "jinja2", *_RPC):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra(_PROJECTS.get(package, package.replace("_", "-")), "serve") from None


def _fronts_of(
    settings: ServerSettings,
    sockets: list[socket.socket],
    tokens: TokenBook,
    rpc: ListenAddress,
    control: ListenAddress,
    tls: TlsContext | None,
    control_tls: TlsContext | None,
) -> list[FrontSettings]:
    """Return the settings of each front. The first one serves the metrics and the control plane too."""
    from penstock.serve.console.console import routes_of_console
    from penstock.serve.front_process import FrontSettings
    from penstock.serve.grpc.rpc_method import calls_of_services
    from penstock.serve.http.routes import routes_of_api
    from penstock.serve.store.call_meters import CallMeters

    *https, metrics = sockets
    calls = CallMeters([*routes_of_api(), *routes_of_console(), *calls_of_services()], len(https))
    return [
        FrontSettings(settings, i, sock, None if i else metrics, rpc, control, tokens, calls, tls, control_tls)
        for i, sock in enumerate(https)
    ]


def _in_process(app: App, settings: ServerSettings, front: FrontSettings, ready: Callable[[], object]) -> int:
    from penstock.serve.front_process import run_front
    from penstock.serve.holder_process import open_store
    from penstock.serve.store.store_access import LocalAccess

    run_front(app, LocalAccess(open_store(app, settings.path)), front, ready)
    return 0


class _FirstProcess:
    """The children of one server."""

    def __init__(
        self,
        app: App,
        settings: ServerSettings,
        sockets: list[socket.socket],
        fronts: list[FrontSettings],
        ready: Callable[[], object],
        tell: Tell,
    ) -> None:
        self._app = app
        self._settings = settings
        self._sockets = sockets
        self._fronts = fronts
        self._ready = ready
        self._tls = fronts[0].certificates
        self._signals = _SIGNALS | {signal.SIGHUP} if self._tls else _SIGNALS
        self._tell = tell
        self._children: dict[str, ChildProcess] = {}
        self._began: dict[str, float] = {}
        self._due: dict[str, float] = {}  # when a child that ended is begun again
        self._request: IdleRequest | None = None  # the last one for an operation
        self._reading: str | None = None  # the copy that fronts read during an operation
        self._turned = 0.0  # when the fronts were told to read another store
        self._left: str | None = None  # a copy to remove once no front reads it

    def run(self) -> int:
        """Begin all children, and watch them until a signal."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        try:
            self._begin("holder")
            if self._await_holder():
                fronts = [f"front {front.number}" for front in self._fronts]
                for name in fronts:
                    self._begin(name)
                if all(self._await_front(name) for name in fronts):
                    self._ready()
                    self._watch()
            return self._end()
        except BaseException:
            self._kill()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    # -- their beginning

    def _begin(self, name: str) -> None:
        inherited = [file for child in self._children.values() for file in child.files]
        request = self._request

        def work(report: Callable[[dict[str, Any]], None]) -> int:
            if name == "holder":
                return self._hold(report)
            if name == _OPERATION:
                assert request is not None, "a front asked for it"
                return self._operate(request, report)
            return self._front(int(name.split()[1]), report)

        self._children[name] = ChildProcess.fork(name, work, inherited)
        self._began[name] = time.monotonic()

    def _hold(self, report: Callable[[dict[str, Any]], None]) -> int:
        from penstock.serve.holder_process import run_holder

        for sock in self._sockets:
            sock.close()
        return run_holder(self._app, self._settings.path, report)

    def _front(self, number: int, report: Callable[[dict[str, Any]], None]) -> int:
        from penstock.engine import open_engine
        from penstock.serve.front_process import run_front
        from penstock.serve.store.store_access import HolderAccess

        front, path = self._fronts[number], self._settings.path
        for sock in self._sockets:
            if sock not in (front.http, front.metrics):
                sock.close()
        access = HolderAccess(open_engine(self._app, self._reading or path, readonly=True), path)
        run_front(
            self._app,
            access,
            front,
            lambda: report({"serves": os.getpid()}),
            lambda request: report({"idle": request}),
        )
        return 0

    def _operate(self, request: IdleRequest, report: Callable[[dict[str, Any]], None]) -> int:
        """Run an operation that needs the store for itself, in a child."""
        from penstock.serve.operations.audit_log import AuditLog
        from penstock.serve.operations.controlled_store import IdleStore
        from penstock.serve.operations.idle_operation import run_idle
        from penstock.serve.operations.operation_folder import OperationFolder

        for sock in self._sockets:
            sock.close()
        path = self._settings.path
        store = IdleStore(path, self._settings.snapshot_folder)
        run_idle(request, store, OperationFolder.of_store(path), AuditLog.of_store(path), report)
        return 0

    def _await_holder(self) -> bool:
        """Wait until the store is open, here or elsewhere. Return False if a signal ends the wait."""
        while not self._asked():
            report = self._children["holder"].report(_LOOK)
            if report is None:
                continue
            if "failed" in report:
                from penstock.remote import error_of

                raise error_of(report["failed"], "the holder")
            if not report:
                raise PenstockError("the holder ended before it opened the store; the lines above say why")
            if "held" in report:
                self._tell(f"the store is held by {report['held']}, which gets the writes")
            return True
        return False

    def _await_front(self, name: str) -> bool:
        while not self._asked():
            report = self._children[name].report(_LOOK)
            if report is not None:
                if not report:
                    raise PenstockError(f"{name} ended before it served; the lines above say why")
                return True
        return False

    # -- their watch

    def _watch(self) -> None:
        """Begin each child again that ends, until a signal."""
        while not self._asked():
            self._reap()
            self._heed()
            now = time.monotonic()
            for name in [name for name, due in self._due.items() if due <= now]:
                del self._due[name]
                self._begin(name)

    def _heed(self) -> None:
        """Take requests for operations that need the store for themselves, and follow the one that runs."""
        from penstock.serve.operations.idle_request import IdleRequest

        for name, child in list(self._children.items()):
            report = None if name == "holder" else child.report(0)
            if report and "idle" in report:
                self._begin_operation(IdleRequest.of(report["idle"]))
            if report and "reading" in report:
                self._read(report["reading"])
        fronts = [name for name in self._children if name.startswith("front")]
        if self._left and len(fronts) == len(self._fronts) and all(self._began[own] > self._turned for own in fronts):
            shutil.rmtree(self._left, ignore_errors=True)
            self._left = None
            self._due["holder"] = time.monotonic()  # not before: a read of the copy would miss its first write

    def _begin_operation(self, request: IdleRequest) -> None:
        """End the holder, and begin a child that does the operation when the store is released."""
        from penstock.serve.operations.idle_request import IdleAnswer

        if _OPERATION in self._children:
            busy = PenstockError("another operation has the store for itself; start this one after its end")
            IdleAnswer(request.answer).refused(busy)
            return
        self._request = request
        self._begin(_OPERATION)
        self._due.pop("holder", None)
        if "holder" in self._children:
            self._children["holder"].signal(signal.SIGTERM)

    def _read(self, path: str | None) -> None:
        """Have all fronts read a copy of the store, or the store itself for None. They begin again for that."""
        self._reading, self._turned = path, time.monotonic()
        for name, child in self._children.items():
            if name.startswith("front"):
                child.signal(signal.SIGTERM)

    def _asked(self) -> bool:
        """Wait a moment for a signal. Return True if it asks for the end."""
        found = signal.sigtimedwait(self._signals, _LOOK)
        if found is not None and found.si_signo == signal.SIGHUP:
            self._reload()
        return found is not None and found.si_signo in _ENDS

    def _reload(self) -> None:
        """Read the certificates again, for later fronts too, and have each front do so."""
        read = [own.reload() for own in self._tls]  # each of them, also after one with a fault
        if any(read):
            for name, child in self._children.items():
                if name != "holder":
                    child.signal(signal.SIGHUP)

    def _reap(self) -> None:
        for name, code in self._ended():
            now = time.monotonic()
            if name == _OPERATION:
                if self._reading is not None:
                    self._left = self._reading
                    self._read(None)
                elif "holder" not in self._children:  # else it is ending, and begun again then
                    self._due["holder"] = now
            elif name != "holder" or _OPERATION not in self._children:
                asked = name != "holder" and self._began[name] < self._turned
                quick = now - self._began[name] < _QUICK and not asked
                self._due[name] = now + _QUICK if quick else now
                if not asked:
                    _log.warning("%s ended with %s; it is begun again", name, code)

    def _ended(self) -> list[tuple[str, int]]:
        """Wait for children that have ended; their names and exit codes."""
        out: list[tuple[str, int]] = []
        for name, child in list(self._children.items()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                out.append((name, os.waitstatus_to_exitcode(status)))
                self._children.pop(name).close()
        return out

    # -- their end

    def _end(self) -> int:
        """End the fronts, then the holder. A second signal, or a child that doesn't end, kills them."""
        for sock in self._sockets:
            sock.close()  # else connections would wait in a queue that no front reads
        fronts = self._gone([name for name in self._children if name != "holder"], self._settings.drain + _FINISH)
        holder = fronts and self._gone(["holder"], _CLOSE)
        self._kill()
        for copy in filter(None, (self._reading, self._left)):
            shutil.rmtree(copy, ignore_errors=True)
        return 0 if fronts and holder else 1

    def _gone(self, names: list[str], seconds: float) -> bool:
        """Ask some children to end. Return False if one is still there after so many seconds, or a signal comes."""
        for name in names:
            if name in self._children:
                self._children[name].signal(signal.SIGTERM)
        until = time.monotonic() + seconds
        while any(name in self._children for name in names):
            if self._asked() or time.monotonic() > until:
                return False
            self._ended()
        return True

    def _kill(self) -> None:
        for child in self._children.values():
            with suppress(ProcessLookupError):
                child.signal(signal.SIGKILL)
            os.waitpid(child.pid, 0)
            child.close()
        self._children.clear()
