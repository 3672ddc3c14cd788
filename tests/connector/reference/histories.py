"""A strategy that draws histories of frames for a participant.

It runs an oracle beside the history, so most frames have the offset, range or decision of a worker that follows the
protocol. The others are gaps, duplicates, wrong ids and ranges, frames of a sink, unknown tags, second
connections, cuts at any byte, and kills. After a fault the worker connects again. A test plays the history against a
participant, in pieces of any size, and compares with `judged(history, refused(history))`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.connector.reference.frames import COOKIE, NAMES, VERSION, Frame, encoded
from tests.connector.reference.judgement import Step
from tests.connector.reference.oracle import Oracle, Worker

REFUSED = "refused="  # part of the ids that the sink's program refuses to prepare
SIZES = [1, 2, 3, 5, 20, 300, 9_000, 70_000]
Draw = Callable[[st.SearchStrategy[Any]], Any]

USUAL = ["data"] * 6 + ["phase1"] * 4 + ["phase2"] * 4 + ["list", "eos", "cut", "kill", "left", "twice"]
RARE = ["gap", "range", "phase1 again", "phase2 of another", "other", "hello", "fault", "fault", "fault"]

# Frames that a participant refuses. The reference sink answers none of the silent ones, and its loader evaluates names.
FAULTS: list[Frame] = [
    ("ok", 500),
    ("ack", 1, [(1, 2)]),
    ("restart", None),
    ("restart", "127.0.0.1:1"),
    ("notify_ack", True, 1, 0),
    ("vote", "t", True),
    ("uncommitted", 1, []),
    ("notify", 2, b"", 0),
    ("eos", 2),
    ("message", 5, 0, 0, None, b"x"),
    ("message", 1, 0, 0, None, b""),
    ("raw", bytes([9]) + b"abc"),
    ("raw", bytes([99])),
    ("raw", bytes([NAMES.index("message")]) + bytes(26) + b"\xd0"),
    ("error", "the worker gives up"),
]
SILENT: list[Frame] = [
    ("raw", b""),
    ("raw", b"\x05" + bytes(3)),
    ("phase1", "é", [(1, 0, 0)]),
    ("workers_left", 7, ["../w"]),
    ("workers_left", 7, [""]),
]
HELLOS: list[Frame] = [
    ("hello", "0.0.1", COOKIE, "app", "w1"),
    ("hello", VERSION, "", "app", "w1"),
    ("hello", VERSION, COOKIE, "app", ".w"),
    ("hello", VERSION, COOKIE, "app", "w/../w"),
    ("hello", VERSION, COOKIE, "app", ""),
    ("list", 1),
    ("message", 1, 0, 0, None, b"x"),
]


def refused(history: list[Step]) -> frozenset[str]:
    """Return the transactions of a history that the sink's program refuses to prepare."""
    return frozenset(frame[1] for _, frame in history if frame[0] == "phase1" and REFUSED in frame[1])


class _History:
    """The history so far, and the oracle that has taken it."""

    def __init__(self, draw: Draw, workers: list[str], live: bool) -> None:
        self.draw, self.workers, self.live = draw, workers, live
        self.steps: list[Step] = []
        self.oracle = Oracle(refused=_Refusing())
        self.connections = self.numbers = 0

    def one(self, values: list[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def add(self, connection: int, *frames: Frame) -> None:
        for frame in frames:
            self.steps.append((connection, frame))
            self.oracle.step(connection, frame)

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def connect(self, name: str) -> int:
        """Add the introduction of a worker. A few leave out a frame of it."""
        self.connections += 1
        notify: Frame = ("notify", 1, f"app-w-{name}-id-7".encode(), 0)
        hello: Frame = ("hello", VERSION, COOKIE, "app", name)
        kept = [notify, ("list", self.number())]
        missing = self.draw(st.integers(0, 19))  # of `kept`; most numbers name none
        self.add(self.connections, hello, *kept[:missing], *kept[missing + 1 :])
        return self.connections

    def connection(self, name: str) -> int:
        found = [number for number, worker in self.oracle.active.items() if worker == name]
        return found[0] if found else self.connect(name)

    def body(self) -> bytes:
        size: int = self.one(SIZES)
        return (b"%d," % self.number() * size)[:size]

    def data(self, worker: Worker, offset: int) -> Frame:
        return "message", 1, offset, 0, None, self.body()

    def txn(self) -> str:
        kind = REFUSED if self.draw(st.integers(0, 9)) == 0 else "c_id="
        return f"app:{kind}{self.number()}"

    def where(self, worker: Worker) -> list[tuple[int, int, int]]:
        return [(1, worker.committed, worker.received)]

    def wrong_where(self, worker: Worker) -> list[tuple[int, int, int]]:
        [(_, start, end)] = self.where(worker)
        right = (1, start, end)
        choices = [[], [right, right], [(2, start, end)], [(1, start, max(start, end - 1))], [(1, start, end + 1)]]
        return list(self.one([*choices, [(1, start + 1, end)], [(1, end, start)], [(1, end, end + 4)]]))

    def phase2(self, worker: Worker) -> Frame:
        """Return the decision of the open transaction: an abort vote is committed rarely."""
        assert worker.open is not None
        chance = self.draw(st.integers(0, 9))
        return "phase2", worker.open[0], chance < 8 if worker.open[2] else chance == 0

    def step(self) -> None:
        action = self.one(USUAL * (6 if self.live else 2) + RARE)
        if action == "hello":
            self.connections += 1
            twice: Frame = ("hello", VERSION, COOKIE, "app", self.one(self.workers))
            self.add(self.connections, self.one([twice] if self.live else [twice, *HELLOS]))
            return
        if action == "kill":
            self.add(0, ("kill",))
            return
        connection = self.connection(self.one(self.workers))
        worker = self.oracle.workers.get(self.oracle.active.get(connection, ""))
        if worker is None:
            return
        if action == "cut":
            raw = encoded(self.frame("data", worker))
            self.add(connection, ("cut", raw[: self.draw(st.integers(0, len(raw) - 1))]))
        elif action == "twice":
            self.add(connection, *[self.frame("phase2", worker)] * 2)
        else:
            self.add(connection, self.frame(action, worker))

    def frame(self, action: str, worker: Worker) -> Frame:
        """Return a frame of a worker that has said hello."""
        match action:
            case "gap":
                return self.data(worker, worker.received + self.one([1, 5, 1 << 40]))
            case "phase1" if worker.open is None:
                return "phase1", self.txn(), self.where(worker)
            case "range" if worker.open is None:
                return "phase1", self.txn(), self.wrong_where(worker)
            case "phase1 again" if worker.open is not None:
                return "phase1", worker.open[0], self.one([worker.open[1], self.wrong_where(worker)])
            case "range" | "phase1 again":
                return "phase1", self.txn(), self.where(worker)
            case "phase1" | "phase2" | "twice" if worker.open is not None:
                return self.phase2(worker)
            case "phase2 of another":
                return "phase2", f"app:c_id={self.draw(st.integers(0, self.numbers))}", self.draw(st.booleans())
            case "list":
                return "list", self.number()
            case "eos":
                return "eos", 1
            case "left":
                return "workers_left", 7, self.one([[name] for name in self.workers] + [[], ["w9"]])
            case "other":
                return self.data(worker, max(0, worker.received - self.one([1, 2, 300])))
            case "fault":
                return tuple(self.one(FAULTS if self.live else FAULTS + SILENT))
        return self.data(worker, worker.received)


class _Refusing(frozenset[str]):
    """All ids that the sink's program refuses."""

    def __contains__(self, txn: object) -> bool:
        return REFUSED in str(txn)


@st.composite
def histories(draw: Draw, workers: int = 2, most: int = 25, live: bool = False) -> list[Step]:
    """Draw a history. A `live` one has no frame that leaves the reference sink silent or that harms its shell."""
    history = _History(draw, [f"w{number + 1}" for number in range(workers)], live)
    for _ in range(draw(st.integers(1, most))):
        history.step()
    return history.steps
