"""A coordinator and a participant back to back in memory, with kills of either side at each durable step.

The coordinator's host has a fixed series of bodies and commits after every third. After a kill or an abort it continues
at the end of the last committed transaction, as its state says.
"""

from __future__ import annotations

from itertools import accumulate, count

from penstock.connector import (
    FIRST_RTAG,
    SINK_VERSION,
    Coordinator,
    DecideTransaction,
    EndStream,
    Hello,
    MemoryCoordinatorState,
    OpenTransaction,
    PrepareTransaction,
    SendBytes,
    SessionState,
    StartSession,
    VoteReceived,
)
from tests.connector.memory_sink import Killed, Kills, MemorySink
from tests.connector.reference.frames import COOKIE

BODIES = [bytes([65 + n % 26]) * (1 + n % 4) for n in range(9)]
EACH = 3  # bodies of a transaction
MOST_SESSIONS = 60


class DurableState(MemoryCoordinatorState):
    """The coordinator's state, which survives kills. Each call is a durable step."""

    def __init__(self, kills: Kills) -> None:
        super().__init__()
        self.checkpoint = 0
        self.decided: list[tuple[str, bool]] = []
        self._kills = kills

    def prepare(self, transaction: OpenTransaction) -> None:
        with self._kills.step():
            super().prepare(transaction)
            self.checkpoint += 1

    def decide(self, commit: bool) -> None:
        with self._kills.step():
            assert self.open is not None
            self.decided.append((self.open.transaction, commit))
            super().decide(commit)


class Pair:
    """Both sides. Every transaction of `refused` gets an abort vote."""

    def __init__(self, kills: Kills, refused: frozenset[str] = frozenset(), hold: int = 0) -> None:
        self.kills = kills
        self.sink = MemorySink(kills, refused)
        self.state = DurableState(kills)
        self.sessions = 0
        self.killed = 0
        self.sent = b"".join(BODIES)
        self.frames: list[bytes] = []
        self._hold = hold  # cut the connection after so many exchanges of bytes
        self._rtags = count(FIRST_RTAG)

    def run(self) -> None:
        """Connect until all bodies are committed."""
        while self.state.committed < len(self.sent) or self.sink.state("w1").vote is not None:
            self.sessions += 1
            assert self.sessions < MOST_SESSIONS, "no progress"
            try:
                self._session()
            except Killed:
                self.killed += 1
                self.sink.restart()

    @property
    def published(self) -> bytes:
        return self.sink.output.published.get("w1", b"")

    def _session(self) -> None:
        hello = Hello(SINK_VERSION, COOKIE, "app", "w1")
        coordinator = Coordinator(hello, b"app-w-w1-id-7", self.state, self._rtags)
        session, connection = coordinator.session, self.sessions
        session.do(StartSession())
        exchanges = 0
        while not session.over:
            out = session.outgoing()
            assert out, f"both sides wait in state {session.state}"
            exchanges += 1
            if self._hold and exchanges == self._hold:
                self._hold = 0
                session.lost()
                break
            self.frames.append(out)
            session.receive(self.sink.receive(connection, out))
            self._work(coordinator)
        self.sink.lost(connection)

    def _work(self, coordinator: Coordinator) -> None:
        session = coordinator.session
        for event in session.events():
            if isinstance(event, VoteReceived) and event.commit:
                session.do(DecideTransaction(True))
        if session.state is SessionState.READY:
            ends = [0, *accumulate(map(len, BODIES))]
            at = ends.index(coordinator.offset)
            if coordinator.offset == len(self.sent) == self.state.committed:
                session.do(EndStream())
                return
            for body in BODIES[at : at + EACH]:
                session.do(SendBytes(body))
            session.do(PrepareTransaction(f"app-w-w1-id-7:c_id={self.state.checkpoint + 1}"))
