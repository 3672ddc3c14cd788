"""The coordinator: its introduction, a round, votes and decisions, and each frame that it refuses."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from penstock.connector import (
    COORDINATOR,
    FIRST_RTAG,
    Ack,
    Coordinator,
    DecideTransaction,
    Disconnected,
    EndStream,
    ErrorFrame,
    Hello,
    ListUncommitted,
    MemoryCoordinatorState,
    MessageFrame,
    NameWorkers,
    Notify,
    NotifyAck,
    Ok,
    OpenTransaction,
    Phase1,
    Phase1Reply,
    Phase2,
    PrepareTransaction,
    ProtocolFault,
    ReadyToSend,
    ReplyUncommitted,
    Restart,
    SendBytes,
    SessionFailed,
    SessionSettings,
    SessionState,
    StartSession,
    StreamClosed,
    VoteReceived,
    encode,
)
from tests.connector.frame_tuples import tuple_of
from tests.connector.reference.frames import COOKIE, split
from tests.connector.test_session import FRAMES

NAME = b"app-w-w1-id-7"
INTRODUCTION: list[Any] = [Ok(500), NotifyAck(True, 1, 99), ReplyUncommitted(FIRST_RTAG)]
ROUND = [SendBytes(b"hello\n"), PrepareTransaction("t1")]


class Worker:
    """A coordinator, and the commands and frames that lead it to a state."""

    def __init__(self, state: MemoryCoordinatorState | None = None, silent: bool = False) -> None:
        self.state = state or MemoryCoordinatorState()
        hello = Hello("v0.0.1", COOKIE, "app", "w1")
        self.role = Coordinator(hello, NAME, self.state, count(FIRST_RTAG), SessionSettings(silent=silent))
        self.session = self.role.session

    def go(self, *inputs: Any) -> Worker:
        """Take commands and frames."""
        for value in inputs:
            if isinstance(value, tuple(_FRAMES)):
                self.session.receive(encode(value))
            else:
                self.session.do(value)
        return self

    def ready(self, *more: Any) -> Worker:
        """Introduce the worker, drop the frames of that, and go on."""
        self.go(StartSession(), *INTRODUCTION)
        self.session.events()
        self.session.outgoing()
        return self.go(*more)

    @property
    def sent(self) -> list[tuple[Any, ...]]:
        return split(self.session.outgoing())[0]


_FRAMES = {type(frame) for frame in FRAMES}


def tuples(*frames: Any) -> list[tuple[Any, ...]]:
    return [tuple_of(frame) for frame in frames]


def test_the_introduction_needs_no_answer_between_its_frames() -> None:
    worker = Worker().go(StartSession())
    assert worker.sent == tuples(Hello("v0.0.1", COOKIE, "app", "w1"), Notify(1, NAME, 0), ListUncommitted(77778))
    worker.go(*INTRODUCTION)
    assert worker.session.events() == [ReadyToSend(0)]
    assert worker.session.state is SessionState.READY


def test_a_round_with_commit() -> None:
    worker = Worker().ready(*ROUND)
    assert worker.sent == tuples(MessageFrame(1, 0, 0, b"", b"hello\n"), Phase1("t1", ((1, 0, 6),)))
    assert worker.state.open == OpenTransaction("t1", 6)
    worker.go(Phase1Reply("t1", True))
    assert worker.session.events() == [VoteReceived("t1", True)]
    assert worker.state.committed == 0
    worker.go(DecideTransaction(True))
    assert worker.sent == tuples(Phase2("t1", True))
    assert (worker.state.committed, worker.state.open) == (6, None)
    worker.go(SendBytes(b"x"), PrepareTransaction("t2"))
    assert worker.sent == tuples(MessageFrame(1, 6, 0, b"", b"x"), Phase1("t2", ((1, 6, 7),)))


def test_an_empty_round() -> None:
    worker = Worker().ready(PrepareTransaction("t1"))
    assert worker.sent == tuples(Phase1("t1", ((1, 0, 0),)))


def test_the_valve_is_closed_while_a_transaction_is_open() -> None:
    for more in ([], [Phase1Reply("t1", True)]):
        worker = Worker().ready(*ROUND, *more)
        for command in (SendBytes(b"x"), PrepareTransaction("t2"), EndStream()):
            with pytest.raises(ProtocolFault, match="is not possible in state"):
                worker.go(command)


def test_an_abort_vote_ends_the_session_and_sends_no_phase_2() -> None:
    worker = Worker().ready(*ROUND)
    assert len(worker.sent) == 2
    worker.go(Phase1Reply("t1", False))
    assert worker.session.events() == [VoteReceived("t1", False), Disconnected()]
    assert worker.session.over
    assert worker.sent == []
    assert (worker.state.committed, worker.state.open) == (0, None)


@pytest.mark.parametrize("votes", [[], [Phase1Reply("t1", True)]], ids=["before the vote", "after the vote"])
def test_a_decision_to_abort_ends_the_session(votes: list[Any]) -> None:
    worker = Worker().ready(*ROUND, *votes, DecideTransaction(False))
    assert worker.session.over
    assert (worker.state.committed, worker.state.open) == (0, None)


def test_a_commit_needs_the_vote() -> None:
    worker = Worker().ready(*ROUND)
    with pytest.raises(ProtocolFault, match="not possible before the vote"):
        worker.go(DecideTransaction(True))
    assert worker.session.state is SessionState.VOTING


def test_a_listed_transaction_gets_its_durable_decision() -> None:
    first = Worker().ready(*ROUND, Phase1Reply("t1", True))
    first.go(DecideTransaction(True))
    again = Worker(first.state).go(StartSession(), *INTRODUCTION[:2], ReplyUncommitted(FIRST_RTAG, ("t1",)))
    assert again.sent[3:] == tuples(Phase2("t1", True))
    assert again.session.events() == [ReadyToSend(6)]


def test_a_listed_transaction_without_a_decision_is_aborted() -> None:
    first = Worker().ready(*ROUND, Phase1Reply("t1", True))
    again = Worker(first.state).go(StartSession(), *INTRODUCTION[:2], ReplyUncommitted(FIRST_RTAG, ("t1",)))
    assert again.sent[3:] == tuples(Phase2("t1", False))
    assert again.session.events() == [ReadyToSend(0)]
    assert first.state.open is None


def test_a_transaction_that_is_not_listed_gets_no_phase_2() -> None:
    first = Worker().ready(*ROUND, Phase1Reply("t1", True), DecideTransaction(True))
    again = Worker(first.state).go(StartSession(), *INTRODUCTION)
    assert len(again.sent) == 3


def test_the_tag_of_the_question_counts_connections() -> None:
    tags = count(FIRST_RTAG)
    for tag in (77778, 77779):
        role = Coordinator(Hello("v0.0.1", COOKIE, "app", "w1"), NAME, MemoryCoordinatorState(), tags)
        role.session.do(StartSession())
        assert split(role.session.outgoing())[0][2] == ("list", tag)


def test_eos_closes_after_its_acknowledgement() -> None:
    worker = Worker().ready(EndStream(), Ack(1, ((1, 0),)))
    assert worker.session.events() == [StreamClosed(1)]
    assert worker.session.state is SessionState.CLOSED


def test_workers_that_left_are_named() -> None:
    assert Worker().ready(NameWorkers(("w2",))).sent == [("workers_left", 7, ["w2"])]


def test_an_empty_body_and_a_bad_name_are_refused_before_anything_is_stored() -> None:
    worker = Worker().ready()
    with pytest.raises(ProtocolFault, match="at least one byte"):
        worker.go(SendBytes(b""))
    with pytest.raises(ProtocolFault, match="is no transaction id"):
        worker.go(PrepareTransaction("é"))
    assert worker.state.open is None
    assert worker.session.state is SessionState.READY


@pytest.mark.parametrize(
    ("before", "frame", "words"),
    [
        ([], Ok(1), "OK grants 1 credits"),
        (INTRODUCTION[:1], NotifyAck(False, 1, 0), "refused stream 1"),
        (INTRODUCTION[:1], NotifyAck(True, 2, 0), "refused stream 2"),
        (INTRODUCTION[:2], ReplyUncommitted(7), "tag 7, and 77778 was asked"),
        (INTRODUCTION[:2], ReplyUncommitted(FIRST_RTAG, ("t1", "t2")), "2 open transactions"),
        (INTRODUCTION[:2], Phase1Reply("t1", True), "Phase1Reply in state Listing"),
        (INTRODUCTION, ReplyUncommitted(FIRST_RTAG), "ReplyUncommitted in state Ready"),
        (INTRODUCTION, Ok(500), "OK in state Ready"),
        (INTRODUCTION, NotifyAck(True, 1, 0), "NOTIFY_ACK in state Ready"),
        (INTRODUCTION, Ack(1), "ACK in state Ready"),
        (INTRODUCTION, Phase1Reply("t1", True), "Phase1Reply in state Ready"),
        ([*INTRODUCTION, *ROUND], Phase1Reply("t2", True), "A vote for t2 came, and t1 is open"),
    ],
    ids=[
        "few credits", "refused stream", "other stream", "other tag", "two open", "vote before list", "second list",
        "second ok", "second notify_ack", "ack without eos", "vote without question", "vote for another",
    ],
)  # fmt: skip
def test_a_wrong_frame_of_a_sink_ends_the_session(before: list[Any], frame: Any, words: str) -> None:
    worker = Worker().go(StartSession(), *before)
    worker.session.outgoing()
    worker.session.events()
    worker.go(frame)
    [(kind, text)] = worker.sent
    assert kind == "error"
    assert words in text
    assert worker.session.events() == [SessionFailed(text, by_peer=False)]


REFUSED = [
    pytest.param(inputs, frame, id=f"{state.value} {type(frame).__name__}")
    for state, inputs in {
        SessionState.HANDSHAKE: INTRODUCTION[:0],
        SessionState.NOTIFYING: INTRODUCTION[:1],
        SessionState.LISTING: INTRODUCTION[:2],
        SessionState.READY: INTRODUCTION,
        SessionState.VOTING: [*INTRODUCTION, *ROUND],
        SessionState.PREPARED: [*INTRODUCTION, *ROUND, Phase1Reply("t1", True)],
        SessionState.ENDING: [*INTRODUCTION, EndStream()],
    }.items()
    for frame in FRAMES
    if (state, type(frame)) not in COORDINATOR
]


@pytest.mark.parametrize(("inputs", "frame"), REFUSED)
def test_a_frame_outside_the_table_ends_the_session_silently_if_asked(inputs: list[Any], frame: Any) -> None:
    worker = Worker(silent=True).go(StartSession(), *inputs)
    worker.session.outgoing()
    worker.go(frame)
    assert worker.session.over
    assert worker.sent == []


STATES = [
    *(pytest.param(INTRODUCTION[:end], id=f"after {end} answers") for end in range(4)),
    pytest.param([*INTRODUCTION, *ROUND], id="before the vote"),
    pytest.param([*INTRODUCTION, *ROUND, Phase1Reply("t1", True)], id="after the vote"),
]


@pytest.mark.parametrize("before", STATES)
def test_a_restart_closes_the_session_and_its_address_has_no_meaning(before: list[Any]) -> None:
    worker = Worker().go(StartSession(), *before)
    worker.session.outgoing()
    worker.go(Restart("elsewhere:1"))
    assert worker.session.state is SessionState.CLOSED
    assert worker.sent == []


@pytest.mark.parametrize("before", STATES)
def test_an_error_of_the_sink_ends_the_session(before: list[Any]) -> None:
    worker = Worker().go(StartSession(), *before, ErrorFrame("the sink failed"))
    assert worker.session.events()[-1] == SessionFailed("the sink failed", by_peer=True)
    assert worker.session.state is SessionState.FAILED
