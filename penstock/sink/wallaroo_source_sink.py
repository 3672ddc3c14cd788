"""Send the changes of a view to a worker of the Wallaroo connector protocol, as a source connector with one stream.

Invariants:

- a message is durable in the log with its id before it is sent, so a worker that has an id has this message;
- after each connection the worker's own point decides which message comes next;
- `finish` returns after the worker has acknowledged all messages. An error says how many the next run sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.connector import LARGEST_MESSAGE, MOST_WAITING, ConnectorFault, PointLost, Source
from penstock.sink.errors import SinkTaken
from penstock.sink.view_sender import ELSEWHERE, ViewSender
from penstock.sink.wallaroo_source_log import MessageLog
from penstock.views import Change, Position

__all__ = ["WallarooSourceSink"]

_LOOK = 0.1  # seconds of one wait for the worker
_LAST = 5.0  # seconds for a connection, after a request to stop
_PATIENCE = 60.0  # seconds for an acknowledgement, after a request to stop
_OTHER = "give this sink another name=, which is sent all rows first"


class WallarooSourceSink(ViewSender):
    """A source connector of one view."""

    contract = "each message is taken exactly once: its id is durable before it is sent"

    _log: MessageLog | None = None
    _source: Source | None = None
    _said: str | None = None
    _ending = False
    _newest: int | None = None  # the last message before this client, until the worker has told its point

    def begin(self) -> Position | None:
        """Open the log, and return the position up to which it has all changes."""
        stream = self._stream()
        log = self._claimed(f"wallaroo+source {self._at} {stream}")
        self._log = MessageLog(log, stream.encode())
        self._connect()
        return self._log.position

    def _check_message(self, change: Change, body: bytes) -> None:
        if len(body) > LARGEST_MESSAGE:
            group = self._dumps(change.group)[:100]
            self._refuse(f"a change of group {group} has {len(body):,} bytes, too many for a message", ELSEWHERE)

    def holds(self, position: Position) -> None:
        """Make the messages up to this position durable, and send them. Wait if too many are not acknowledged."""
        assert self._log is not None, "the sink was begun"
        if not self._bodies:
            self._log.hold(position)
            return
        for number, body in self._log.add(self._bodies, position):
            self._open.offer(self._stream(), number, body)
        self._clear()
        self.tend()
        self._wait(lambda: self._open.waiting <= MOST_WAITING)

    def tend(self, wait: float = 0.0) -> None:
        """Move messages and acknowledgements. A worker that can't be reached is tried again and again."""
        if self._log is None:
            return
        try:
            self._open.tend(wait)
        except PointLost:
            self._connect()
        except ConnectorFault as fault:
            raise SinkTaken(self._text, fault.reason, fault.remedy) from fault
        known, point = self._open.point(self._stream())
        if known:
            self._check(self._log, point)
        self._tell(self._open.trouble)

    def finish(self) -> None:
        """Wait until the worker has acknowledged all messages, and end the stream."""
        if self._log is None:
            return
        self._ending = True
        self._open.end()
        self._wait(lambda: not self._open.waiting)
        until = time.monotonic() + _LAST  # all messages are acknowledged, so nothing depends on the last answer
        while not self._open.ended and self._open.trouble is None and time.monotonic() < until:
            self.tend(_LOOK)

    def close(self) -> None:
        """Close the connection and the log. The next run sends messages that are not acknowledged."""
        if self._source is not None:
            self._source.abort()
            self._source = None
        if self._log is not None:
            self._log.close()
            self._log = None

    @property
    def _open(self) -> Source:
        assert self._source is not None, "the sink was begun"
        return self._source

    def _stream(self) -> str:
        """Return the name of the stream."""
        return f"{self._sender('connector')}/{self._view}"

    @property
    def _at(self) -> str:
        host, port = self._address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _connect(self) -> None:
        """Begin anew with all messages of the log. Once the worker tells its point, drop those up to it."""
        assert self._log is not None, "the sink was begun"
        if self._source is not None:
            self._source.abort()
        self._newest = self._log.last
        self._source = Source(self._at, self._cookie, self._sender("connector"), patience=_LAST)
        for number, body in self._log.after(0):
            self._source.offer(self._stream(), number, body)
        if self._ending:
            self._source.end()

    def _check(self, log: MessageLog, point: int | None) -> None:
        """Compare the worker's point with the log. Drop acknowledged messages if the log is long."""
        last = point or 0
        newest, self._newest = log.last if self._newest is None else self._newest, None
        if last > newest:
            self._refuse(
                f"the worker has message {last} of stream {self._stream()!r}, and this store has sent {newest} "
                "messages: another store sends them, or this one was restored",
                _OTHER,
            )
        if last + 1 < log.first:
            self._refuse(
                f"the worker asks for messages after {last}, which it had acknowledged, and "
                f"this store has those from {log.first} on",
                f"restore the newest state of the worker, or {_OTHER}",
            )
        if point is not None:
            log.drop(point)

    def _wait(self, done: Callable[[], bool]) -> None:
        """Tend until a condition holds. After a request to stop, end without progress."""
        least, since = self._open.waiting, time.monotonic()
        while not done():
            self.tend(_LOOK)
            if self._open.waiting < least or not self.stopped():
                least, since = self._open.waiting, time.monotonic()
            trouble = self._open.trouble
            if time.monotonic() - since > (_PATIENCE if trouble is None else _LAST):
                raise ConnectorFault(
                    self._text,
                    f"the worker has not acknowledged {self._open.waiting:,} bytes of view {self._view!r}: "
                    f"{trouble or 'it takes no checkpoint'}",
                    "the next run sends them",
                )

    def _tell(self, trouble: str | None) -> None:
        """Report once that the worker does not answer, and once that it does again."""
        if trouble is None and self._said is not None:
            self.say(f"{self._text}: the worker answers again")
        elif trouble is not None and self._said is None:
            self.say(f"{self._text}: {trouble}; waiting for the worker")
        self._said = trouble
