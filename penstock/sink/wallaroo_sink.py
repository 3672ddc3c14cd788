"""Send the changes of a view to a sink of the Wallaroo connector protocol, as a worker with two-phase commit.

Each message is a line of a file sink: {"view", "group", "value", "position"}, with "deleted" if the group is gone. All
changes up to one position are a transaction. Invariants:

- changes stay in memory until their transaction is decided. After a lost connection they are sent again;
- a decision is durable with its position before the sink gets it, so the next run continues exactly there;
- `close` returns after the sink has taken the last decision, or after a deadline. Then the next run repeats it;
- after a decision that could not be written the sink hears nothing. Only the next run knows it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import count
from typing import TypeVar
from urllib.parse import quote

from penstock.cache import hidden
from penstock.connector import (
    FIRST_RTAG,
    SILENT,
    SINK_VERSION,
    Backoff,
    ConnectorFault,
    Coordinator,
    DecideTransaction,
    EndStream,
    Hello,
    PrepareTransaction,
    ReadyToSend,
    SendBytes,
    SessionFailed,
    SessionSocket,
    StartSession,
    StreamClosed,
    VoteReceived,
    connect_session,
    is_worker_name,
)
from penstock.sink.change_lines import change_line
from penstock.sink.errors import SinkBusy, SinkTaken
from penstock.sink.protocol import Claiming, nobody
from penstock.sink.wallaroo_decisions import SinkLog
from penstock.views import Change, Position

__all__ = ["WallarooSink"]

T = TypeVar("T")
_LOOK = 0.1  # seconds of one wait for the sink
_TRIES = 5  # transactions that the sink refuses before the error
_PATIENCE = 60.0  # seconds for a vote
_LAST = 5.0  # seconds for the last decision, or for a connection after a request to stop
_MOST = 256 << 20  # bytes of a transaction
_ACTIVE = "already active"


class _Lost(Exception):
    """The session ended."""


class WallarooSink:
    """A coordinator that sends one view to one sink. `folder` is that of the store, `app` the name of its app."""

    contract = "each transaction is committed exactly once, by two-phase commit"

    def __init__(
        self,
        text: str,
        address: tuple[str, int],
        cookie: str,
        name: str | None,
        view: str,
        envelope: str,
        dumps: Callable[[object], str],
    ) -> None:
        self.claim: Claiming = nobody
        self.folder = "."
        self.app = "penstock"
        self.stopped: Callable[[], bool] = lambda: False
        self.say: Callable[[str], None] = lambda text: None
        self._text = hidden(text)
        self._address = address
        self._cookie = cookie
        self._name = name
        self._view = view
        self._envelope = envelope
        self._dumps = dumps
        self._log: SinkLog | None = None
        self._link: SessionSocket | None = None
        self._rtags = count(FIRST_RTAG)
        self._bodies: list[bytes] = []
        self._size = 0
        self._owed = False  # the sink may not have the last decision

    def begin(self) -> Position | None:
        """Open the log of this sink, and return the position of its last decision."""
        worker = self._worker()
        place = f"wallaroo {self._address[0]}:{self._address[1]} {worker}"
        other = self.claim(place)
        if other is not None:
            raise SinkBusy(self._text, other)
        file = blake2b(place.encode(), digest_size=8).hexdigest()
        self._log = SinkLog(os.path.join(self.folder, "connector", f"{file}.log"), self._text, self._stream().encode())
        self._owed = self._log.number > 0
        return self._log.position

    def write(self, changes: Sequence[Change]) -> None:
        """Keep changes for the transaction of their position."""
        for change in changes:
            body = (self._dumps(change_line(change, self._envelope)) + "\n").encode()
            self._bodies.append(body)
            self._size += len(body)
        if self._size > _MOST:
            raise SinkTaken(
                self._text,
                f"the changes up to one position have more than {_MOST >> 20} MB",
                "send this view to a file or to a topic",
            )

    def holds(self, position: Position) -> None:
        """Commit all changes up to this position in one transaction."""
        if self._bodies:
            self._commit(position)
            self._bodies.clear()
            self._size = 0
        else:
            self._state.hold(position)

    def close(self) -> None:
        """Wait until the sink has the last decision, and close the connection."""
        if self._log is None:
            return
        try:
            if self._owed and not self._log.failed:
                self._finish(time.monotonic() + _LAST)
        finally:
            self._drop()
            self._log.close()
            self._log = None

    @property
    def _state(self) -> SinkLog:
        assert self._log is not None, "the sink was begun"
        return self._log

    def _worker(self) -> str:
        name = self._name or self.app
        if not is_worker_name(name):
            raise SinkTaken(
                self._text, f"{name!r} is no name of a worker", "add name= with letters, digits, _, - and ."
            )
        return name

    def _stream(self) -> str:
        """Return the name of the stream, with which the names of its transactions begin."""
        return f"{quote(self._view)}-w-{self._worker()}-id-1"

    def _commit(self, position: Position) -> None:
        """Repeat the transaction until it is decided to commit."""
        refused = 0
        while True:
            reason = f"it refused the changes up to position {position}"
            try:
                link = self._connected()
                for body in self._bodies:
                    link.session.do(SendBytes(body))
                number = self._state.number + 1
                link.session.do(PrepareTransaction(f"{self._stream()}:c_id={number}"))
                if self._wait(link, VoteReceived).commit:
                    self._state.next_position = position
                    link.session.do(DecideTransaction(True))
                    self._owed = True
                    link.turn(0.0)
                    return
            except _Lost as lost:
                reason = lost.args[0]
            self._drop()
            if not reason:  # a connection that was lost is tried again for as long as it takes
                continue
            refused += 1
            if refused >= _TRIES:
                remedy = "see the log of the sink; a sink with other data needs another name="
                raise SinkTaken(self._text, f"{reason}, {refused} times", remedy)

    def _connected(self) -> SessionSocket:
        """Return a session that is ready to send. Wait for a sink that can't be reached."""
        if self._link is not None and not self._link.session.over:
            self._link.turn(0.0)
        if self._link is not None and not self._link.session.over:
            return self._link
        backoff = Backoff()
        said, until = False, time.monotonic() + _LAST
        while True:
            try:
                return self._connect()
            except (OSError, _Lost) as error:
                self._drop()
                reason = error.args[0] if isinstance(error, _Lost) else error.strerror or str(error)
                if isinstance(error, _Lost) and reason and _ACTIVE not in reason:
                    raise
            if not self.stopped():
                until = time.monotonic() + _LAST
            elif time.monotonic() > until:
                raise ConnectorFault(self._text, f"it can't be reached: {reason}", "its changes come with the next run")
            if not said:
                said = True
                self.say(f"{self._text}: {reason or 'the connection was lost'}; waiting for it")
            time.sleep(backoff.next())

    def _connect(self) -> SessionSocket:
        worker = self._worker()
        hello = Hello(SINK_VERSION, self._cookie, self.app, worker)
        role = Coordinator(hello, self._stream().encode(), self._state, self._rtags)
        self._link = connect_session(role.session, self._address, _LAST)
        self._link.session.do(StartSession())
        self._wait(self._link, ReadyToSend)
        return self._link

    def _finish(self, end: float) -> None:
        """Send the end of the stream: its acknowledgement shows that the sink has taken all before it."""
        backoff = Backoff()
        while time.monotonic() < end:
            try:
                if self._link is None or self._link.session.over:
                    self._connect()
                assert self._link is not None, "it was made"
                self._link.session.do(EndStream())
                self._wait(self._link, StreamClosed)
                self._owed = False
                return
            except (OSError, _Lost):
                self._drop()
                time.sleep(backoff.next())

    def _wait(self, link: SessionSocket, kind: type[T]) -> T:
        """Return the next event of a kind; _Lost with the peer's reason if the session ends before.

        A peer that is silent has no reason: a store that is paused votes later.
        """
        reason, end = "", time.monotonic() + _PATIENCE
        while True:
            for event in link.turn(_LOOK):
                if isinstance(event, kind):
                    return event
                if isinstance(event, SessionFailed) and event.is_final:
                    raise SinkTaken(self._text, f"the sink refused: {event.text}", "compare both configurations")
                if isinstance(event, SessionFailed) and not event.text.startswith(SILENT):
                    reason = event.text
            if link.session.over or time.monotonic() > end:
                raise _Lost(reason)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
