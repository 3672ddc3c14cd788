"""A session of the side that connects, over a socket. It works while a call runs, and needs no thread.

Invariants: a failed socket ends the session; a silent peer ends it after the patience of its state.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from penstock.connector.events import Event
from penstock.connector.session import Session

__all__ = ["SessionSocket"]

_PIECE = 1 << 18  # bytes of one read


class SessionSocket:
    """One connection of a coordinator or of a source connector."""

    def __init__(self, session: Session, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self.session = session
        self.reason = "the peer closed the connection"
        """The reason of the end, if the transport ended."""
        self._socket = sock
        self._out = bytearray()
        self._clock = clock
        self._since = clock()

    def turn(self, wait: float) -> list[Event]:
        """Move bytes in both directions, wait for that at most so many seconds, and return the events."""
        try:
            self._exchange(wait)
        except OSError as error:
            self.reason = error.strerror or str(error)
            self.session.lost()
        return self.session.events()

    def close(self) -> None:
        """Close the connection, after the last bytes if the peer takes them at once. A second call does nothing."""
        self._out += self.session.outgoing()
        if self._out:
            with suppress(OSError):
                self._socket.send(self._out)
            self._out.clear()
        self.session.lost()
        self._socket.close()

    def _ready(self, wait: float) -> tuple[bool, bool]:
        """Wait until the socket can be read, or written if there is anything to write."""
        poll = select.poll()  # unlike select, it takes descriptors of any number
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._out else 0))
        found = dict(poll.poll(wait * 1000)).get(self._socket.fileno(), 0)
        ended = bool(found & (select.POLLERR | select.POLLHUP))
        return bool(found & select.POLLIN) or ended, bool(found & select.POLLOUT)

    def _exchange(self, wait: float) -> None:
        self._out += self.session.outgoing()
        readable, writable = self._ready(wait)
        if writable:
            sent = self._socket.send(self._out)
            del self._out[:sent]
        patience = self.session.patience
        if readable:
            data = self._socket.recv(_PIECE)
            self._since = self._clock()
            self.session.receive(data)
            if not data:
                self.session.lost()
        elif patience is not None and self._clock() - self._since > patience:
            self.session.expire()
