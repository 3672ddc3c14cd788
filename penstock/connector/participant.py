"""The participant: a sink that receives the data of one worker and takes part in two-phase commit.

Offsets count bytes of the worker's output. Data that arrives while a vote is open is a tail: a commit keeps it for the
next transaction, and a rollback cuts it. Invariants:

- each vote is durable before its reply is sent, and each decision before the next frame is taken;
- a reply answers exactly one question. No vote is sent before the list of open transactions: it would end the worker;
- a list names at most one transaction, so only one vote can be open. A second transaction is voted abort, and that vote
  is not stored.
"""

from __future__ import annotations

import hmac

import msgspec

from penstock.connector.errors import ProtocolFault
from penstock.connector.events import HelloReceived, WorkersGone
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
    WorkersLeft,
)
from penstock.connector.log_records import OpenVote
from penstock.connector.participant_state import ParticipantState
from penstock.connector.session import CREDITS, Rule, Session, SessionSettings, SessionState, Table, peer_failed
from penstock.connector.wire_fields import is_worker_name

__all__ = ["SINK_VERSION", "Approve", "Deny", "Participant", "same_cookie"]

SINK_VERSION = "v0.0.1"
"""The version of the protocol in sink use."""


class Approve(msgspec.Struct, frozen=True):
    """The host accepts the worker, whose state it hands over."""

    state: ParticipantState


class Deny(msgspec.Struct, frozen=True):
    """The host refuses the worker."""

    reason: str


def same_cookie(expected: str, given: str) -> bool:
    """Compare cookies in a time that does not depend on their difference."""
    return hmac.compare_digest(expected.encode(), given.encode())


class Participant:
    """One connection of a worker to a sink.

    After `HelloReceived` the host calls `session.do` with `Approve` or `Deny`.
    """

    def __init__(self, cookie: str, settings: SessionSettings | None = None) -> None:
        self.session = Session(self, PARTICIPANT, SessionState.CONNECTED, settings or SessionSettings())
        self.worker: str | None = None
        self._cookie = cookie
        self._stored: ParticipantState | None = None
        self._notified = False

    @property
    def is_approved(self) -> bool:
        """The host has approved this session, so it has the worker's state until it is over."""
        return self._stored is not None

    @property
    def state(self) -> ParticipantState:
        """The durable state of the worker. Only an approved session has one."""
        assert self._stored is not None, "the session is not approved"
        return self._stored

    def hello(self, frame: Hello) -> SessionState:
        """Check the introduction, and ask the host for approval."""
        if frame.version != SINK_VERSION:
            raise ProtocolFault(f"Unknown protocol version: {frame.version[:40]!r}, wanted: {SINK_VERSION}")
        if not same_cookie(self._cookie, frame.cookie):
            raise ProtocolFault("Bad cookie")
        if not is_worker_name(frame.instance):
            raise ProtocolFault(f"Bad worker name: {frame.instance[:40]!r}")
        self.worker = frame.instance
        self.session.emit(HelloReceived(frame.instance, frame.program))
        return SessionState.APPROVAL

    def approve(self, command: Approve) -> SessionState:
        """Begin the session at the state of the worker."""
        self._stored = command.state
        command.state.restore()
        self.session.admit()
        self.session.send(Ok(CREDITS))
        return SessionState.INTRODUCTION

    def deny(self, command: Deny) -> SessionState:
        """End the session before it touches any state."""
        self.session.fail(command.reason)
        return SessionState.FAILED

    def notify(self, frame: Notify) -> None:
        """Open the stream of data."""
        if frame.stream != DATA_STREAM:
            raise ProtocolFault(f"Unsupported stream id {frame.stream}")
        self.state.open_stream(frame.name)
        self._notified = True
        self.session.send(NotifyAck(True, DATA_STREAM, self.state.received))

    def message(self, frame: MessageFrame) -> None:
        """Accept data at the received offset. A gap makes the next vote abort."""
        self._check_stream(frame.stream)
        if not frame.body:
            raise ProtocolFault("No message bytes")
        received = self.state.received
        if frame.message < received:
            raise ProtocolFault(f"Duplicate data: offset {frame.message}, and {received} bytes are received")
        if frame.message > received:
            self.state.force_abort(f"a gap: offset {frame.message}, and {received} bytes are received")
            return
        self.state.append(frame.body)

    def end_stream(self, frame: Eos) -> None:
        """Answer with the received offset."""
        self._check_stream(frame.stream)
        self.session.send(Ack(1, ((frame.stream, self.state.received),)))

    def list_uncommitted(self, frame: ListUncommitted) -> SessionState:
        """List the open transaction, if there is one."""
        vote = self.state.vote
        transactions = (vote.transaction,) if vote is not None else ()
        self.state.note_list(transactions)
        self.session.send(ReplyUncommitted(frame.rtag, transactions))
        return self._round()

    def phase_1(self, frame: Phase1) -> SessionState:
        """Vote, and make the vote durable before its reply."""
        vote = self.state.vote
        if vote is None:
            commit = self._is_valid(frame) and not self.state.forced
            commit = self.state.prepare(OpenVote(frame.transaction, frame.ranges, commit))
        else:  # a repeated question gets its answer again; any other transaction has to wait for the decision
            commit = vote == OpenVote(frame.transaction, frame.ranges, commit=True)
        self.session.send(Phase1Reply(frame.transaction, commit))
        return self._round()

    def phase_2(self, frame: Phase2) -> SessionState:
        """Follow the decision. It has no reply."""
        vote = self.state.vote
        if vote is None or vote.transaction != frame.transaction:
            self.state.note_unknown(frame.transaction, frame.commit)
        elif not frame.commit:
            self.state.rollback()
        elif vote.commit:
            self.state.commit()
        else:
            raise ProtocolFault(f"Commit of {frame.transaction}, and the vote was abort")
        introduced = self.session.state is not SessionState.INTRODUCTION
        return self._round() if introduced else SessionState.INTRODUCTION

    def workers_left(self, frame: WorkersLeft) -> None:
        """Report workers that left. The sender itself has not left."""
        others = tuple(worker for worker in frame.workers if worker != self.worker)
        if others:
            self.session.emit(WorkersGone(others))

    def _round(self) -> SessionState:
        return SessionState.PHASE_1 if self.state.vote is None else SessionState.PHASE_2

    def _check_stream(self, stream: int) -> None:
        if stream != DATA_STREAM or not self._notified:
            raise ProtocolFault(f"Bad/unregistered stream_id {stream}")

    def _is_valid(self, frame: Phase1) -> bool:
        """Return whether the transaction continues the last commit with bytes that are here."""
        if len(frame.ranges) != 1:
            return False
        stream, start, end = frame.ranges[0]
        return stream == DATA_STREAM and start == self.state.committed and start <= end <= self.state.received


_ROUND = (SessionState.PHASE_1, SessionState.PHASE_2)
_IN_SESSION: Table = {
    (state, kind): rule
    for state in (SessionState.INTRODUCTION, *_ROUND)
    for kind, rule in {
        Notify: Rule(Participant.notify),
        MessageFrame: Rule(Participant.message),
        Eos: Rule(Participant.end_stream),
        WorkersLeft: Rule(Participant.workers_left),
        ErrorFrame: Rule(peer_failed, (SessionState.FAILED,)),
    }.items()
}
PARTICIPANT: Table = {
    (SessionState.CONNECTED, Hello): Rule(Participant.hello, (SessionState.APPROVAL,)),
    (SessionState.CONNECTED, ErrorFrame): Rule(peer_failed, (SessionState.FAILED,)),
    (SessionState.APPROVAL, Approve): Rule(Participant.approve, (SessionState.INTRODUCTION,)),
    (SessionState.APPROVAL, Deny): Rule(Participant.deny, (SessionState.FAILED,)),
    **_IN_SESSION,
    (SessionState.INTRODUCTION, ListUncommitted): Rule(Participant.list_uncommitted, _ROUND),
    (SessionState.PHASE_1, ListUncommitted): Rule(Participant.list_uncommitted, (SessionState.PHASE_1,)),
    (SessionState.PHASE_2, ListUncommitted): Rule(Participant.list_uncommitted, (SessionState.PHASE_2,)),
    (SessionState.INTRODUCTION, Phase2): Rule(Participant.phase_2, (SessionState.INTRODUCTION,)),
    (SessionState.PHASE_1, Phase1): Rule(Participant.phase_1, (SessionState.PHASE_2,)),
    (SessionState.PHASE_1, Phase2): Rule(Participant.phase_2, (SessionState.PHASE_1,)),
    (SessionState.PHASE_2, Phase1): Rule(Participant.phase_1, (SessionState.PHASE_2,)),
    (SessionState.PHASE_2, Phase2): Rule(Participant.phase_2, _ROUND),
}
"""The actions of a participant for each state, frame and command."""
