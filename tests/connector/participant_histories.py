"""Random histories of workers against a sink in memory, each step judged by the oracle.

Frames come in pieces, connections are cut within a frame, and the sink is killed at a durable step. After such a kill
the sink must stand where the oracle stands before the frame or after it.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from random import Random

from tests.connector.memory_sink import CLOSED, Killed, Kills, MemorySink
from tests.connector.reference.frames import Frame, encoded, split
from tests.connector.reference.judgement import Step, agree
from tests.connector.reference.oracle import Oracle, Worker
from tests.connector.reference.sink.cases import abort, commit, data, hello, notify, phase1

WORKERS = ("w1", "w2")
REFUSED = frozenset({"t3", "t7"})
LIST: Frame = ("list", 1)
GARBAGE: list[Frame] = [
    ("raw", b""),
    ("raw", b"\x63"),
    ("raw", b"\x09\0"),
    ("ok", 500),
    ("ack", 1, [(1, 0)]),
    ("restart", None),
    ("notify_ack", True, 1, 0),
    ("vote", "t1", True),
    ("uncommitted", 1, []),
    ("error", "the worker failed"),
    hello(),
    hello(version="0.0.1"),
    notify(stream=2),
    data(0, b"x", stream=5),
]


class History:
    """One history: the sink, its oracle, and the connections that are open."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.kills = Kills()
        self.sink = MemorySink(self.kills, REFUSED, self._pieces)
        self.oracle = Oracle(REFUSED)
        self.steps: list[Step] = []
        self._connections = 0
        self._open: dict[str, int] = {}
        self._transactions = 0

    def run(self, steps: int) -> None:
        """Take so many steps, then compare the committed bytes."""
        for _ in range(steps):
            self._step()
        self._compare()

    def _pieces(self, raw: bytes) -> list[bytes]:
        at = self.rng.randint(0, len(raw))
        return [raw[:at], raw[at:]]

    def _step(self) -> None:
        name = self.rng.choice(WORKERS)
        connection = self._open.get(name)
        if connection is None or connection in self.oracle.closed:
            self._connect(name)
        elif self.rng.random() < 0.03:
            self._both(connection, ("cut", self._prefix()))
        elif self.rng.random() < 0.02:
            self._both(connection, ("kill",))
        elif self.rng.random() < 0.02:
            self._second(name)
        elif self.rng.random() < 0.05:
            self._burst(connection, [self._frame(self.oracle.workers[name]) for _ in range(3)])
        elif self.rng.random() < 0.05:
            self._killed(connection, self._frame(self.oracle.workers[name]))
        else:
            self._both(connection, self._frame(self.oracle.workers[name]))

    def _prefix(self) -> bytes:
        raw = encoded(data(0, b"lost"))
        return raw[: self.rng.randint(0, len(raw) - 1)]

    def _connect(self, name: str) -> None:
        """Open a connection. The decision about an open transaction may come before notify."""
        self._connections += 1
        connection = self._open[name] = self._connections
        if self.rng.random() < 0.3:
            self._burst(connection, [hello(name), notify(name), LIST])
            return
        self._both(connection, hello(name))
        worker = self.oracle.workers[name]
        if worker.open is not None and self.rng.random() < 0.3:
            self._both(connection, self._decision(worker))
        elif self.rng.random() < 0.1:
            self._both(connection, self.rng.choice([data(worker.received, b"early"), ("eos", 1)]))
        if connection not in self.oracle.closed:
            self._both(connection, notify(name))
            self._both(connection, LIST)

    def _second(self, name: str) -> None:
        """Open a second connection of a worker that has one."""
        self._connections += 1
        self._both(self._connections, hello(name))

    def _decision(self, worker: Worker) -> Frame:
        transaction = worker.open[0] if worker.open and self.rng.random() < 0.9 else "other"
        return (commit if self.rng.random() < 0.6 else abort)(transaction)

    def _frame(self, worker: Worker) -> Frame:
        """Return a frame that mostly fits the state of the worker."""
        rng = self.rng
        match rng.randint(0, 19):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                body = rng.randbytes(rng.randint(1, 9))
                return data(max(0, worker.received + rng.choice([0] * 30 + [5, -1])), body)
            case 7 | 8 | 9:
                self._transactions += 1
                end = worker.received if rng.random() < 0.7 else rng.randint(0, worker.received + 2)
                start = worker.committed if rng.random() < 0.9 else rng.randint(0, end + 1)
                return phase1(f"t{self._transactions}", *[(1, start, end)] * rng.choice([1] * 12 + [0, 2]))
            case 10 | 11 | 12 | 13 | 14 | 15:
                return self._decision(worker)
            case 16:
                known = worker.open
                return phase1(known[0], *known[1]) if known else LIST
            case 17:
                return "eos", 1
            case 18:
                return "workers_left", 7, rng.sample(["w1", "w2", "w3"], 2)
            case _ if rng.random() < 0.7:
                return LIST
            case _:
                return rng.choice([*GARBAGE, LIST, data(max(0, worker.received - 1), b"x"), data(0, b"")])

    def _both(self, connection: int, frame: Frame) -> None:
        """Give a frame to the sink and to the oracle, and compare their replies."""
        self.steps.append((connection, frame))
        self._agree(self.oracle.step(connection, frame), self.sink.step(connection, frame))

    def _burst(self, connection: int, frames: list[Frame]) -> None:
        """Give frames to both in one piece."""
        self.steps += [(connection, frame) for frame in frames]
        wanted = [reply for frame in frames for reply in self.oracle.step(connection, frame)]
        got = split(self.sink.receive(connection, b"".join(map(encoded, frames))))[0]
        self._agree([reply for reply in wanted if reply != CLOSED], got)

    def _agree(self, wanted: list[Frame], got: list[Frame]) -> None:
        assert agree(wanted, got), (self.steps, wanted, got)
        for name, state in self.sink.active():
            worker = self.oracle.workers[name]
            offsets = worker.received, worker.prepared, worker.committed
            assert offsets == (state.received, state.prepared, state.committed), (self.steps, offsets)

    def _killed(self, connection: int, frame: Frame) -> None:
        """Kill the sink at a point within a frame."""
        self.kills.at = self.kills.points + self.rng.randint(0, 4)
        self.steps.append((connection, ("killed at", self.kills.at - self.kills.points, frame)))
        before, after = copy.deepcopy(self.oracle), self.oracle
        after.step(connection, frame)
        with suppress(Killed):
            self.sink.step(connection, frame)
        self.sink.restart()
        for oracle in (before, after):
            oracle.step(0, ("kill",))
        self.oracle = after if self._differences(after) == [] else before
        self._compare()

    def _differences(self, oracle: Oracle) -> list[str]:
        """Return the differences between the durable states of the sink and of the oracle."""
        found = []
        for name, worker in oracle.workers.items():
            state = self.sink.state(name)
            vote = (state.vote.transaction, list(state.vote.ranges), state.vote.commit) if state.vote else None
            pairs = (
                ("committed", worker.committed, state.committed),
                ("prepared", worker.prepared, state.prepared),
                ("open", worker.open, vote),
                ("forced", worker.abort_next, state.forced),
                ("bytes", worker.data[: worker.prepared], self.sink.output.bytes.get(name, b"")[: state.prepared]),
            )
            found += [f"{name}: {kind} is {got!r}, not {wanted!r}" for kind, wanted, got in pairs if wanted != got]
        if [name for name, _ in oracle.left] != self.sink.left:
            found.append(f"workers that left: {self.sink.left}, not {oracle.left}")
        return found

    def _compare(self) -> None:
        assert self._differences(self.oracle) == [], (self.steps, self._differences(self.oracle))
