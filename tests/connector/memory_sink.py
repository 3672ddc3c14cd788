"""A sink in memory: participants, their logs and their program, with a fault model.

A durable step is a record of the log, or a call of the program that must be durable. `Kills` ends the sink before or
after a chosen durable step. Then bytes that no durable step covered are gone, and the sink starts again from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.connector import (
    HelloReceived,
    LoggedState,
    LogRecord,
    Participant,
    ParticipantRegistry,
    ParticipantState,
    WorkersGone,
    logged,
    read_log,
)
from tests.connector.reference.frames import COOKIE, Frame, encoded, split
from tests.connector.reference.judgement import Outcome, Step

CLOSED: Frame = ("closed",)


class Killed(BaseException):
    """The process ends here."""


class Kills:
    """Ends the process at one point. Each durable step has two: before it and after it."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.points = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        self._point()
        yield
        self._point()

    def _point(self) -> None:
        self.points += 1
        if self.points - 1 == self.at:
            raise Killed


class MemoryLog:
    """The log of one worker, as bytes."""

    def __init__(self, kills: Kills) -> None:
        self.data = b""
        self._kills = kills

    def append(self, record: LogRecord) -> None:
        with self._kills.step():
            self.data += logged(record)

    def records(self) -> list[LogRecord]:
        records, end = read_log(self.data, "the log in memory")
        assert end == len(self.data)
        return records


class MemoryOutput:
    """The program of the sink. It refuses to prepare the transactions `refused`."""

    def __init__(self, kills: Kills, refused: frozenset[str] = frozenset()) -> None:
        self.bytes: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}
        self.published: dict[str, bytes] = {}
        self._kills = kills
        self._refused = refused

    def write(self, worker: str, offset: int, body: bytes) -> None:
        known = self.bytes.get(worker, b"")
        assert body
        assert offset == len(known), "bytes come in order"
        self.bytes[worker] = known + body

    def prepare(self, worker: str, transaction: str, end: int) -> bool:
        known = self.bytes.get(worker, b"")
        assert end <= len(known), "a promise needs its bytes"
        with self._kills.step():
            self.durable[worker] = known
        return transaction not in self._refused

    def commit(self, worker: str, transaction: str, end: int) -> None:
        assert end <= len(self.durable.get(worker, b"")), "a commit needs durable bytes"
        with self._kills.step():
            self.published[worker] = self.durable.get(worker, b"")[:end]

    def rollback(self, worker: str, end: int) -> None:
        self.bytes[worker] = self.bytes.get(worker, b"")[:end]  # a power loss may restore cut bytes

    def lose(self) -> None:
        """Lose all bytes that are not durable, as a power loss does."""
        self.bytes = dict(self.durable)


class MemorySink:
    """A sink, its connections, and its files. `pieces` cuts the bytes of a frame."""

    def __init__(
        self,
        kills: Kills | None = None,
        refused: frozenset[str] = frozenset(),
        pieces: Callable[[bytes], list[bytes]] = lambda data: [data],
    ) -> None:
        self.kills = kills or Kills()
        self.output = MemoryOutput(self.kills, refused)
        self.logs: dict[str, MemoryLog] = {}
        self.left: list[str] = []
        self._pieces = pieces
        self._connections: dict[int, Participant] = {}
        self._registry = ParticipantRegistry(self.state, self._retire)

    def state(self, worker: str) -> LoggedState:
        """Return the state that the files of a worker hold."""
        log = self.logs.setdefault(worker, MemoryLog(self.kills))
        return LoggedState(worker, log, self.output, log.records(), lambda: 0.0)

    def _retire(self, worker: str) -> None:
        if self.logs.pop(worker, None) is not None:
            self.output.bytes.pop(worker, None)
            self.output.durable.pop(worker, None)
            self.left.append(worker)

    def active(self) -> list[tuple[str, ParticipantState]]:
        """Return the live state of each worker that has a session."""
        return [
            (participant.worker, participant.state)
            for participant in self._connections.values()
            if participant.worker and participant.is_approved and not participant.session.over
        ]

    def open(self, connection: int) -> Participant:
        """Return the participant of a connection."""
        return self._connections.setdefault(connection, Participant(COOKIE))

    def step(self, connection: int, frame: Frame) -> list[Frame]:
        """Take a frame of a history, and return the replies."""
        if frame[0] == "kill":
            self.restart()
            return []
        participant = self.open(connection)
        if participant.session.over:
            return []
        data = frame[1] if frame[0] == "cut" else encoded(frame)
        replies = split(self.receive(connection, data))[0]
        if frame[0] == "cut":
            self.lost(connection)
            return replies
        return [*replies, CLOSED] if participant.session.over else replies

    def receive(self, connection: int, data: bytes) -> bytes:
        """Take bytes of a connection, and return the answer."""
        participant, out = self.open(connection), b""
        for piece in self._pieces(data):
            participant.session.receive(piece)
            self._handle(participant)
            self._check(participant)
            out += participant.session.outgoing()
        return out

    def _handle(self, participant: Participant) -> None:
        session = participant.session
        events = session.events()
        while events:
            for event in events:
                if isinstance(event, HelloReceived):
                    session.do(self._registry.answer(event.worker))
                elif isinstance(event, WorkersGone):
                    self._registry.left(event.workers)
            events = session.events()
        if session.over:
            self._release(participant)

    def _release(self, participant: Participant) -> None:
        if participant.is_approved and participant.worker is not None:
            self._registry.release(participant.worker)

    def _check(self, participant: Participant) -> None:
        """Check the order of offsets."""
        if participant.is_approved:
            state = participant.state
            assert state.committed <= state.prepared <= state.received

    def lost(self, connection: int) -> None:
        """End a connection."""
        participant = self.open(connection)
        participant.session.lost()
        self._release(participant)

    def restart(self) -> None:
        """Kill the sink, and start it again."""
        for participant in self._connections.values():
            participant.session.lost()
        self.kills.at = None
        self.output.lose()
        self._registry = ParticipantRegistry(self.state, self._retire)

    def play(self, history: list[Step]) -> Outcome:
        """Run a history, and return its outcome."""
        replies = [self.step(connection, frame) for connection, frame in history]
        states = {worker: self.state(worker) for worker in sorted(self.logs)}
        return Outcome(
            replies,
            {worker: self.output.bytes.get(worker, b"")[: state.committed] for worker, state in states.items()},
            {worker: [state.vote.transaction] if state.vote else [] for worker, state in states.items()},
        )
