"""Send the changes of a view to a sink of the Wallaroo connector protocol, as a worker with two-phase commit.

All changes up to one position are a transaction. Invariants:

- changes stay in memory until their transaction is decided. After a lost connection they are sent again;
- a decision is durable with its position before the sink gets it, so the next run continues exactly there;
- `finish` returns after the sink has taken the last decision. After a deadline it reports that the next run repeats it;
- after a decision that could not be written the sink hears nothing. Only the next run knows it.
"""

from __future__ import annotations

import time
from itertools import count
from typing import TypeVar
from urllib.parse import quote

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
)
from penstock.sink.errors import SinkTaken
from penstock.sink.view_sender import ViewSender
from penstock.sink.wallaroo_decisions import SinkLog
from penstock.views import Position

__all__ = ["WallarooSink"]

T = TypeVar("T")
_LOOK = 0.1  # seconds of one wait for the sink
_TRIES = 5  # transactions that the sink refuses before the error
_PATIENCE = 60.0  # seconds for a vote
_LAST = 5.0  # seconds for the last decision, or for a connection after a request to stop
_ACTIVE = "already active"


class _Lost(Exception):
    """The session ended."""


class WallarooSink(ViewSender):
    """A coordinator that sends one view to one sink."""

    contract = "each transaction is committed exactly once, by two-phase commit"

    _log: SinkLog | None = None
    _link: SessionSocket | None = None
    _owed = False  # the sink may not have the last decision

    def begin(self) -> Position | None:
        """Open the log of this sink, and return the position of its last decision."""
        host, port = self._address
        log = self._claimed(f"wallaroo {host}:{port} {self._worker()}")
        self._log = SinkLog(log, self._text, self._stream().encode())
        self._rtags = count(FIRST_RTAG)
        self._backoff, self._next = Backoff(), 0.0  # of `tend`, and the time of its next attempt
        self._owed = self._log.number > 0
        return self._log.position

    def holds(self, position: Position) -> None:
        """Commit all changes up to this position in one transaction."""
        if self._bodies:
            self._commit(position)
            self._clear()
        else:
            self._state.hold(position)

    def tend(self) -> None:
        """Tell a sink the last decision again if the connection was lost since, as nothing confirms a decision."""
        if self._log is None or not self._owed or self._log.failed or time.monotonic() < self._next:
            return
        if self._link is not None and not self._link.session.over:
            self._link.turn(0.0)
        if self._link is None or self._link.session.over:
            try:
                self._connect(time.monotonic() + _LAST)
                self._backoff = Backoff()
            except (OSError, _Lost):
                self._drop()
                self._next = time.monotonic() + self._backoff.next()

    def finish(self) -> None:
        """Wait until the sink has the last decision. Report a sink that does not confirm it."""
        if self._log is None or not self._owed or self._log.failed:
            return
        self._end_stream(time.monotonic() + _LAST)
        if self._owed:
            self.say(f"{self._text}: the sink has not confirmed the last transaction; the next run tells it again")
            self._owed = False

    def close(self) -> None:
        """Finish, and close the connection."""
        if self._log is None:
            return
        try:
            self.finish()
        finally:
            self._drop()
            self._log.close()
            self._log = None

    @property
    def _state(self) -> SinkLog:
        assert self._log is not None, "the sink was begun"
        return self._log

    def _worker(self) -> str:
        return self._sender("worker")

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

    def _connect(self, until: float | None = None) -> SessionSocket:
        worker = self._worker()
        hello = Hello(SINK_VERSION, self._cookie, self.app, worker)
        role = Coordinator(hello, self._stream().encode(), self._state, self._rtags)
        self._drop()  # the other end may have closed it
        self._link = connect_session(role.session, self._address, _LAST)
        self._link.session.do(StartSession())
        self._wait(self._link, ReadyToSend, until)
        return self._link

    def _end_stream(self, end: float) -> None:
        """Send the end of the stream: its acknowledgement shows that the sink has taken all before it."""
        backoff = Backoff()
        while time.monotonic() < end:
            try:
                if self._link is None or self._link.session.over:
                    self._connect(end)
                assert self._link is not None, "it was made"
                self._link.session.do(EndStream())
                self._wait(self._link, StreamClosed, end)
                self._owed = False
                return
            except (OSError, _Lost):
                self._drop()
                time.sleep(backoff.next())

    def _wait(self, link: SessionSocket, kind: type[T], until: float | None = None) -> T:
        """Return the next event of a kind; _Lost with the peer's reason if the session ends before.

        A peer that is silent has no reason: a store that is paused votes later.
        """
        reason, end = "", time.monotonic() + _PATIENCE if until is None else until
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
