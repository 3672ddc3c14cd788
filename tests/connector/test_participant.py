"""The participant: the rows of its tables that the shared cases do not have, and the frames that would end a worker."""

from __future__ import annotations

import pytest

from penstock.connector import CommitVote, DecisionUnknown, LoggedState, SessionState, UncommittedListed
from tests.connector.memory_sink import CLOSED, MemorySink
from tests.connector.reference.frames import VERSION, Frame
from tests.connector.reference.sink.cases import ABC, LIST, VOTE, abort, commit, data, hello, notify, on, phase1

START = on(1, hello(), notify(), LIST)


def play(*frames: Frame, sink: MemorySink | None = None) -> list[list[Frame]]:
    """Return the replies to frames after the introduction."""
    return (sink or MemorySink()).play([*START, *on(1, *frames)]).replies[len(START) :]


def refused(reply: list[Frame], words: str) -> None:
    """Check that a reply is ERROR with these words, and the end of the connection."""
    assert [frame[0] for frame in reply] == ["error", "closed"]
    assert words in reply[0][1]


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "é", "w 1", "x" * 129])
def test_a_bad_worker_name_is_refused_before_any_state_is_opened(name: str) -> None:
    sink = MemorySink()
    refused(sink.step(1, hello(name)), "Bad worker name")
    assert sink.logs == {}


def test_an_empty_cookie_matches_an_empty_cookie_only() -> None:
    refused(MemorySink().step(1, hello(cookie="")), "Bad cookie")


def test_the_wanted_cookie_is_not_told() -> None:
    [(_, text), _] = MemorySink().step(1, hello(cookie="x"))
    assert text == "Bad cookie"


def test_another_version_is_named() -> None:
    refused(MemorySink().step(1, hello(version="0.0.1")), f"Unknown protocol version: '0.0.1', wanted: {VERSION}")


def test_a_frame_before_hello_is_refused() -> None:
    refused(MemorySink().step(1, notify()), "Bad protocol FSM state: NOTIFY")


def test_a_second_connection_is_refused_and_the_first_goes_on() -> None:
    sink = MemorySink()
    sink.play([*START, (1, ABC)])
    records = sink.logs["w1"].data
    refused(sink.step(2, hello()), "worker w1: already active")
    assert (sink.logs["w1"].data, sink.output.bytes) == (records, {"w1": b"abc"})
    assert sink.step(1, VOTE) == [("vote", "t1", True)]


def test_a_worker_may_return_after_its_connection_ended() -> None:
    sink = MemorySink()
    sink.play([*START, (1, ("cut", b""))])
    assert sink.step(2, hello()) == [("ok", 500)]


def test_a_refused_connection_does_not_free_the_worker() -> None:
    sink = MemorySink()
    sink.play([*START])
    sink.step(2, hello())
    refused(sink.step(3, hello()), "already active")


def test_two_workers_are_apart() -> None:
    sink = MemorySink()
    sink.play([*START, (1, ABC), (1, VOTE)])
    sink.step(2, hello("w2"))
    sink.step(2, notify("w2"))
    assert sink.step(2, LIST) == [("uncommitted", 1, [])]
    assert sink.step(1, LIST) == [("uncommitted", 1, ["t1"])]


def test_a_vote_comes_only_after_the_list_of_open_transactions() -> None:
    sink = MemorySink()
    sink.play([(1, hello()), (1, notify())])
    refused(sink.step(1, phase1("t1", (1, 0, 0))), "Invalid message: Phase1 in state Introduction")
    assert not any(isinstance(record, CommitVote) for record in sink.logs["w1"].records())


def test_each_question_gets_one_answer_and_phase_2_gets_none() -> None:
    assert play(LIST, VOTE, ("phase2", "t1", False), LIST) == [
        [("uncommitted", 1, [])],
        [("vote", "t1", False)],
        [],
        [("uncommitted", 1, [])],
    ]


def test_a_list_names_at_most_one_transaction() -> None:
    assert play(ABC, VOTE, phase1("t2", (1, 0, 3)), LIST)[-1] == [("uncommitted", 1, ["t1"])]


def test_the_decision_may_come_before_notify_on_a_new_connection() -> None:
    sink = MemorySink()
    play(ABC, VOTE, ("cut", b""), sink=sink)
    assert sink.play(on(2, hello(), commit("t1"), notify(), LIST)).replies == [
        [("ok", 500)],
        [],
        [("notify_ack", True, 1, 3)],
        [("uncommitted", 1, [])],
    ]
    assert sink.output.published == {"w1": b"abc"}


def test_the_same_vote_is_stored_once() -> None:
    sink = MemorySink()
    play(ABC, VOTE, VOTE, sink=sink)
    assert sum(isinstance(record, CommitVote) for record in sink.logs["w1"].records()) == 1


def test_lists_and_unknown_decisions_are_logged() -> None:
    sink = MemorySink()
    play(abort("t9"), sink=sink)
    assert [
        record for record in sink.logs["w1"].records() if isinstance(record, DecisionUnknown | UncommittedListed)
    ] == [
        UncommittedListed(0.0, ()),
        DecisionUnknown(0.0, "t9", False),
    ]


def test_workers_that_left_are_retired_without_the_sender_and_connected_ones() -> None:
    sink = MemorySink()
    for connection, worker in enumerate(("w1", "w2", "w3"), 1):
        sink.play(on(connection, hello(worker), notify(worker), LIST))
    sink.step(2, ("cut", b""))
    assert sink.step(1, ("workers_left", 7, ["w1", "w2", "w3", "w4"])) == []
    assert sink.left == ["w2"]
    assert sorted(sink.logs) == ["w1", "w3"]


def test_a_bad_name_of_a_worker_that_left_is_refused() -> None:
    bad = b"\xce" + bytes(8) + b"\0\0\0\1\0\3../"
    raw: Frame = ("raw", b"\5" + bytes(26) + bad)
    refused(play(raw)[0], "is no name of a worker")


def test_an_unknown_message_of_two_phase_commit_is_refused() -> None:
    refused(play(("raw", b"\5" + bytes(26) + b"\xd0"))[0], "unknown tag 208")


def test_one_forced_abort_is_logged_once_and_survives_a_kill() -> None:
    sink = MemorySink()
    play(data(5, b"x"), data(9, b"x"), sink=sink)
    sink.restart()
    state = sink.state("w1")
    assert state.forced
    assert sink.logs["w1"].data.count(b"next-txn-force-abort") == 1
    assert sink.play(on(2, hello(), notify(), LIST, phase1("t1", (1, 0, 0)))).replies[-1] == [("vote", "t1", False)]


def test_a_name_of_a_stream_is_kept() -> None:
    sink = MemorySink()
    play(sink=sink)
    assert sink.logs["w1"].data.count(b"app-w-w1-id-7") == 1
    sink.play([(1, ("cut", b"")), *on(2, hello(), notify())])
    assert sink.logs["w1"].data.count(b"app-w-w1-id-7") == 1


def test_offsets_are_ordered_through_a_round_with_a_tail() -> None:
    sink = MemorySink()

    def offsets() -> tuple[int, int, int]:
        state: LoggedState = sink.open(1).state  # type: ignore[assignment]
        return state.committed, state.prepared, state.received

    sink.play([*START, (1, ABC)])
    assert offsets() == (0, 0, 3)
    sink.step(1, VOTE)
    assert offsets() == (0, 3, 3)
    sink.step(1, data(3, b"de"))
    assert offsets() == (0, 3, 5)
    sink.step(1, commit("t1"))
    assert offsets() == (3, 3, 5)
    assert sink.step(1, ("eos", 1)) == [("ack", 1, [(1, 5)])]
    assert sink.open(1).session.state is SessionState.PHASE_1


def test_a_closed_connection_has_no_more_replies() -> None:
    assert play(("eos", 2), LIST)[0][-1] == CLOSED
    assert play(("eos", 2), LIST)[1] == []
