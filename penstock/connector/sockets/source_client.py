"""The API of a source: a client that sends messages of streams to a worker, and repeats those that were lost.

It has no thread: it works while a call runs. `send` waits for credits. A program with other work calls `offer` and
`tend`, which never wait for the worker. Invariants:

- a message stays in memory until the worker has acknowledged it. After a reconnection all such messages are sent again,
  in their order, from the worker's own point on;
- a message that the worker has already is not sent, so a program may start its streams again from anywhere before it;
- a call that makes no progress for `patience` seconds fails, with the last reason.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.connector.coordinator import EndStream, StartSession
from penstock.connector.errors import ConnectorFault, PointLost
from penstock.connector.events import (
    Event,
    RestartRequested,
    SessionFailed,
    StreamAcked,
    StreamClosed,
    StreamOpened,
    StreamRefused,
)
from penstock.connector.frame_splitter import LARGEST_FRAME
from penstock.connector.frames import Hello
from penstock.connector.session import SessionState
from penstock.connector.sockets.session_socket import SessionSocket
from penstock.connector.sockets.socket_address import Backoff, address_of, connected
from penstock.connector.source_connector import (
    SOURCE_VERSION,
    OpenStream,
    SendMessage,
    SourceConnector,
    stream_id_of,
)

__all__ = ["LARGEST_MESSAGE", "MOST_WAITING", "ConnectorSource"]

LARGEST_MESSAGE = LARGEST_FRAME - 27
"""The most bytes of a message."""
MOST_WAITING = 64 << 20
"""Bytes of messages that may wait for their acknowledgement."""
_LOOK = 0.2  # seconds of one wait for the socket
_CONNECTING = 5.0  # seconds of one attempt to connect


class ClientStream:
    """The messages of one stream that are not acknowledged."""

    def __init__(self, number: int, name: bytes) -> None:
        self.number = number
        self.name = name
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.sent = 0
        """The first messages of `waiting` that this session has sent."""
        self.last: int | None = None
        self.highest: int | None = None
        """The last message that any session has sent."""
        self.committed: int | None = None
        self.known = False
        """The worker has told its point once."""
        self.asked = self.open = self.ended = self.closed = False
        self.retry_at = 0.0

    def leave(self) -> None:
        """Note the end of a session: its messages are lost, unless they are committed."""
        self.asked = self.open = self.ended = False
        self.sent = 0

    def take(self, point: int) -> int:
        """Drop messages up to a committed one, and return their bytes."""
        size = 0
        self.committed = point if self.committed is None else max(point, self.committed)
        while self.waiting and self.waiting[0][0] <= point:
            size += len(self.waiting.popleft()[1])
            self.sent = max(0, self.sent - 1)
        return size


class ConnectorSource:
    """A source that sends messages to a worker of the connector protocol, each exactly once.

    Ids of a stream increase. After a restart of the program, continue after `committed(stream)`.

    >>> source = ConnectorSource("7100", "cookie", "files")
    >>> source.send("orders", 1, b"")
    Traceback (most recent call last):
    penstock.connector.errors.ConnectorFault: stream 'orders': message 1 is empty; send between 1 and 16,777,216 bytes
    """

    def __init__(self, address: str, cookie: str, name: str, *, patience: float = 60.0) -> None:
        self._address = address_of(address)
        self._where = address
        self._hello = Hello(SOURCE_VERSION, cookie, name, name)
        self._patience = patience
        self._streams: dict[str, ClientStream] = {}
        self._size = 0
        self._role: SourceConnector | None = None
        self._link: SessionSocket | None = None
        self._backoff = Backoff()
        self._retry_at = 0.0
        self._reason = ""
        self._progress = 0
        self._ended = ""
        """The reason that the session gave for its end."""
        self._ending = self._closed = False

    def send(self, stream: str, id: int, body: bytes) -> None:
        """Send a message. It waits for credits, and for memory if too much is not acknowledged."""
        _check_size(stream, id, body)
        known = self._known(stream)
        self._queue(known, stream, id, body)
        self._until(lambda: self._size <= MOST_WAITING and known.sent == len(known.waiting))

    def offer(self, stream: str, id: int, body: bytes) -> None:
        """Queue a message, which `tend` sends as soon as credits allow."""
        _check_size(stream, id, body)
        self._queue(self._stream(stream), stream, id, body)

    def tend(self, wait: float = 0.0) -> None:
        """Connect if needed, and move messages and acknowledgements, for at most about so many seconds."""
        self._turn(wait)

    def end(self) -> None:
        """End all streams as soon as their messages are sent."""
        self._ending = True

    @property
    def ended(self) -> bool:
        """All streams are ended, and all their messages are committed."""
        return all(known.closed for known in self._streams.values())

    @property
    def waiting(self) -> int:
        """The bytes of messages that are not acknowledged."""
        return self._size

    @property
    def trouble(self) -> str | None:
        """The reason that no stream is open, or None. There is none before the first attempt has ended."""
        return None if any(known.open for known in self._streams.values()) else self._reason or None

    def _queue(self, known: ClientStream, stream: str, id: int, body: bytes) -> None:
        if known.last is not None and id <= known.last:
            raise ConnectorFault(f"stream {stream!r}", f"message {id} comes after {known.last}", "let ids increase")
        if not 0 <= id < 2**64 - 1:
            raise ConnectorFault(f"stream {stream!r}", f"{id} is no id", "use an integer from 0 to 2^64 - 2")
        known.last = id
        if known.committed is not None and id <= known.committed:
            return
        known.waiting.append((id, bytes(body)))
        self._size += len(body)

    def committed(self, stream: str) -> int | None:
        """Return the last message that the worker has committed, or None."""
        known = self._known(stream)
        self._turn(0.0)
        return known.committed

    def point(self, stream: str) -> tuple[bool, int | None]:
        """Return whether the worker has told its point, and the last committed message so far. It does not wait."""
        known = self._stream(stream)
        return known.known, known.committed

    def close(self) -> None:
        """End all streams, wait until all messages are committed, and close the connection."""
        if self._closed:
            return
        try:
            self.end()
            self._until(lambda: self.ended)
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once. Messages that are not committed must be sent again."""
        self._closed = True
        self._disconnect("the source is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _stream(self, stream: str) -> ClientStream:
        if self._closed:
            raise ConnectorFault(self._where, "the source is closed", "make another one")
        if stream not in self._streams:
            name = stream.encode()
            self._streams[stream] = ClientStream(stream_id_of(name), name)
        return self._streams[stream]

    def _known(self, stream: str) -> ClientStream:
        """Return a stream, after the worker has told its point."""
        known = self._stream(stream)
        if not known.known:
            self._until(lambda: known.known)
        return known

    def _until(self, done: Callable[[], bool]) -> None:
        """Work until a condition holds; `ConnectorFault` if nothing moves for too long."""
        progress, since = self._progress, time.monotonic()
        self._turn(0.0)
        while not done():
            self._turn(_LOOK)
            if progress != self._progress:
                progress, since = self._progress, time.monotonic()
            elif time.monotonic() - since > self._patience:
                raise ConnectorFault(
                    self._where,
                    f"no progress for {self._patience:g} s ({self._reason or 'the worker did not answer'})",
                    "see whether the worker runs and takes checkpoints, then send again all after `committed`",
                )

    def _turn(self, wait: float) -> None:
        """Connect if needed, send messages while there are credits, and take received bytes."""
        if self._link is None and not self._connect(wait):
            return
        self._fill()
        link = self._link
        assert link is not None
        for event in link.turn(wait):
            self._handle(event)
        if link.session.over and self._link is link:
            self._disconnect(self._ended or link.reason)

    def _connect(self, wait: float) -> bool:
        pause = self._retry_at - time.monotonic()
        if pause > 0:
            time.sleep(min(pause, wait))
            if pause > wait:
                return False
        self._retry_at = time.monotonic() + self._backoff.next()
        try:
            sock = connected(self._address, min(self._patience, _CONNECTING))
        except OSError as error:
            self._reason = error.strerror or str(error)
            return False
        self._role = SourceConnector(self._hello)
        self._role.session.do(StartSession())
        self._link = SessionSocket(self._role.session, sock)
        self._ended = ""
        return True

    def _disconnect(self, reason: str) -> None:
        self._reason = reason
        if self._link is not None:
            self._link.close()
        self._link = self._role = None
        for known in self._streams.values():
            known.leave()

    def _fill(self) -> None:
        """Open streams, and send messages while credits last."""
        role = self._role
        if role is None or role.session.state is not SessionState.STREAMING:
            return
        for known in self._streams.values():
            if known.closed:
                continue
            if not known.asked and time.monotonic() >= known.retry_at:
                role.session.do(OpenStream(known.number, known.name, known.committed))
                known.asked = True
            while known.open and role.credits > 0 and known.sent < len(known.waiting):
                number, body = known.waiting[known.sent]
                role.session.do(SendMessage(known.number, number, body))
                known.sent += 1
                if known.highest is None or number > known.highest:
                    known.highest = number
                    self._progress += 1
            if self._ending and known.open and not known.ended and known.sent == len(known.waiting):
                role.session.do(EndStream(known.number))
                known.ended = True

    def _handle(self, event: Event) -> None:
        if isinstance(event, SessionFailed):
            self._ended = event.text
            if event.is_final:
                self.abort()
                raise ConnectorFault(self._where, f"the worker refused: {event.text}", "compare both configurations")
        elif isinstance(event, RestartRequested):
            self._ended = "the worker asked for a restart"
            if event.address:
                self._address = address_of(event.address)
        elif isinstance(event, StreamOpened | StreamRefused | StreamAcked | StreamClosed):
            known = next(found for found in self._streams.values() if found.number == event.stream)
            self._stream_event(known, event)

    def _stream_event(
        self, known: ClientStream, event: StreamOpened | StreamRefused | StreamAcked | StreamClosed
    ) -> None:
        if isinstance(event, StreamRefused):
            known.asked, known.retry_at = False, time.monotonic() + self._backoff.next()
            self._reason = f"the worker refused stream {known.name.decode()!r} for now: another connection may have it"
            return
        if isinstance(event, StreamOpened):
            if known.committed is not None and (event.point is None or event.point < known.committed):
                self.abort()
                raise PointLost(
                    f"stream {known.name.decode()!r}",
                    f"the worker has committed message {event.point}, and had committed {known.committed} before",
                    "restore the worker, or start the source again from the worker's point",
                )
            known.open = known.known = True
        if isinstance(event, StreamClosed):
            known.closed = True
        elif event.point is not None and event.point != known.committed:
            self._size -= known.take(event.point)
            self._progress += 1
            self._backoff.reset()


def _check_size(stream: str, id: int, body: bytes) -> None:
    if not 0 < len(body) <= LARGEST_MESSAGE:
        size = "empty" if not body else f"of {len(body):,} bytes"
        raise ConnectorFault(
            f"stream {stream!r}", f"message {id} is {size}", f"send between 1 and {LARGEST_MESSAGE:,} bytes"
        )
