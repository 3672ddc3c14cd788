"""The sinks of a simulation: a program with transaction logs, or a store. Each is a process on a machine of its own.

The participants, the registry, the logs and the store are those of production. The connections and the disk are
simulated. A sink that raises an error ends the session, and a store ends its process.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import msgspec

from penstock.connector import (
    FileSystem,
    HelloReceived,
    LoggedState,
    LogSummary,
    OpenVote,
    Participant,
    ParticipantRegistry,
    ParticipantState,
    SessionFailed,
    WorkerLogs,
    WorkerNamed,
    WorkersGone,
    read_log,
    sync_folder,
)
from penstock.engine import Engine, open_on
from penstock.spout import MessageFormat, SpoutBatch, StoredWorker, WorkerRow
from penstock.testing.connector.connector_output import documents_in, orders_app
from penstock.testing.connector.simulated_files import SimulatedFiles
from penstock.testing.simulator.checks import HASH_SEED, Finding, Wrong
from penstock.testing.simulator.disk import Disk
from penstock.testing.simulator.faults import Points

COOKIE = "simulated"
ACTIVE = "already active"
_LONGEST_LOG = 700  # bytes, so that logs are replaced
_LOGS, _OUTPUT = "/sink/logs", "/sink/output"


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The durable state of a worker at a sink."""

    committed: int = 0
    vote: OpenVote | None = None

    @property
    def promised(self) -> int:
        """The end of the open commit vote, or else `committed`."""
        return self.vote.end if self.vote is not None and self.vote.commit else self.committed


class FileProgram:
    """A program that keeps the bytes of each worker in a file, and committed ones in another."""

    def __init__(self, files: FileSystem) -> None:
        self.refuses = False
        """The next transaction gets an abort vote."""
        self._files = files
        self._open: dict[str, int] = {}

    def write(self, worker: str, offset: int, body: bytes) -> None:
        """Write bytes that need not be durable yet."""
        self._files.pwrite(self._file(worker), body, offset)

    def prepare(self, worker: str, transaction: str, end: int) -> bool:
        """Sync the data, then its name."""
        if self.refuses:
            self.refuses = False
            return False
        self._files.fsync(self._file(worker))
        sync_folder(_OUTPUT, self._files)
        return True

    def commit(self, worker: str, transaction: str, end: int) -> None:
        """Publish all bytes before `end`."""
        out = self._file(f"{worker}.published")
        self._files.pwrite(out, self._files.pread(self._file(worker), end, 0), 0)
        self._files.fdatasync(out)
        sync_folder(_OUTPUT, self._files)

    def rollback(self, worker: str, end: int) -> None:
        """Cut the bytes after `end`. A power loss may restore them, and later writes replace them."""
        self._files.ftruncate(self._file(worker), end)

    def _file(self, name: str) -> int:
        if name not in self._open:
            self._open[name] = self._files.open(f"{_OUTPUT}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
        return self._open[name]


@dataclass(slots=True)
class SimulatedSink(ABC):
    """A sink. While it is down it has no registry and no connections."""

    number: int
    points: Points
    is_up: bool = False
    participants: dict[int, Participant] = field(default_factory=dict)
    registry: ParticipantRegistry | None = None

    @property
    def prefix(self) -> str:
        """The begin of the names of its places."""
        return f"sink {self.number} "

    def start(self) -> None:
        """Start the process."""
        self.registry = ParticipantRegistry(self.open_state, self.retire)
        self.is_up = True

    def end(self) -> None:
        """End the process, and all its connections."""
        self.is_up = False
        self.participants.clear()
        self.registry = None

    def receive(self, connection: int, data: bytes) -> bytes:
        """Take bytes of a connection, and return the answer."""
        participant = self.participants.setdefault(connection, Participant(COOKIE))
        try:
            participant.session.receive(data)
            self._handle(participant)
        except Exception as error:
            self.failed(participant, error)
        return participant.session.outgoing()

    def lost(self, connection: int) -> None:
        """Note that a connection ended."""
        participant = self.participants.pop(connection, None)
        if participant is not None:
            participant.session.lost()
            self._release(participant)

    def is_over(self, connection: int) -> bool:
        """Return whether the session of a connection has ended here."""
        participant = self.participants.get(connection)
        return participant is not None and participant.session.over

    def live(self) -> list[tuple[str, ParticipantState]]:
        """Return the state of each worker that has a session."""
        return [
            (participant.worker, participant.state)
            for participant in self.participants.values()
            if participant.worker and participant.is_approved and not participant.session.over
        ]

    def failed(self, participant: Participant, error: Exception) -> None:
        """End a session after an error of the sink's own state."""
        participant.session.lost()
        self._release(participant)

    def _handle(self, participant: Participant) -> None:
        session = participant.session
        while events := session.events():
            for event in events:
                assert self.registry is not None, "the process runs"
                if isinstance(event, HelloReceived):
                    session.do(self.registry.answer(event.worker))
                elif isinstance(event, WorkersGone):
                    self.registry.left(event.workers)
                elif isinstance(event, SessionFailed) and ACTIVE not in event.text:
                    where = f"sink {self.number}, worker {participant.worker}"
                    raise Wrong([Finding("protocol", where, f"the session ended: {event.text}")])
        if session.over:
            self._release(participant)

    def _release(self, participant: Participant) -> None:
        if participant.is_approved and participant.worker is not None and self.registry is not None:
            self.registry.release(participant.worker)

    @abstractmethod
    def open_state(self, worker: str) -> ParticipantState:
        """Return the state of a worker whose session begins."""

    @abstractmethod
    def retire(self, worker: str) -> None:
        """Retire the state of a worker that left."""

    @abstractmethod
    def refuse(self) -> None:
        """Vote abort about the next transaction, if this kind of sink can."""

    @abstractmethod
    def lose_power(self, choose: Random) -> None:
        """Lose everything that is not durable."""

    @abstractmethod
    def stored(self, worker: str) -> StoredOffsets:
        """Return the offsets of a worker that would survive a power loss."""

    @abstractmethod
    def differences(self, outputs: Mapping[str, bytes]) -> list[str]:
        """Compare all committed data with the committed output of each worker."""

    @abstractmethod
    def lost_promises(self, worker: str, output: bytes) -> list[str]:
        """Compare the durable bytes of the open transaction with the output that it promises."""


@dataclass(slots=True)
class ProgramSink(SimulatedSink):
    """A program of four methods, with a transaction log for each worker."""

    files: SimulatedFiles = field(init=False)
    program: FileProgram = field(init=False)
    logs: WorkerLogs = field(init=False)

    def __post_init__(self) -> None:
        self.files = SimulatedFiles(self.points, self.prefix)

    def start(self) -> None:
        self.program = FileProgram(self.files)
        self.logs = WorkerLogs(_LOGS, self.files, _LONGEST_LOG)
        super(ProgramSink, self).start()

    def end(self) -> None:
        super(ProgramSink, self).end()
        self.files.end_process()

    def lose_power(self, choose: Random) -> None:
        self.files.lose_power(choose)

    def open_state(self, worker: str) -> ParticipantState:
        log = self.logs.log(worker)
        return LoggedState(worker, log, self.program, log.records, lambda: 0.0)

    def retire(self, worker: str) -> None:
        self.logs.retire(worker)

    def refuse(self) -> None:
        self.program.refuses = self.is_up

    def stored(self, worker: str) -> StoredOffsets:
        for path in self.files.paths():
            records, _ = read_log(self.files.durable_content(path), path) if path.endswith(".log") else ([], 0)
            if records and isinstance(records[0], WorkerNamed) and records[0].worker == worker:
                summary = LogSummary.of(records)
                return StoredOffsets(summary.committed, summary.vote)
        return StoredOffsets()

    def differences(self, outputs: Mapping[str, bytes]) -> list[str]:
        found = {worker: self.files.content(f"{_OUTPUT}/{worker}.published") for worker in outputs}
        return [
            f"published {found[worker]!r} of {worker}, and {output!r} is committed"
            for worker, output in outputs.items()
            if found[worker] != output
        ]

    def lost_promises(self, worker: str, output: bytes) -> list[str]:
        found = self.files.durable_content(f"{_OUTPUT}/{worker}")[: len(output)]
        return [] if found == output else [f"has {found!r} durably, and {output!r} is promised"]


@dataclass(slots=True)
class StoreSink(SimulatedSink):
    """A store that keeps the state of each worker as rows."""

    disk: Disk = field(init=False)
    engine: Engine | None = None
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.disk = Disk(self.points, self.prefix)

    def start(self) -> None:
        self.engine, _ = open_on(orders_app(), self.disk.open(), seed=HASH_SEED)
        self._seen.clear()
        super(StoreSink, self).start()

    def end(self) -> None:
        super(StoreSink, self).end()
        self.engine = None
        self.disk.end_process()

    def lose_power(self, choose: Random) -> None:
        self.disk.lose_power(choose)

    def failed(self, participant: Participant, error: Exception) -> None:
        """End the process: the thread that reads a spout ends with an error of its store."""
        self.end()

    def open_state(self, worker: str) -> StoredWorker:
        source, certain = self._source(worker), worker in self._seen
        self._seen.add(worker)
        return StoredWorker(source, self._engine.remembered(source), MessageFormat(), self._save, certain)

    def retire(self, worker: str) -> None:
        self.open_state(worker).retire()
        self._seen.discard(worker)

    def refuse(self) -> None:
        """Do nothing: a store refuses no valid transaction."""

    def stored(self, worker: str) -> StoredOffsets:
        known = self._engine.remembered(self._source(worker)) if self.is_up else None
        if known is None or not known.note:
            return StoredOffsets()
        row = msgspec.msgpack.decode(known.note, type=WorkerRow)
        return StoredOffsets(row.committed, row.vote)

    def differences(self, outputs: Mapping[str, bytes]) -> list[str]:
        wanted, odd = documents_in(b"".join(outputs.values()))
        with self._engine.snapshot() as snap:
            found = dict(snap.table("orders").items())
        refused = self._engine.status()["tables"]["orders"]["rejected"]
        if found == wanted and refused == odd:
            return []
        return [f"holds documents {sorted(found)} and refused {refused} messages, not {sorted(wanted)} and {odd}"]

    def lost_promises(self, worker: str, output: bytes) -> list[str]:
        return []

    @property
    def _engine(self) -> Engine:
        assert self.engine is not None, "the process runs"
        return self.engine

    def _source(self, worker: str) -> str:
        return f"simulated/{worker}"

    def _save(self, batch: SpoutBatch) -> None:
        for _ in self._engine.load("orders", [batch], long=False):
            pass
