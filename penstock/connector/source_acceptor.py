"""The source acceptor: a worker that receives streams of messages from connectors, and acknowledges committed ones.

Invariants:

- a message that is not newer than the last seen one of its stream is dropped;
- ACK names only messages that were seen before a checkpoint began, after that checkpoint is durable;
- a stream is active in at most one session. A stream that ended is free after a checkpoint that began after its EOS.
"""

from __future__ import annotations

import msgspec

from penstock.connector.errors import ProtocolFault
from penstock.connector.events import DataReceived, Disconnected, StreamClosed, StreamOpened
from penstock.connector.frames import (
    NOTHING,
    Ack,
    Eos,
    ErrorFrame,
    Hello,
    MessageFrame,
    Notify,
    NotifyAck,
    Ok,
    Restart,
)
from penstock.connector.participant import same_cookie
from penstock.connector.session import CREDITS, Rule, Session, SessionSettings, SessionState, Table, peer_failed
from penstock.connector.source_connector import SOURCE_VERSION
from penstock.connector.stream_registry import StreamRegistry

__all__ = ["SOURCE_ACCEPTOR", "BeginCheckpoint", "BeginRollback", "CompleteCheckpoint", "RestartPeer", "SourceAcceptor"]


class BeginCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint begins. It holds all messages that were reported before."""


class CompleteCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint that began last is durable."""


class BeginRollback(msgspec.Struct, frozen=True):
    """The host rolls back: drop messages and refuse streams until the session ends."""


class RestartPeer(msgspec.Struct, frozen=True):
    """Ask the connector to connect again, to this address if one is given."""

    address: str | None = None


class AcceptedStream:
    """One stream of a session."""

    def __init__(self, point: int | None) -> None:
        self.seen = point
        self.acked = point
        """The last message of the checkpoint that began last."""
        self.ended = False
        self.ended_before = False
        """EOS came before the checkpoint that began last."""


class SourceAcceptor:
    """One connection of a connector to a worker."""

    def __init__(
        self,
        cookie: str,
        registry: StreamRegistry,
        settings: SessionSettings | None = None,
        credits: int = CREDITS,
        refill: int = CREDITS // 2,
    ) -> None:
        chosen = settings or SessionSettings(commit_stream=False)
        self.session = Session(self, SOURCE_ACCEPTOR, SessionState.CONNECTED, chosen)
        self.credits = credits
        """Frames that the peer may send. A peer that ignores credits makes it negative."""
        self._cookie = cookie
        self._registry = registry
        self.name = ""
        """The name of the connector, once it said HELLO."""
        self.has_refused = False
        """A stream was refused, and no ACK was sent since."""
        self._most, self._refill = credits, refill
        self._streams: dict[int, AcceptedStream] = {}
        self._rolling_back = False

    @property
    def is_due(self) -> bool:
        """A checkpoint that begins now has messages, or the end of a stream."""
        return any(stream.seen != stream.acked or stream.ended for stream in self._streams.values())

    def hello(self, frame: Hello) -> SessionState:
        """Check the introduction, and grant credits."""
        if frame.version != SOURCE_VERSION:
            raise ProtocolFault(f"Unknown protocol version: {frame.version[:40]!r}, wanted: {SOURCE_VERSION}")
        if not same_cookie(self._cookie, frame.cookie):
            raise ProtocolFault("Bad cookie")
        self.name = frame.instance
        self.session.admit()
        self.session.send(Ok(self._most))
        self.credits = self._most
        self._spend()
        return SessionState.STREAMING

    def notify(self, frame: Notify) -> None:
        """Open a stream at its last committed message, or refuse it."""
        if self._rolling_back or not self._registry.claim(frame.stream):
            self.session.send(NotifyAck(False, frame.stream, frame.point))
            self.has_refused = True
        else:
            point = self._registry.committed(frame.stream)
            self._streams[frame.stream] = AcceptedStream(point)
            self.session.send(NotifyAck(True, frame.stream, NOTHING if point is None else point))
            self.session.emit(StreamOpened(frame.stream, point))
        self._spend()

    def message(self, frame: MessageFrame) -> None:
        """Report a message that is newer than the last one."""
        if self._rolling_back:
            return
        stream = self._stream(frame.stream)
        if not frame.body:
            raise ProtocolFault("No message bytes and BOUNDARY not set")
        if stream.seen is None or frame.message > stream.seen:
            stream.seen = frame.message
            self.session.emit(DataReceived(frame.stream, frame.message, frame.event_time, frame.key, frame.body))
        self._spend()

    def end_stream(self, frame: Eos) -> None:
        """Note the end of a stream. It is free after the next whole checkpoint."""
        if not self._rolling_back:
            self._stream(frame.stream).ended = True
        self._spend()

    def begin_checkpoint(self, _: BeginCheckpoint) -> None:
        """Note how far the checkpoint goes."""
        for stream in self._streams.values():
            stream.acked = stream.seen
            stream.ended_before = stream.ended

    def complete_checkpoint(self, _: CompleteCheckpoint) -> None:
        """Acknowledge the checkpoint, and free streams that ended before it."""
        points = tuple((number, s.acked) for number, s in self._streams.items() if s.acked is not None)
        self._grant(points)
        for number in [number for number, stream in self._streams.items() if stream.ended_before]:
            self._free(number)

    def begin_rollback(self, _: BeginRollback) -> None:
        """Drop messages from now on: none of them is part of a checkpoint."""
        self._rolling_back = True

    def restart(self, command: RestartPeer) -> SessionState:
        """Ask the connector to connect again, and end the session."""
        self.session.send(Restart(command.address))
        self.session.emit(Disconnected())
        return SessionState.CLOSED

    def release(self) -> None:
        """Free all streams: the session is over."""
        for number in list(self._streams):
            self._free(number)

    def _free(self, number: int) -> None:
        del self._streams[number]
        self._registry.release(number)
        self.session.emit(StreamClosed(number))

    def _stream(self, number: int) -> AcceptedStream:
        stream = self._streams.get(number)
        if stream is None or stream.ended:
            raise ProtocolFault(f"Bad/unregistered stream_id {number}")
        return stream

    def _spend(self) -> None:
        """Count a received frame, and grant credits once few are left."""
        self.credits -= 1
        if self.credits <= self._refill:
            self._grant(())

    def _grant(self, points: tuple[tuple[int, int], ...]) -> None:
        granted = self._most - self.credits
        if granted or points:
            self.session.send(Ack(granted, points))
            self.credits = self._most
            self.has_refused = False


_FAILED = (SessionState.FAILED,)
SOURCE_ACCEPTOR: Table = {
    (SessionState.CONNECTED, Hello): Rule(SourceAcceptor.hello, (SessionState.STREAMING,)),
    (SessionState.CONNECTED, ErrorFrame): Rule(peer_failed, _FAILED),
    (SessionState.STREAMING, Notify): Rule(SourceAcceptor.notify),
    (SessionState.STREAMING, MessageFrame): Rule(SourceAcceptor.message),
    (SessionState.STREAMING, Eos): Rule(SourceAcceptor.end_stream),
    (SessionState.STREAMING, ErrorFrame): Rule(peer_failed, _FAILED),
    (SessionState.STREAMING, BeginCheckpoint): Rule(SourceAcceptor.begin_checkpoint),
    (SessionState.STREAMING, CompleteCheckpoint): Rule(SourceAcceptor.complete_checkpoint),
    (SessionState.STREAMING, BeginRollback): Rule(SourceAcceptor.begin_rollback),
    (SessionState.STREAMING, RestartPeer): Rule(SourceAcceptor.restart, (SessionState.CLOSED,)),
}
"""The actions of a source acceptor for each state, frame and command."""
