"""The coordinator: a worker that sends data to a sink and decides its transactions.

A transaction ends at the current offset. While it is open, no data is sent. Invariants:

- the transaction is durable before phase 1, and the decision to commit before phase 2. All else is presumed abort;
- an abort ends the session. The next session settles the transaction through the sink's list of open transactions;
- a session begins at the end of the last decided commit. The host sends again all data after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.connector.coordinator_state import CoordinatorState, OpenTransaction
from penstock.connector.errors import ProtocolFault
from penstock.connector.events import Disconnected, ReadyToSend, RestartRequested, StreamClosed, VoteReceived
from penstock.connector.frames import (
    DATA_STREAM,
    Ack,
    Eos,
    ErrorFrame,
    Hello,
    ListUncommitted,
    MessageFrame,
    Notify,
    NotifyAck,
    Ok,
    Phase1,
    Phase1Reply,
    Phase2,
    ReplyUncommitted,
    Restart,
    WorkersLeft,
    encode,
)
from penstock.connector.session import Rule, Session, SessionSettings, SessionState, Table, peer_failed

__all__ = [
    "COORDINATOR",
    "FIRST_RTAG",
    "Coordinator",
    "DecideTransaction",
    "EndStream",
    "NameWorkers",
    "PrepareTransaction",
    "SendBytes",
    "StartSession",
]

FIRST_RTAG = 77778
"""The first tag of a question for open transactions."""
_LEAST_CREDITS = 2
_UNUSED = 7  # the tag of WorkersLeft


class StartSession(msgspec.Struct, frozen=True):
    """The transport is connected: introduce this side."""


class SendBytes(msgspec.Struct, frozen=True):
    """Send bytes at the current offset."""

    body: bytes


class PrepareTransaction(msgspec.Struct, frozen=True):
    """End a transaction at the current offset, and ask for a vote."""

    transaction: str


class DecideTransaction(msgspec.Struct, frozen=True):
    """Decide the open transaction. A commit needs all votes."""

    commit: bool


class NameWorkers(msgspec.Struct, frozen=True):
    """Tell the sink which workers left the cluster."""

    workers: tuple[str, ...]


class EndStream(msgspec.Struct, frozen=True):
    """End a stream, after its last message."""

    stream: int = DATA_STREAM


class Coordinator:
    """One connection of a worker to a sink. `rtags` counts the questions of all its connections."""

    def __init__(
        self,
        hello: Hello,
        stream_name: bytes,
        state: CoordinatorState,
        rtags: Iterator[int],
        settings: SessionSettings | None = None,
    ) -> None:
        self.session = Session(self, COORDINATOR, SessionState.INITIAL, settings or SessionSettings())
        self.offset = 0
        """The offset of the next byte to send."""
        self._hello = hello
        self._name = stream_name
        self._state = state
        self._rtag = next(rtags)

    def start(self, _: StartSession) -> SessionState:
        """Abort a transaction that an earlier session left open, and introduce this side."""
        if self._state.open is not None:
            self._state.decide(False)
        self.offset = self._state.committed
        self.session.send(self._hello, Notify(DATA_STREAM, self._name, self.offset), ListUncommitted(self._rtag))
        return SessionState.HANDSHAKE

    def ok(self, frame: Ok) -> SessionState:
        """Take the answer to HELLO."""
        if frame.credits < _LEAST_CREDITS:
            raise ProtocolFault(f"OK grants {frame.credits} credits, and a worker needs {_LEAST_CREDITS}")
        self.session.admit()
        return SessionState.NOTIFYING

    def notify_ack(self, frame: NotifyAck) -> SessionState:
        """Take the answer to NOTIFY. Its point has no meaning here: the state of this side decides."""
        if not frame.success or frame.stream != DATA_STREAM:
            raise ProtocolFault(f"The sink refused stream {frame.stream}")
        return SessionState.LISTING

    def settle(self, frame: ReplyUncommitted) -> SessionState:
        """Decide the transaction that an earlier session left open in the sink."""
        if frame.rtag != self._rtag:
            raise ProtocolFault(f"ReplyUncommitted has tag {frame.rtag}, and {self._rtag} was asked")
        if len(frame.transactions) > 1:
            raise ProtocolFault(f"The sink has {len(frame.transactions)} open transactions, and one is the most")
        for transaction in frame.transactions:
            self.session.send(Phase2(transaction, self._state.is_committed(transaction)))
        self.session.emit(ReadyToSend(self.offset))
        return SessionState.READY

    def send(self, command: SendBytes) -> None:
        """Send data."""
        if not command.body:
            raise ProtocolFault("an empty body ends other sinks; send at least one byte")
        self.session.send(MessageFrame(DATA_STREAM, self.offset, 0, b"", command.body))
        self.offset += len(command.body)

    def prepare(self, command: PrepareTransaction) -> SessionState:
        """Store the transaction, and ask for the vote."""
        question = Phase1(command.transaction, ((DATA_STREAM, self._state.committed, self.offset),))
        encode(question)  # a bad name is refused before it is stored
        self._state.prepare(OpenTransaction(command.transaction, self.offset))
        self.session.send(question)
        return SessionState.VOTING

    def vote(self, frame: Phase1Reply) -> SessionState:
        """Take the vote. An abort vote decides the transaction."""
        expected = self._transaction()
        if frame.transaction != expected:
            raise ProtocolFault(f"A vote for {frame.transaction} came, and {expected} is open")
        self.session.emit(VoteReceived(frame.transaction, frame.commit))
        return SessionState.PREPARED if frame.commit else self._abort()

    def decide(self, command: DecideTransaction) -> SessionState:
        """Store the decision, and send it if it is commit."""
        if not command.commit:
            return self._abort()
        transaction = self._transaction()
        self._state.decide(True)
        self.session.send(Phase2(transaction, True))
        return SessionState.READY

    def cancel(self, command: DecideTransaction) -> SessionState:
        """Abort a transaction whose vote is still on its way."""
        if command.commit:
            raise ProtocolFault("DecideTransaction to commit is not possible before the vote")
        return self._abort()

    def workers_left(self, command: NameWorkers) -> None:
        """Send the names of workers that left."""
        self.session.send(WorkersLeft(_UNUSED, command.workers))

    def end(self, command: EndStream) -> SessionState:
        """End the stream, and wait for its last acknowledgement."""
        self.session.send(Eos(command.stream))
        return SessionState.ENDING

    def ended(self, _: Ack) -> SessionState:
        """Close the session after the last acknowledgement."""
        self.session.emit(StreamClosed(DATA_STREAM))
        return SessionState.CLOSED

    def restart(self, frame: Restart) -> SessionState:
        """Close the session. In sink use the address has no meaning."""
        self.session.emit(RestartRequested(None))
        return SessionState.CLOSED

    def _transaction(self) -> str:
        assert self._state.open is not None, "a vote needs an open transaction"
        return self._state.open.transaction

    def _abort(self) -> SessionState:
        self._state.decide(False)
        self.session.emit(Disconnected())
        return SessionState.CLOSED


_CLOSED, _FAILED = (SessionState.CLOSED,), (SessionState.FAILED,)
COORDINATOR: Table = {
    (SessionState.INITIAL, StartSession): Rule(Coordinator.start, (SessionState.HANDSHAKE,)),
    (SessionState.HANDSHAKE, Ok): Rule(Coordinator.ok, (SessionState.NOTIFYING,)),
    (SessionState.NOTIFYING, NotifyAck): Rule(Coordinator.notify_ack, (SessionState.LISTING,)),
    (SessionState.LISTING, ReplyUncommitted): Rule(Coordinator.settle, (SessionState.READY,)),
    (SessionState.READY, SendBytes): Rule(Coordinator.send),
    (SessionState.READY, NameWorkers): Rule(Coordinator.workers_left),
    (SessionState.READY, PrepareTransaction): Rule(Coordinator.prepare, (SessionState.VOTING,)),
    (SessionState.READY, EndStream): Rule(Coordinator.end, (SessionState.ENDING,)),
    (SessionState.VOTING, Phase1Reply): Rule(Coordinator.vote, (SessionState.PREPARED, SessionState.CLOSED)),
    (SessionState.VOTING, DecideTransaction): Rule(Coordinator.cancel, _CLOSED),
    (SessionState.PREPARED, DecideTransaction): Rule(Coordinator.decide, (SessionState.READY, SessionState.CLOSED)),
    (SessionState.ENDING, Ack): Rule(Coordinator.ended, _CLOSED),
    **{
        (state, kind): rule
        for state in (
            SessionState.HANDSHAKE,
            SessionState.NOTIFYING,
            SessionState.LISTING,
            SessionState.READY,
            SessionState.VOTING,
            SessionState.PREPARED,
            SessionState.ENDING,
        )
        for kind, rule in {Restart: Rule(Coordinator.restart, _CLOSED), ErrorFrame: Rule(peer_failed, _FAILED)}.items()
    },
}
"""The actions of a coordinator for each state, frame and command."""
