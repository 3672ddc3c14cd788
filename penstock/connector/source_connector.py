"""The source connector: a program that sends streams of messages to a worker, and repeats uncommitted ones.

Message ids of a stream increase. Invariants:

- a message counts as committed only after an ACK. Neither sending it nor a NOTIFY_ACK without a point does that;
- the worker's point overrides the program's: after `StreamOpened` the source continues just after it;
- credits limit messages only. NOTIFY and EOS are always sent.
"""

from __future__ import annotations

import hashlib
from enum import Enum

import msgspec

from penstock.connector.coordinator import EndStream, StartSession
from penstock.connector.errors import ProtocolFault
from penstock.connector.events import RestartRequested, StreamAcked, StreamClosed, StreamOpened, StreamRefused
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
from penstock.connector.session import Rule, Session, SessionSettings, SessionState, Table, peer_failed

__all__ = ["SOURCE_CONNECTOR", "SOURCE_VERSION", "OpenStream", "SendMessage", "SourceConnector", "stream_id_of"]

SOURCE_VERSION = "0.0.1"
"""The version of the protocol in source use."""


class OpenStream(msgspec.Struct, frozen=True):
    """Open a stream. `point` is the last message that this side knows to be committed."""

    stream: int
    name: bytes
    point: int | None = None


class SendMessage(msgspec.Struct, frozen=True):
    """Send a message of an open stream."""

    stream: int
    message: int
    body: bytes
    key: bytes = b""
    event_time: int = 0


class StreamPhase(Enum):
    """The states of a stream."""

    NOTIFIED = "NotifySent"
    OPEN = "Open"
    ENDING = "Ending"
    CLOSED = "Closed"


class SourceStream:
    """One stream of a session."""

    def __init__(self) -> None:
        self.phase = StreamPhase.NOTIFIED
        self.sent: int | None = None
        """The last message that was sent, or that the worker had before."""
        self.acked: int | None = None


def stream_id_of(name: bytes) -> int:
    """Return the usual id of a stream: the first 8 bytes of the SHA-256 of its name.

    >>> hex(stream_id_of(b"st"))
    '0x56af4bde70a47ae7'
    """
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big")


class SourceConnector:
    """One connection of a source to a worker."""

    def __init__(self, hello: Hello, settings: SessionSettings | None = None) -> None:
        chosen = settings or SessionSettings(commit_stream=False)
        self.session = Session(self, SOURCE_CONNECTOR, SessionState.INITIAL, chosen)
        self.credits = 0
        """Messages that may be sent now. NOTIFY may make it negative."""
        self._hello = hello
        self._streams: dict[int, SourceStream] = {}

    def start(self, _: StartSession) -> SessionState:
        """Introduce this side."""
        self.session.send(self._hello)
        return SessionState.HANDSHAKE

    def ok(self, frame: Ok) -> SessionState:
        """Take the credits of the worker."""
        self.session.admit()
        self.credits = frame.credits
        return SessionState.STREAMING

    def open_stream(self, command: OpenStream) -> None:
        """Ask the worker to open a stream."""
        known = self._streams.get(command.stream)
        if known is not None and known.phase is not StreamPhase.CLOSED:
            raise ProtocolFault(f"stream {command.stream} is already open")
        point = NOTHING if command.point is None else command.point
        self.session.send(Notify(command.stream, command.name, point))
        self._streams[command.stream] = SourceStream()
        self.credits -= 1

    def notify_ack(self, frame: NotifyAck) -> None:
        """Open or refuse a stream."""
        stream = self._streams.get(frame.stream)
        if stream is None or stream.phase is not StreamPhase.NOTIFIED:
            raise ProtocolFault(f"NOTIFY_ACK for stream {frame.stream}, which did not ask")
        if not frame.success:
            stream.phase = StreamPhase.CLOSED
            self.session.emit(StreamRefused(frame.stream))
            return
        stream.phase = StreamPhase.OPEN
        stream.sent = stream.acked = None if frame.point == NOTHING else frame.point
        self.session.emit(StreamOpened(frame.stream, stream.sent))

    def send(self, command: SendMessage) -> None:
        """Send a message."""
        stream = self._open(command.stream)
        if not command.body:
            raise ProtocolFault("a message needs a body of at least one byte")
        if stream.sent is not None and command.message <= stream.sent:
            raise ProtocolFault(f"message ids increase: {command.message} comes after {stream.sent}")
        if command.message == NOTHING:
            raise ProtocolFault(f"the id {NOTHING} means that nothing was processed; use a smaller one")
        if self.credits <= 0:
            raise ProtocolFault("no credits are left; wait for an ACK")
        self.session.send(MessageFrame(command.stream, command.message, command.event_time, command.key, command.body))
        stream.sent = command.message
        self.credits -= 1

    def end(self, command: EndStream) -> None:
        """End a stream. It closes once its last message is committed."""
        stream = self._open(command.stream)
        self.session.send(Eos(command.stream))
        stream.phase = StreamPhase.ENDING
        if stream.sent is None:
            self._close(command.stream, stream)

    def ack(self, frame: Ack) -> None:
        """Take credits and acknowledgements."""
        self.credits += frame.credits
        for number, point in frame.streams:
            stream = self._streams.get(number)
            if stream is None or point == NOTHING:
                continue
            if stream.sent is None or point > stream.sent:
                raise ProtocolFault(f"ACK of message {point} of stream {number}, which was not sent")
            if stream.acked is None or point > stream.acked:
                stream.acked = point
                self.session.emit(StreamAcked(number, point))
            if stream.phase is StreamPhase.ENDING and point == stream.sent:
                self._close(number, stream)

    def restart(self, frame: Restart) -> SessionState:
        """Close the session. The host connects again, and sends all that is not committed."""
        self.session.emit(RestartRequested(frame.address))
        return SessionState.CLOSED

    def _open(self, number: int) -> SourceStream:
        stream = self._streams.get(number)
        if stream is None or stream.phase is not StreamPhase.OPEN:
            raise ProtocolFault(f"stream {number} is not open")
        return stream

    def _close(self, number: int, stream: SourceStream) -> None:
        stream.phase = StreamPhase.CLOSED
        self.session.emit(StreamClosed(number))


_CLOSED, _FAILED = (SessionState.CLOSED,), (SessionState.FAILED,)
SOURCE_CONNECTOR: Table = {
    (SessionState.INITIAL, StartSession): Rule(SourceConnector.start, (SessionState.HANDSHAKE,)),
    (SessionState.HANDSHAKE, Ok): Rule(SourceConnector.ok, (SessionState.STREAMING,)),
    (SessionState.HANDSHAKE, Restart): Rule(SourceConnector.restart, _CLOSED),
    (SessionState.HANDSHAKE, ErrorFrame): Rule(peer_failed, _FAILED),
    (SessionState.STREAMING, OpenStream): Rule(SourceConnector.open_stream),
    (SessionState.STREAMING, NotifyAck): Rule(SourceConnector.notify_ack),
    (SessionState.STREAMING, SendMessage): Rule(SourceConnector.send),
    (SessionState.STREAMING, EndStream): Rule(SourceConnector.end),
    (SessionState.STREAMING, Ack): Rule(SourceConnector.ack),
    (SessionState.STREAMING, Restart): Rule(SourceConnector.restart, _CLOSED),
    (SessionState.STREAMING, ErrorFrame): Rule(peer_failed, _FAILED),
}
"""The actions of a source connector for each state, frame and command."""
