"""The scripted cases: one history for each rule of the protocol that was observed with the reference sink.

`differs` is the first step where the reference sink and the oracle disagree, by the tables of the protocol. The number
after the last step stands for the committed bytes at the end.
`deaf` steps get no answer at all from the reference sink, although their connection stays open.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.connector.reference.frames import COOKIE, VERSION, Frame
from tests.connector.reference.judgement import Step


@dataclass(frozen=True)
class Case:
    """A history, the rule that it shows, and the step where the reference sink breaks the rule."""

    name: str
    rule: str
    history: list[Step]
    differs: int | None = None
    deaf: bool = False
    refused: frozenset[str] = frozenset()


KILL: Frame = ("kill",)
CUT: Frame = ("cut", b"")
LIST: Frame = ("list", 1)


def hello(worker: str = "w1", version: str = VERSION, cookie: str = COOKIE) -> Frame:
    return "hello", version, cookie, "app", worker


def notify(worker: str = "w1", stream: int = 1) -> Frame:
    return "notify", stream, f"app-w-{worker}-id-7".encode(), 0


def data(offset: int, body: bytes, stream: int = 1) -> Frame:
    return "message", stream, offset, 0, None, body


def phase1(txn: str, *where: tuple[int, int, int]) -> Frame:
    return "phase1", txn, list(where)


def commit(txn: str) -> Frame:
    return "phase2", txn, True


def abort(txn: str) -> Frame:
    return "phase2", txn, False


def on(connection: int, *frames: Frame) -> list[Step]:
    return [(connection, frame) for frame in frames]


def introduced(connection: int, *frames: Frame, worker: str = "w1") -> list[Step]:
    """Return the steps of a connection with its introduction."""
    return on(connection, hello(worker), notify(worker), LIST, *frames)


ABC = data(0, b"abc")
VOTE = phase1("t1", (1, 0, 3))
ROUND = [ABC, VOTE, commit("t1")]
NEXT = [data(3, b"de"), phase1("t2", (1, 3, 5)), commit("t2")]

CASES = [
    Case(
        "round",
        "Data, a vote and a commit; the answer to eos names the received offset",
        introduced(1, data(0, b"hello\n"), phase1("t1", (1, 0, 6)), commit("t1"), ("eos", 1)),
    ),
    Case("eos before phase 1", "The answer names bytes without a vote", introduced(1, ABC, ("eos", 1), *ROUND[1:])),
    Case("empty round", "A range may be empty", introduced(1, phase1("t1", (1, 0, 0)), commit("t1"), *ROUND)),
    Case("abort", "An abort after a commit vote cuts the data", introduced(1, ABC, VOTE, abort("t1"), *ROUND)),
    Case(
        "refused",
        "The sink's program refuses to prepare",
        introduced(1, *ROUND[:2], abort("t1")),
        refused=frozenset({"t1"}),
    ),
    Case("wrong version", "Another version is refused", on(1, hello(version="0.0.1")), differs=0),
    Case("wrong cookie", "Another cookie is refused", on(1, hello(cookie="")), differs=0),
    Case(
        "second hello",
        "A second hello on a connection is refused before any byte is touched; the reference sink truncates",
        introduced(1, ABC, VOTE, abort("t1"), ABC, hello(), KILL) + introduced(2),
    ),
    Case(
        "second connection",
        "A second connection of a worker is refused; the reference sink cuts the data of the first one",
        introduced(1, *ROUND, data(3, b"cut")) + introduced(2, ("eos", 1)),
        differs=7,
    ),
    Case(
        "no tag",
        "A frame without a tag is refused; the reference sink never answers again",
        introduced(1, ("raw", b"")),
        differs=3,
        deaf=True,
    ),
    Case("unknown tag", "An unknown tag is refused", introduced(1, ("raw", b"\x63")), differs=3),
    Case("empty body", "Data without bytes is refused", introduced(1, ABC, data(3, b"")), differs=4),
    Case("other stream", "Notify of another stream is refused", introduced(1, notify(stream=2), *ROUND), differs=3),
    Case(
        "data of another stream",
        "Data of another stream is refused; the reference sink writes it first, and cuts it when it starts again",
        introduced(1, *ROUND, data(3, b"zz", 5), KILL) + introduced(2, *NEXT),
        differs=6,
    ),
    Case(
        "letter outside ascii",
        "Names are ASCII; the reference sink cuts the name",
        introduced(1, phase1("é", (1, 0, 0))),
        differs=3,
    ),
    Case("vote before list", "A vote needs a list", on(1, hello(), notify(), phase1("t1", (1, 0, 0))), differs=2),
    Case("eos before notify", "Eos needs a notify", on(1, hello(), ("eos", 1)), differs=1),
    Case("data before notify", "Data needs a notify", on(1, hello(), ABC), differs=1),
    Case(
        "offsets of notify",
        "The answer to notify names the received offset; the reference sink forgets it or keeps an old one",
        introduced(1, *ROUND, data(3, b"d" * 14), CUT) + introduced(2, data(3, b"e"), KILL) + introduced(3, *NEXT),
    ),
    Case(
        "data between the phases, then commit",
        "Data after the end of the open transaction is the tail of the next round",
        introduced(1, ABC, VOTE, data(3, b"de"), commit("t1"), phase1("t2", (1, 3, 5)), commit("t2")),
        differs=6,
    ),
    Case(
        "data between the phases, then abort",
        "An abort cuts the tail too",
        introduced(1, ABC, VOTE, data(3, b"de"), abort("t1"), *ROUND),
    ),
    Case("no range", "A vote without a range is abort", introduced(1, ABC, phase1("t1"), abort("t1")), differs=4),
    Case(
        "no range, then commit",
        "The reference sink ends at the commit",
        introduced(1, ABC, phase1("t1"), commit("t1")),
        differs=4,
    ),
    Case(
        "two ranges",
        "A vote for two ranges is abort",
        introduced(1, ABC, phase1("t1", (1, 0, 3), (1, 0, 3)), commit("t1")),
        differs=4,
    ),
    Case(
        "two ranges, then a kill",
        "The reference sink ends at the next hello",
        introduced(1, ABC, phase1("t1", (1, 0, 3), (1, 0, 3)), KILL) + on(2, hello()),
        differs=4,
    ),
    Case(
        "short range",
        "A range may end before the received offset",
        introduced(1, ABC, phase1("t1", (1, 0, 2)), commit("t1"), phase1("t2", (1, 2, 3)), commit("t2")),
        differs=5,
    ),
    Case(
        "long range",
        "A range beyond the data is voted abort",
        introduced(1, phase1("t1", (1, 0, 3)), abort("t1"), *ROUND),
    ),
    Case(
        "long range elsewhere",
        "The reference sink ends without a reply",
        introduced(1, ABC, phase1("t1", (1, 0, 4))),
        differs=4,
    ),
    Case(
        "range backwards",
        "A range that ends before its start is voted abort",
        introduced(1, *ROUND, phase1("t2", (1, 3, 2))),
    ),
    Case(
        "range of another stream",
        "A range of another stream is voted abort",
        introduced(1, ABC, phase1("t1", (2, 0, 3))),
    ),
    Case(
        "start elsewhere",
        "An abort truncates to the committed offset; the reference sink truncates to the start of the range",
        introduced(1, ABC, phase1("t1", (1, 1, 3)), abort("t1"), ("eos", 1)),
        differs=6,
    ),
    Case(
        "two open transactions",
        "A vote while another transaction is open is abort; the reference sink ends at the next start",
        introduced(1, ABC, VOTE, phase1("t2", (1, 0, 3)), LIST, KILL) + on(2, hello()),
        differs=5,
    ),
    Case("vote again", "A repeated phase 1 has the same answer", introduced(1, ABC, VOTE, VOTE, commit("t1"), *NEXT)),
    Case(
        "unknown transaction",
        "Phase 2 of no open transaction changes nothing",
        introduced(1, *ROUND, commit("t1"), abort("t1"), commit("t9"), abort("t9"), *NEXT),
    ),
    Case(
        "unknown transaction beside an open one",
        "Phase 2 decides the transaction that it names",
        introduced(1, ABC, VOTE, abort("t9"), commit("t9"), commit("t1"), *NEXT),
    ),
    Case(
        "commit after an abort vote",
        "Only an abort may follow",
        introduced(1, ABC, phase1("t1", (1, 1, 3)), commit("t1")),
        differs=5,
    ),
    Case(
        "gap",
        "Data after a gap is not written, and the next vote is abort",
        introduced(1, data(2, b"c"), data(3, b"d"), ABC, VOTE, abort("t1"), *ROUND),
    ),
    Case(
        "gap, then a kill",
        "The abort after a gap survives a restart",
        introduced(1, data(2, b"c"), KILL) + introduced(2, ABC, VOTE, abort("t1"), *ROUND),
    ),
    Case("duplicate", "Data below the received offset is refused", introduced(1, ABC, data(2, b"c")), differs=4),
    Case(
        "open vote",
        "The bytes of an open vote survive a reconnect, and phase 2 may come before notify",
        introduced(1, ABC, VOTE, data(3, b"cut"), CUT) + on(2, hello(), LIST, commit("t1"), notify(), *NEXT),
    ),
    Case(
        "open vote, after notify",
        "Phase 2 may also come after notify and list",
        introduced(1, ABC, VOTE, CUT) + introduced(2, commit("t1"), *NEXT),
    ),
    Case(
        "kill before phase 1",
        "Data without a vote is lost at a restart",
        introduced(1, ABC, KILL) + introduced(2, ABC, VOTE, commit("t1")),
    ),
    Case(
        "kill between the phases",
        "An open vote survives a restart, and may be committed",
        introduced(1, ABC, VOTE, KILL) + on(2, hello(), LIST, commit("t1"), KILL) + on(3, hello()),
    ),
    Case(
        "kill between the phases, then abort",
        "An open vote survives a restart, and may be rolled back",
        introduced(1, ABC, VOTE, KILL) + on(2, hello(), LIST, abort("t1"), notify(), *ROUND),
    ),
    Case(
        "kill with an abort vote open",
        "An abort vote stays open over a restart, and its bytes do not",
        introduced(1, ABC, data(5, b"f"), VOTE, KILL) + introduced(2, ABC, abort("t1"), *ROUND),
    ),
    Case("kill after phase 2", "Committed bytes survive a restart", introduced(1, *ROUND, KILL) + on(2, hello(), LIST)),
    Case(
        "cut in a frame",
        "An incomplete frame has no effect",
        introduced(1, *ROUND, ("cut", bytes.fromhex("0000001f0500000000"))) + introduced(2, *NEXT),
    ),
    Case(
        "two workers",
        "Each worker has its own offsets",
        introduced(1, *ROUND)
        + introduced(2, data(0, b"xy"), phase1("t1", (1, 0, 2)), commit("t1"), worker="w2")
        + on(1, *NEXT),
    ),
    Case(
        "another worker left",
        "The output of a worker that left is set aside",
        introduced(1, *ROUND, CUT) + introduced(2, ("workers_left", 7, ["w1"]), worker="w2") + introduced(3, *ROUND),
    ),
    Case(
        "the worker itself left",
        "The own name is ignored; the reference sink forgets the stream and ends at its data",
        introduced(1, *ROUND, ("workers_left", 7, ["w1"]), *NEXT[:1]),
        differs=7,
    ),
    Case(
        "the worker itself left, then notify",
        "The own name is ignored; the reference sink writes to the renamed file",
        introduced(1, *ROUND, ("workers_left", 7, ["w1"]), notify(), *NEXT),
        differs=11,
    ),
    Case(
        "error of a worker",
        "An error ends its connection only; the reference sink ends for all workers",
        introduced(1, ABC) + introduced(2, ("error", "x"), worker="w2") + on(1, LIST),
        differs=8,
    ),
    Case(
        "ok of a worker",
        "Frames of a sink are refused; the reference sink sends them back",
        introduced(1, ("ok", 5)),
        differs=3,
    ),
    Case("ack of a worker", "Frames of a sink are refused", introduced(1, ("ack", 1, [(1, 2)])), differs=3),
    Case("restart of a worker", "Frames of a sink are refused", introduced(1, ("restart", "h:1")), differs=3),
    Case(
        "notify_ack of a worker", "Frames of a sink are refused", introduced(1, ("notify_ack", True, 1, 2)), differs=3
    ),
    Case("vote of a worker", "Answers of a sink are refused", introduced(1, ("vote", "t1", True)), differs=3),
    Case("uncommitted of a worker", "Answers of a sink are refused", introduced(1, ("uncommitted", 1, [])), differs=3),
    Case(
        "unknown inner tag",
        "An unknown tag on stream 0 is refused",
        introduced(1, ("raw", b"\x05" + bytes(26) + b"\xd0")),
        differs=3,
    ),
]
