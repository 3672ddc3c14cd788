"""Listen on a TCP port: one thread for each connection, which runs a session of the accepting side.

Invariants:

- a fault of a peer ends its own connection. A fault of the host's state ends that connection too, and is reported;
- a conversation is released after its last action on the host's state, so the next session finds that state complete;
- `close` returns after all threads have ended.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from penstock.connector.errors import HostClosed
from penstock.connector.session import Session
from penstock.connector.sockets.socket_options import prepare_socket

__all__ = ["MOST_CONNECTIONS", "Conversation", "SessionServer"]

MOST_CONNECTIONS = 1000
"""Connections at one time; further ones wait to be accepted."""
_BLOCK = 1 << 18
_SENDING = 30.0  # seconds for a peer to take an answer
_CLOSING = 5.0  # seconds for a peer to close its side after ERROR
_log = logging.getLogger("penstock")


class Conversation(Protocol):
    """The accepting side of one connection."""

    session: Session

    @property
    def peer(self) -> str:
        """The name of the peer in log lines."""
        ...

    @property
    def pause(self) -> float | None:
        """Seconds without input after which `wake` is called, or None."""
        ...

    def answer(self) -> None:
        """Handle the events of the session, which may lead to further events. `HostClosed` ends the session."""
        ...

    def wake(self) -> None:
        """Do the work that needs no input."""
        ...

    def leave(self) -> None:
        """Say goodbye, because the server closes."""
        ...

    def release(self) -> None:
        """Free all that only one connection may have."""
        ...


class SessionServer:
    """A listening socket. `start` begins to accept connections; `failed` gets errors of the host's state."""

    def __init__(
        self,
        host: str,
        port: int,
        opened: Callable[[], Conversation],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._opened = opened
        self._failed = failed
        self._lock = threading.Lock()  # for the sets below
        self._connections: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._closed = threading.Event()
        self._room = threading.Semaphore(MOST_CONNECTIONS)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=64)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._accepting = threading.Thread(target=self._accept, name="penstock-connector", daemon=True)

    def start(self) -> None:
        """Accept connections until `close`."""
        self._accepting.start()

    def close(self) -> None:
        """End all sessions, and wait for their threads. A peer sees a closed connection, and connects again later."""
        self._closed.set()
        with self._lock:
            # A shutdown wakes the thread that accepts, which a close would not.
            _shut(self._listener, socket.SHUT_RDWR)
            for connection in self._connections:
                _shut(connection, socket.SHUT_RD)
        if self._accepting.is_alive():
            self._accepting.join()
        while True:
            with self._lock:
                thread = next(iter(self._threads), None)
            if thread is None:
                break
            thread.join()
            with self._lock:
                self._threads.discard(thread)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            if not self._room.acquire(timeout=0.2):
                continue
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                self._room.release()
                if not self._closed.is_set():
                    _log.warning("a connection could not be accepted: %s", error.strerror or error)
                    self._closed.wait(1.0)
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), name="penstock-worker", daemon=True)
            with self._lock:
                self._connections.add(connection)
                self._threads.add(thread)
                if self._closed.is_set():
                    _shut(connection, socket.SHUT_RD)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        talk = self._opened()
        try:
            with suppress(OSError):  # the peer has gone already, which the first read shows
                prepare_socket(connection)
            self._converse(connection, talk)
            self._leave(connection, talk)
        except HostClosed:
            self._leave(connection, talk)
        except BaseException as error:
            self._failed(error)
        finally:
            talk.release()
            connection.close()
            with self._lock:
                self._connections.discard(connection)
                self._threads.discard(threading.current_thread())
            self._room.release()

    def _converse(self, connection: socket.socket, talk: Conversation) -> None:
        """Take part until the session or the connection is over, or the server closes."""
        session = talk.session
        while True:
            talk.answer()
            data = session.outgoing()
            try:
                received = _exchange(connection, data, session.over, session.patience or talk.pause)
            except TimeoutError:
                if session.patience is None:
                    talk.wake()
                else:
                    session.expire()
                continue
            except OSError as error:  # an OSError of the host's state is no end of a connection
                _log.info("a connection of %s ended: %s", talk.peer, error.strerror or error)
                received = b""
            if not received:
                if not self._closed.is_set():
                    session.lost()
                return
            session.receive(received)

    def _leave(self, connection: socket.socket, talk: Conversation) -> None:
        """Send the goodbye of a session that the end of the server interrupts, if its role has one."""
        if not talk.session.over:
            talk.leave()
            if talk.session.over:
                with suppress(OSError):  # the peer has gone too
                    _exchange(connection, talk.session.outgoing(), True, None)
        talk.session.lost()


def _shut(connection: socket.socket, how: int) -> None:
    with suppress(OSError):  # it is not connected, or its peer has closed it
        connection.shutdown(how)


def _exchange(connection: socket.socket, data: bytes, over: bool, patience: float | None) -> bytes:
    """Send bytes, and return received ones: b"" at the end. After the last bytes wait until the peer has closed."""
    if data:
        connection.settimeout(_SENDING)
        try:
            connection.sendall(data)
        except TimeoutError:
            raise ConnectionError("the peer takes no bytes") from None
    if over:
        _drain(connection)
        return b""
    connection.settimeout(patience)
    return connection.recv(_BLOCK)


def _drain(connection: socket.socket) -> None:
    """Discard input until the peer closes: a connection closed with unread input would lose the ERROR on its way."""
    _shut(connection, socket.SHUT_WR)
    end = time.monotonic() + _CLOSING
    with suppress(TimeoutError):
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(_BLOCK):
                return
