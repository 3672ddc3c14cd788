"""Events that a session reports to its host."""

from __future__ import annotations

import msgspec

__all__ = [
    "DataReceived",
    "Disconnected",
    "Event",
    "HelloReceived",
    "ReadyToSend",
    "RestartRequested",
    "SessionFailed",
    "StreamAcked",
    "StreamClosed",
    "StreamOpened",
    "StreamRefused",
    "VoteReceived",
    "WorkersGone",
]


class SessionFailed(msgspec.Struct, frozen=True):
    """One side ended the session with ERROR."""

    text: str
    by_peer: bool

    @property
    def is_final(self) -> bool:
        """The peer refuses the cookie or the version, so it refuses each further session too."""
        return self.by_peer and self.text.startswith(("Bad cookie", "Unknown protocol version"))


class Disconnected(msgspec.Struct, frozen=True):
    """The session ended without ERROR."""


class HelloReceived(msgspec.Struct, frozen=True):
    """A worker asks a participant for approval."""

    worker: str
    program: str


class WorkersGone(msgspec.Struct, frozen=True):
    """A worker reports that others left its cluster."""

    workers: tuple[str, ...]


class ReadyToSend(msgspec.Struct, frozen=True):
    """The coordinator may send data. The next byte has this offset."""

    offset: int


class VoteReceived(msgspec.Struct, frozen=True):
    """The participant voted."""

    transaction: str
    commit: bool


class RestartRequested(msgspec.Struct, frozen=True):
    """The peer asks for a reconnection, to this address if it names one."""

    address: str | None


class StreamOpened(msgspec.Struct, frozen=True):
    """A stream is open. Its source continues after this message; None: from its first one."""

    stream: int
    point: int | None


class StreamRefused(msgspec.Struct, frozen=True):
    """A stream is refused: it is active elsewhere, or the worker rolls back. Try again later."""

    stream: int


class StreamAcked(msgspec.Struct, frozen=True):
    """All messages of a stream up to this one are committed."""

    stream: int
    point: int


class StreamClosed(msgspec.Struct, frozen=True):
    """A stream ended, and all its messages are committed."""

    stream: int


class DataReceived(msgspec.Struct, frozen=True):
    """An acceptor received a message of a stream."""

    stream: int
    message: int
    event_time: int
    key: bytes
    body: bytes


Event = (
    SessionFailed
    | Disconnected
    | HelloReceived
    | WorkersGone
    | ReadyToSend
    | VoteReceived
    | RestartRequested
    | StreamOpened
    | StreamRefused
    | StreamAcked
    | StreamClosed
    | DataReceived
)
