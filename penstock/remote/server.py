"""The holder of a store takes work from other processes of its user, on a socket in the store's folder.

One thread accepts connections. A thread per connection performs its requests in order. One thread sends beats for all.
Invariants:

- a result is sent after the commit, never before;
- during an operation its client receives a beat each second, so only a stopped holder is silent;
- if a client disconnects, a long operation ends at its next step. A transaction that has begun commits;
- a forked child serves no client and ends no connection;
- the server keeps no reference to the engine. If the engine is garbage-collected, its socket is removed.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock.cache import Closed, PenstockError
from penstock.remote.operations import Operation
from penstock.remote.socket_wire import PROTOCOL, Wire, WireClosed, WireTimeout, end, listen, remove
from penstock.remote.wire_messages import error_data

__all__ = ["Server", "drop_socket", "take_socket"]

BEAT = 1.0
"""Seconds between two signs of life."""
_FINISH = 10.0  # seconds that `close` waits for operations under way
_log = logging.getLogger("penstock.engine")


def take_socket(path: str) -> socket.socket | None:
    """Make the socket of a store that this process has just locked; None if its folder can't have one."""
    try:
        return listen(path)
    except OSError as error:
        _log.warning("%s: no socket can be made here (%s), so that other processes can't hand work over", path, error)
        return None


def drop_socket(path: str, sock: socket.socket) -> None:
    """Remove the socket of a store."""
    remove(path)
    end(sock)


class Server:
    """Serves others, from its making until `close`."""

    def __init__(
        self, engine: object, app: str, sock: socket.socket, path: str, operations: Mapping[str, Operation[Any]]
    ) -> None:
        self._engine = weakref.ref(engine)
        self._operations = operations
        self._app = app
        self._sock = sock
        self._path = path
        self._pid = os.getpid()
        self._lock = threading.RLock()  # the cycle collector may end an engine wherever it runs
        self._closed = False
        self._wires: dict[Wire, threading.Thread] = {}
        self._under_way: set[_Work] = set()
        self._beating: threading.Thread | None = None
        self._ended = threading.Event()  # no operation is under way, and none comes
        self._end = weakref.finalize(engine, self._stop)
        _serving.add(self)
        self._accepting = threading.Thread(target=self._accept, name="penstock-holder", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Accept no more work, and wait for the operations under way and all threads. A second call does nothing."""
        self._end()
        if self._pid != os.getpid():
            return
        with self._lock:
            busy = dict(self._wires)
        until = time.monotonic() + _FINISH
        for thread in busy.values():
            thread.join(max(0.0, until - time.monotonic()))
        for wire in busy:
            wire.close()
        self._ended.set()
        for ending in (self._accepting, self._beating):
            if ending is not None:
                ending.join(_FINISH)

    def _stop(self) -> None:
        """Remove the socket, and end idle connections."""
        with self._lock:
            if self._closed or self._pid != os.getpid():
                return
            self._closed = True
            drop_socket(self._path, self._sock)
            for wire in self._wires:
                wire.hang_up()

    def disown(self) -> None:
        """Close the inherited connections in a forked child, and send nothing."""
        self._sock.close()
        for wire in self._wires:
            wire.drop()
        self._wires.clear()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                if self._closed:
                    return
                _log.exception("%s: a connection could not be taken", self._path)
                time.sleep(BEAT)  # too many open files, say: that does not pass at once
                continue
            wire = Wire(sock)
            thread = threading.Thread(target=self._serve, args=(wire,), name="penstock-serving", daemon=True)
            with self._lock:
                if self._closed:
                    wire.close()
                    return
                self._wires[wire] = thread
                thread.start()
                if self._beating is None:
                    self._beating = threading.Thread(target=self._beat, name="penstock-beating", daemon=True)
                    self._beating.start()

    def _beat(self) -> None:
        """Send beats for operations under way, until there are no connections."""
        while not self._ended.wait(BEAT):
            with self._lock:
                if not self._wires:
                    self._beating = None
                    return
                under_way = list(self._under_way)
            for work in under_way:
                work.beat()

    def _serve(self, wire: Wire) -> None:
        try:
            if wire.uid != os.geteuid():
                wire.send({"failed": error_data(PenstockError(_STRANGER.format(self._path, os.geteuid())))})
                return
            wire.send({"penstock": PROTOCOL, "app": self._app, "pid": self._pid})
            while not self._closed:
                self._answer(wire, wire.receive(None))
        except (WireClosed, WireTimeout):
            pass  # the client has finished, or has disconnected
        finally:
            with self._lock:
                self._wires.pop(wire, None)
            if self._closed:
                self._refuse_message(wire)
            wire.close()

    def _refuse_message(self, wire: Wire) -> None:
        """Answer that an unread message of the client was not performed."""
        with suppress(WireClosed, WireTimeout):
            wire.send({"failed": error_data(Closed(_ENGINE))})

    def _answer(self, wire: Wire, asked: Any) -> None:
        """Perform one request, and answer it."""
        work = _Work(self._engine(), self._operations, asked, wire, lambda: self._closed)
        with self._lock:
            self._under_way.add(work)
        try:
            work.run()
        finally:
            with self._lock:
                self._under_way.discard(work)
        work.finish()


_ENGINE = "the engine that holds the store"  # as an error names it
_STRANGER = (
    "the store at {} is held by a process of user {}, which takes work from that user alone; run this as that user"
)


class _Work:
    """One operation under way."""

    def __init__(
        self,
        engine: object,
        operations: Mapping[str, Operation[Any]],
        asked: Any,
        wire: Wire,
        closing: Callable[[], bool],
    ) -> None:
        self._operations = operations
        self._answer: dict[str, Any] = {}
        self._held = engine
        self._asked = asked
        self._wire = wire
        self._closing = closing
        self._turn = threading.Lock()
        self._unheard = self._answered = False

    def run(self) -> None:
        """Perform the operation, and keep its result or error as the answer."""
        engine, self._held = self._held, None
        try:
            self._answer = {"done": self._do(engine)}
        except PenstockError as error:
            self._answer = {"failed": error_data(error)}
        except WireClosed:
            pass  # nobody waits for the answer
        except BaseException as error:
            _log.exception("what another process asked for failed")
            self._answer = {"failed": error_data(error)}
        finally:
            del engine

    def finish(self) -> None:
        """Send the answer."""
        with self._turn:
            self._answered = True
            self._wire.send(self._answer)

    def _do(self, engine: object) -> Any:
        if engine is None:
            raise Closed(_ENGINE)
        name = self._asked.get("do") if isinstance(self._asked, dict) else None
        operation = self._operations.get(name) if isinstance(name, str) else None
        if operation is None:
            raise PenstockError(
                f"the holder of the store knows no operation {name!r}; run the same penstock as it does"
            )
        return operation.serve(engine, self._asked, self._tell)

    def _tell(self, at: Any) -> None:
        """Send the progress; raise if the client has disconnected, or if the store is closing."""
        self._say({"at": at})
        if self._unheard:
            raise WireClosed
        if self._closing():
            raise Closed(_ENGINE)

    def beat(self) -> None:
        """Send a beat, unless another message is being sent or the answer was sent."""
        if self._turn.acquire(blocking=False):
            try:
                if not self._answered:
                    self._send({"beat": True})
            finally:
                self._turn.release()

    def _say(self, message: dict[str, Any]) -> None:
        with self._turn:
            self._send(message)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._wire.send(message)
        except WireClosed:
            self._unheard = True


_serving: weakref.WeakSet[Server] = weakref.WeakSet()


def _after_fork() -> None:
    for holder in list(_serving):
        holder.disown()


os.register_at_fork(after_in_child=_after_fork)
