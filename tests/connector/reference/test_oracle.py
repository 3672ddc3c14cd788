"""The oracle itself: each rule of the participant in a short history, and the order of its offsets in drawn ones."""

from __future__ import annotations

import pytest

from tests.connector.reference.frames import COOKIE, VERSION, Frame
from tests.connector.reference.judgement import Outcome, agree, differences, judged
from tests.connector.reference.oracle import Oracle

START: list[Frame] = [("hello", VERSION, COOKIE, "app", "w1"), ("notify", 1, b"app-w-w1-id-7", 0), ("list", 1)]
REFUSED = [("error", ""), ("closed",)]


def data(offset: int, body: bytes) -> Frame:
    return "message", 1, offset, 0, None, body


def after(*frames: Frame, refused: frozenset[str] = frozenset()) -> Outcome:
    """Run frames on connection 1 after its introduction."""
    return judged([(1, frame) for frame in [*START, *frames]], refused)


ROUND: list[Frame] = [data(0, b"hello\n"), ("phase1", "t1", [(1, 0, 6)]), ("phase2", "t1", True)]


def test_a_round_commits() -> None:
    assert after(*ROUND, ("list", 9), ("eos", 1)) == Outcome(
        [
            [("ok", 500)],
            [("notify_ack", True, 1, 0)],
            [("uncommitted", 1, [])],
            [],
            [("vote", "t1", True)],
            [],
            [("uncommitted", 9, [])],
            [("ack", 1, [(1, 6)])],
        ],
        {"w1": b"hello\n"},
        {"w1": []},
    )


@pytest.mark.parametrize(
    ("where", "vote"),
    [
        ([(1, 0, 3)], True),
        ([(1, 0, 2)], True),
        ([(1, 0, 0)], True),
        ([(1, 0, 4)], False),
        ([(1, 1, 3)], False),
        ([(1, 2, 1)], False),
        ([(2, 0, 3)], False),
        ([], False),
        ([(1, 0, 3), (1, 0, 3)], False),
    ],
)
def test_only_a_right_range_is_voted_commit(where: list[tuple[int, int, int]], vote: bool) -> None:
    found = after(data(0, b"abc"), ("phase1", "t", where))
    assert found.replies[-1] == [("vote", "t", vote)]
    assert found.open == {"w1": ["t"]}


def test_the_program_may_refuse_to_prepare() -> None:
    assert after(("phase1", "t", [(1, 0, 0)]), refused=frozenset("t")).replies[-1] == [("vote", "t", False)]


def test_a_gap_aborts_the_next_vote_only_and_survives_a_kill() -> None:
    again = [(2, frame) for frame in START]
    vote: Frame = ("phase1", "t", [(1, 0, 0)])
    history = [*((1, frame) for frame in [*START, data(5, b"x"), ("kill",)]), *again]
    end: list[tuple[int, Frame]] = [(2, vote), (2, ("phase2", "t", False)), (2, vote)]
    assert judged(history + end).replies[-3:] == [[("vote", "t", False)], [], [("vote", "t", True)]]


@pytest.mark.parametrize(
    "frame",
    [
        data(2, b"x"),
        data(3, b""),
        ("message", 5, 3, 0, None, b"x"),
        ("eos", 2),
        ("ok", 500),
        ("ack", 1, []),
        ("restart", None),
        ("notify_ack", True, 1, 0),
        ("vote", "t", True),
        ("uncommitted", 1, []),
        ("phase1", "é", [(1, 0, 3)]),
        ("workers_left", 7, ["../w"]),
        ("raw", b""),
        ("raw", b"\x63"),
        ("raw", b"\x05" + bytes(26) + b"\xd0"),
        START[0],
    ],
    ids=repr,
)
def test_a_fault_ends_the_connection_and_changes_nothing(frame: Frame) -> None:
    found = after(data(0, b"abc"), frame, ("list", 1))
    assert found.replies[-2:] == [REFUSED, []]


def test_data_between_the_phases_is_the_tail_of_the_next_round() -> None:
    found = after(data(0, b"abc"), ("phase1", "t", [(1, 0, 3)]), data(3, b"de"), ("phase2", "t", True))
    assert found.committed == {"w1": b"abc"}
    tail = [data(0, b"abc"), ("phase1", "t", [(1, 0, 3)]), data(3, b"de"), ("phase2", "t", True)]
    found = after(*tail, ("phase1", "u", [(1, 3, 5)]), ("phase2", "u", True))
    assert found.committed == {"w1": b"abcde"}


def test_an_abort_and_a_new_connection_cut_the_tail() -> None:
    start: list[Frame] = [data(0, b"abc"), ("phase1", "t", [(1, 0, 3)]), data(3, b"de")]
    assert after(*start, ("phase2", "t", False), ("eos", 1)).replies[-1] == [("ack", 1, [(1, 0)])]
    history = [(1, frame) for frame in [*START, *start]] + [(1, ("cut", b"\0\0")), (2, START[0]), (2, START[1])]
    assert judged(history).replies[-1] == [("notify_ack", True, 1, 3)]
    assert judged([*history, (2, ("phase2", "t", True))]).committed == {"w1": b"abc"}


def test_a_repeated_vote_is_the_same_and_another_is_abort() -> None:
    vote: Frame = ("phase1", "t", [(1, 0, 3)])
    found = after(data(0, b"abc"), vote, vote, ("phase1", "u", [(1, 0, 3)]), ("phase1", "t", [(1, 0, 2)]))
    assert [reply[0][2] for reply in found.replies[-4:]] == [True, True, False, False]
    assert found.open == {"w1": ["t"]}


def test_each_connection_needs_its_introduction() -> None:
    for early, missing in (("phase1", "t", [(1, 0, 0)]), START[2]), (data(0, b"x"), START[1]), (("eos", 1), START[1]):
        frames = [frame for frame in START if frame != missing]
        assert judged([(1, frame) for frame in [*frames, early]]).replies[-1] == REFUSED


def test_phase_2_of_no_open_transaction_does_nothing() -> None:
    assert after(*ROUND, ROUND[-1], ("phase2", "u", False)).committed == {"w1": b"hello\n"}


def test_a_commit_after_an_abort_vote_is_a_fault() -> None:
    found = after(("phase1", "t", [(1, 1, 1)]), ("phase2", "t", True))
    assert found.replies[-1] == REFUSED
    assert found.open == {"w1": ["t"]}


def test_a_worker_has_one_connection() -> None:
    history: list[tuple[int, Frame]] = [(1, START[0]), (2, START[0]), (1, ("cut", b"")), (3, START[0])]
    assert judged(history).replies == [[("ok", 500)], [("error", "already active"), ("closed",)], [], [("ok", 500)]]


@pytest.mark.parametrize(
    "hello",
    [
        ("hello", "0.0.1", COOKIE, "app", "w1"),
        ("hello", VERSION, "", "app", "w1"),
        ("hello", VERSION, COOKIE, "app", ".w1"),
        ("hello", VERSION, COOKIE, "app", "w/1"),
        ("hello", VERSION, COOKIE, "app", "w" * 129),
        ("list", 1),
    ],
)
def test_a_connection_starts_with_a_right_hello(hello: Frame) -> None:
    assert judged([(1, hello), (1, START[0])]).replies == [REFUSED, []]


def test_an_error_of_the_worker_ends_its_connection_only() -> None:
    other: Frame = ("hello", VERSION, COOKIE, "app", "w2")
    found = judged([(1, START[0]), (2, other), (1, ("error", "x")), (2, ("list", 1)), (1, ("list", 1))])
    assert found.replies[2:] == [[("closed",)], [("uncommitted", 1, [])], []]


def test_workers_that_left_keep_their_bytes_under_another_name() -> None:
    oracle = Oracle()
    for frame in [*START, *ROUND, ("cut", b"")]:
        oracle.step(1, frame)
    oracle.step(2, ("hello", VERSION, COOKIE, "app", "w2"))
    oracle.step(2, ("workers_left", 7, ["w1", "w2", "w3"]))
    assert (oracle.left, list(oracle.workers)) == ([("w1", b"hello\n")], ["w2"])


def test_differences_name_the_step_and_the_worker() -> None:
    history: list[tuple[int, Frame]] = [(1, START[0]), (2, START[0])]
    right, wrong = judged(history), judged(history)
    wrong.replies[0] = [("ok", 1)]
    wrong.replies[1] = [("error", "worker w1: already active"), ("closed",)]
    wrong.committed["w1"] = b"x"
    assert [line.split(":")[0] for line in differences(history, right, wrong)] == [
        "step 0, 1 ('hello', 'v0.0.1', 'Dragons-Love-Tacos', 'app', 'w1')",
        "committed of w1",
    ]
    assert differences(history, right, right) == []
    assert not agree([("error", "active")], [("error", "x")])
