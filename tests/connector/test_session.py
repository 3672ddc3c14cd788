"""The session: its tables, approval, limits, deadlines, and the end of one session beside others."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connector import (
    COORDINATOR,
    LARGEST_FRAME,
    LARGEST_HELLO,
    LONGEST_QUEUE,
    PARTICIPANT,
    PATIENCE,
    SOURCE_ACCEPTOR,
    SOURCE_CONNECTOR,
    Ack,
    Approve,
    Deny,
    Disconnected,
    Eos,
    ErrorFrame,
    Hello,
    HelloReceived,
    ListUncommitted,
    MessageFrame,
    Notify,
    NotifyAck,
    Ok,
    Participant,
    Phase1,
    Phase1Reply,
    Phase2,
    ProtocolFault,
    ReplyUncommitted,
    Restart,
    SessionFailed,
    SessionSettings,
    SessionState,
    Table,
    WorkersLeft,
    encode,
)
from tests.connector.memory_sink import MemorySink
from tests.connector.reference.frames import COOKIE, split
from tests.tidy.connector_diagram import PAGE, written

TABLES = {
    "participant": PARTICIPANT,
    "coordinator": COORDINATOR,
    "source connector": SOURCE_CONNECTOR,
    "source acceptor": SOURCE_ACCEPTOR,
}
FRAMES: list[Any] = [
    Hello("v0.0.1", COOKIE, "app", "w1"),
    Ok(500),
    ErrorFrame("the peer failed"),
    Notify(1, b"app-w-w1-id-7", 0),
    NotifyAck(True, 1, 0),
    MessageFrame(1, 0, 0, b"", b"x"),
    Ack(1, ((1, 0),)),
    Restart(),
    Eos(1),
    ListUncommitted(1),
    ReplyUncommitted(1),
    Phase1("t1", ((1, 0, 0),)),
    Phase1Reply("t1", True),
    Phase2("t1", True),
    WorkersLeft(7, ("w2",)),
]
HELLO = encode(FRAMES[0])


def participant() -> Participant:
    return Participant(COOKIE)


def replies(data: bytes) -> list[tuple[Any, ...]]:
    frames, rest = split(data)
    assert rest == b""
    return frames


def in_state(state: SessionState, settings: SessionSettings | None = None) -> Participant:
    """Return a participant in a state."""
    made = Participant(COOKIE, settings)
    ways = {
        SessionState.CONNECTED: [],
        SessionState.INTRODUCTION: FRAMES[:1],
        SessionState.PHASE_1: [FRAMES[0], FRAMES[3], FRAMES[9]],
        SessionState.PHASE_2: [FRAMES[0], FRAMES[3], FRAMES[9], FRAMES[11]],
    }
    for frame in ways[state]:
        made.session.receive(encode(frame))
        if made.session.state is SessionState.APPROVAL:
            made.session.do(Approve(MemorySink().state("w1")))
    assert made.session.state is state
    made.session.outgoing()
    made.session.events()
    return made


REFUSED = [
    pytest.param(state, frame, id=f"{state.value} {type(frame).__name__}")
    for state in (SessionState.CONNECTED, SessionState.INTRODUCTION, SessionState.PHASE_1, SessionState.PHASE_2)
    for frame in FRAMES
    if (state, type(frame)) not in PARTICIPANT
]


@pytest.mark.parametrize(("state", "frame"), REFUSED)
def test_a_frame_outside_the_table_ends_the_session_with_error(state: SessionState, frame: Any) -> None:
    made = in_state(state)
    made.session.receive(encode(frame) + HELLO)
    assert made.session.over
    [(kind, text)] = replies(made.session.outgoing())
    assert kind == "error"
    assert text.startswith("Bad protocol FSM state" if state is SessionState.CONNECTED else "Invalid message")
    assert made.session.events() == [SessionFailed(text, by_peer=False)]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_state_of_a_table_is_reached_and_an_error_of_the_peer_ends_it(table: Table) -> None:
    reached = {after for rule in table.values() for after in rule.after}
    states = {state for state, _ in table}
    assert states - reached <= {SessionState.INITIAL, SessionState.CONNECTED}
    waiting = states - {SessionState.INITIAL, SessionState.APPROVAL}
    assert {state for state, kind in table if kind is ErrorFrame} == waiting
    assert reached & {SessionState.FAILED}


def test_the_diagrams_of_the_page_are_those_of_the_tables() -> None:
    text = PAGE.read_text("utf-8")
    assert text == written(text), "write them with `python -m tests.tidy.connector_diagram`"


def test_frames_wait_for_the_approval_and_keep_the_order_of_answers() -> None:
    made = participant()
    made.session.receive(HELLO + encode(FRAMES[3]) + encode(ListUncommitted(77778)))
    assert made.session.events() == [HelloReceived("w1", "app")]
    assert made.session.outgoing() == b""
    made.session.do(Approve(MemorySink().state("w1")))
    assert replies(made.session.outgoing()) == [
        ("ok", 500),
        ("notify_ack", True, 1, 0),
        ("uncommitted", 77778, []),
    ]


def test_a_refused_worker_gets_the_reason() -> None:
    made = participant()
    made.session.receive(HELLO)
    made.session.do(Deny("Hello message from worker w1: already active"))
    assert replies(made.session.outgoing()) == [("error", "Hello message from worker w1: already active")]
    assert made.session.over
    assert not made.is_approved


def test_the_queue_before_the_approval_is_bounded() -> None:
    made = participant()
    made.session.receive(HELLO + bytes(LONGEST_QUEUE))
    assert not made.session.over
    made.session.receive(b"\0")
    [(kind, text)] = replies(made.session.outgoing())
    assert (kind, text) == ("error", "more than 65,536 bytes arrived before the approval")


def test_a_frame_is_small_before_hello_and_large_after_it() -> None:
    early = participant()
    early.session.receive((LARGEST_HELLO + 1).to_bytes(4, "big"))
    assert replies(early.session.outgoing()) == [("error", "a frame has 65,537 bytes, and the limit is 65,536")]
    late = in_state(SessionState.PHASE_1)
    late.session.receive(LARGEST_FRAME.to_bytes(4, "big"))
    assert not late.session.over
    later = in_state(SessionState.PHASE_1)
    later.session.receive((LARGEST_FRAME + 1).to_bytes(4, "big"))
    assert replies(later.session.outgoing()) == [("error", "a frame has 16,777,244 bytes, and the limit is 16,777,243")]


def test_strict_sessions_refuse_bytes_after_the_last_field() -> None:
    frame = b"\0\0\0\x0a\x08" + bytes(7) + b"\x01" + b"!"
    lenient = in_state(SessionState.PHASE_1)
    lenient.session.receive(frame)
    assert replies(lenient.session.outgoing()) == [("ack", 1, [(1, 0)])]
    strict = in_state(SessionState.PHASE_1, SessionSettings(strict=True))
    strict.session.receive(frame)
    assert replies(strict.session.outgoing()) == [("error", "EOS has 1 bytes after its last field")]


def test_a_silent_session_closes_without_error() -> None:
    made = Participant(COOKIE, SessionSettings(silent=True))
    made.session.receive(encode(Ok(1)))
    assert made.session.outgoing() == b""
    assert made.session.over


def test_a_silent_peer_ends_the_session() -> None:
    made = participant()
    assert made.session.patience == PATIENCE[SessionState.CONNECTED]
    made.session.expire()
    assert replies(made.session.outgoing()) == [("error", "the peer was silent for 10 s in state Connected")]
    assert in_state(SessionState.PHASE_1).session.patience is None


def test_an_error_of_the_peer_ends_the_session_without_an_answer() -> None:
    made = in_state(SessionState.PHASE_2)
    made.session.receive(encode(ErrorFrame("the worker failed")) + HELLO)
    assert made.session.outgoing() == b""
    assert made.session.events() == [SessionFailed("the worker failed", by_peer=True)]
    assert made.session.over


def test_a_lost_transport_ends_the_session_once() -> None:
    made = in_state(SessionState.PHASE_2)
    made.session.lost()
    made.session.lost()
    made.session.fail("too late")
    assert made.session.events() == [Disconnected()]
    assert made.session.outgoing() == b""
    assert made.session.state is SessionState.CLOSED


def test_a_command_outside_the_table_changes_nothing() -> None:
    made = participant()
    with pytest.raises(ProtocolFault, match="Deny is not possible in state Connected"):
        made.session.do(Deny("no"))
    assert made.session.state is SessionState.CONNECTED
    assert made.session.outgoing() == b""


def test_a_fault_of_the_store_ends_the_session_and_reaches_the_host() -> None:
    made = in_state(SessionState.PHASE_1)

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    made.state.append = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the disk is full"):
        made.session.receive(encode(MessageFrame(1, 0, 0, b"", b"x")))
    assert made.session.over
    assert made.session.outgoing() == b""


def test_a_long_reason_is_cut() -> None:
    made = participant()
    made.session.fail("x" * 5000)
    assert replies(made.session.outgoing()) == [("error", "x" * 1000)]
