"""Run one connection in any role as a state machine without I/O: bytes and commands in, events and bytes out.

A role has a table (state, frame or command) → action, and an actor that performs the actions. Invariants:

- a frame that the table does not list for the state ends the session with ERROR, and changes nothing;
- a command that the table does not list raises `ProtocolFault`, and changes nothing;
- each action ends in a state that its rule names, so a diagram that is drawn from the table is complete;
- a session that is over discards all input. A fault ends this session only.

The host feeds received bytes, handles `events()`, sends `outgoing()`, and closes the transport once `over` is true. If
nothing arrives for `patience` seconds, the host calls `expire()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.connector.errors import ProtocolFault
from penstock.connector.events import Disconnected, Event, SessionFailed
from penstock.connector.frame_splitter import LARGEST_FRAME, LARGEST_HELLO, FrameSplitter
from penstock.connector.frames import (
    COMMIT_STREAM,
    AnyFrame,
    CommitMessage,
    ErrorFrame,
    MessageFrame,
    commit_message_of,
    decode,
    encode,
    name_of,
)

__all__ = [
    "CREDITS",
    "LONGEST_QUEUE",
    "PATIENCE",
    "SILENT",
    "Rule",
    "Session",
    "SessionSettings",
    "SessionState",
    "Table",
    "peer_failed",
]

CREDITS = 500
"""The credits that an acceptor grants."""
SILENT = "the peer was silent"
"""The begin of the text of a session that ended because its peer did not answer in time."""
LONGEST_QUEUE = 64 << 10
"""The most bytes that wait while a session is not approved yet."""


class SessionState(Enum):
    """The states of all roles."""

    INITIAL = "Initial"
    CONNECTED = "Connected"
    APPROVAL = "Approval"
    INTRODUCTION = "Introduction"
    PHASE_1 = "AwaitPhase1"
    PHASE_2 = "AwaitPhase2"
    HANDSHAKE = "Handshake"
    NOTIFYING = "Notifying"
    LISTING = "Listing"
    READY = "Ready"
    VOTING = "Voting"
    PREPARED = "Prepared"
    ENDING = "Ending"
    STREAMING = "Streaming"
    FAILED = "Failed"
    CLOSED = "Closed"


PATIENCE: Mapping[SessionState, float] = {
    SessionState.CONNECTED: 10.0,
    SessionState.HANDSHAKE: 10.0,
    SessionState.NOTIFYING: 10.0,
    SessionState.LISTING: 10.0,
    SessionState.VOTING: 60.0,
    SessionState.ENDING: 10.0,
}
"""Seconds that a state may wait for its peer. A state that is not listed waits without a limit."""
_OVER = (SessionState.FAILED, SessionState.CLOSED)
_LONGEST_TEXT = 1000  # characters of an ERROR


class Rule(NamedTuple):
    """An action, and the states that may follow it. Without any, the state stays."""

    action: Callable[[Any, Any], SessionState | None]
    after: tuple[SessionState, ...] = ()


Table = Mapping[tuple[SessionState, type[Any]], Rule]


class SessionSettings(msgspec.Struct, frozen=True):
    """The options of a session."""

    largest: int = LARGEST_FRAME
    """The limit of a frame after HELLO."""
    strict: bool = False
    """Refuse bytes after the last field of a frame."""
    silent: bool = False
    """Close without ERROR. Some sinks end their process at an ERROR."""
    commit_stream: bool = True
    """Stream 0 has messages of two-phase commit."""


class Session:
    """One connection."""

    def __init__(self, actor: object, table: Table, first: SessionState, settings: SessionSettings) -> None:
        self.state = first
        self._actor = actor
        self._table = table
        self._settings = settings
        self._splitter = FrameSplitter(LARGEST_HELLO)
        self._events: list[Event] = []
        self._out = bytearray()

    @property
    def over(self) -> bool:
        """The session is over: send the last bytes, then close the transport."""
        return self.state in _OVER

    @property
    def patience(self) -> float | None:
        """Seconds that this state may wait for its peer, or None."""
        return PATIENCE.get(self.state)

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer."""
        if self.over:
            return
        self._splitter.feed(data)
        self._run()

    def do(self, command: object) -> None:
        """Perform a command; `ProtocolFault` if this state does not allow it."""
        rule = self._table.get((self.state, type(command)))
        if rule is None:
            raise ProtocolFault(f"{type(command).__name__} is not possible in state {self.state.value}")
        self._apply(rule, command)
        self._run()

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def outgoing(self) -> bytes:
        """Return the bytes to send since the last call."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def expire(self) -> None:
        """End the session, because its peer was silent for too long."""
        self.fail(f"{SILENT} for {self.patience:g} s in state {self.state.value}")

    def lost(self) -> None:
        """Note that the transport ended."""
        if not self.over:
            self.state = SessionState.CLOSED
            self.emit(Disconnected())

    def fail(self, text: str) -> None:
        """End the session with ERROR. Its reason is a fault of the peer."""
        if self.over:
            return
        if not self._settings.silent:
            self.send(ErrorFrame(text[:_LONGEST_TEXT]))
        self.emit(SessionFailed(text, by_peer=False))
        self.state = SessionState.FAILED

    def admit(self) -> None:
        """Accept frames of full size: the handshake is done."""
        self._splitter.limit = self._settings.largest

    def send(self, *frames: AnyFrame | CommitMessage) -> None:
        """Send frames of the actor."""
        self._out += b"".join(map(encode, frames))

    def emit(self, event: Event) -> None:
        """Report an event of the actor."""
        self._events.append(event)

    def _run(self) -> None:
        """Take all whole frames, unless the session waits for its approval."""
        try:
            while not self.over and self.state is not SessionState.APPROVAL:
                payload = self._splitter.next()
                if payload is None:
                    return
                self._take(self._decoded(payload))
            if self.state is SessionState.APPROVAL and self._splitter.waiting > LONGEST_QUEUE:
                raise ProtocolFault(f"more than {LONGEST_QUEUE:,} bytes arrived before the approval")
        except ProtocolFault as fault:
            self.fail(fault.reason)
        except BaseException:
            self.state = SessionState.FAILED
            raise

    def _decoded(self, payload: bytes) -> AnyFrame | CommitMessage:
        frame = decode(payload, self._settings.strict)
        if isinstance(frame, MessageFrame) and frame.stream == COMMIT_STREAM and self._settings.commit_stream:
            return commit_message_of(frame, self._settings.strict)
        return frame

    def _take(self, frame: AnyFrame | CommitMessage) -> None:
        rule = self._table.get((self.state, type(frame)))
        if rule is None:
            early = self.state is SessionState.CONNECTED
            text = "Bad protocol FSM state" if early else "Invalid message"
            raise ProtocolFault(f"{text}: {name_of(type(frame))} in state {self.state.value}")
        self._apply(rule, frame)

    def _apply(self, rule: Rule, value: object) -> None:
        state = rule.action(self._actor, value)
        assert state in (rule.after or (None,)), f"{rule.action.__qualname__} ends in {state}"
        if state is not None:
            self.state = state


class Acting(Protocol):
    """An actor of a role."""

    session: Session


def peer_failed(actor: Acting, frame: ErrorFrame) -> SessionState:
    """End the session, because the peer sent ERROR."""
    actor.session.emit(SessionFailed(frame.text, by_peer=True))
    return SessionState.FAILED
