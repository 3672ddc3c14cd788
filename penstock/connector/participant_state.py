"""The durable state of a participant: the protocol that it asks of a store, and an implementation over a log.

A store implements `ParticipantState` for each worker. Rows of LMDB can implement it: `commit` then stores documents and
offset in one transaction, and prepared bytes are rows. Invariants of every implementation:

- committed ≤ prepared ≤ received; each is monotone, except that a rollback and a restore cut `received`;
- a method returns once its effect is durable. Only `append` may lose its bytes, up to the next `prepare`;
- a kill within a method leaves the state before it or after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.connector.log_records import (
    AbortForced,
    AbortVote,
    CommitDone,
    CommitVote,
    DecisionUnknown,
    LogRecord,
    LogSummary,
    OpenVote,
    RollbackDone,
    StreamNamed,
    UncommittedListed,
)

__all__ = ["LoggedState", "Output", "ParticipantState", "RecordLog"]


class ParticipantState(Protocol):
    """The state of one worker's stream."""

    @property
    def received(self) -> int:
        """The offset after the last accepted byte."""
        ...

    @property
    def prepared(self) -> int:
        """The end of the open commit vote, or else `committed`."""
        ...

    @property
    def committed(self) -> int:
        """The end of the last commit."""
        ...

    @property
    def vote(self) -> OpenVote | None:
        """The open vote."""
        ...

    @property
    def forced(self) -> bool:
        """The next vote is abort."""
        ...

    def restore(self) -> None:
        """Cut all bytes after `prepared`: a session of the worker begins."""

    def open_stream(self, name: bytes) -> None:
        """Store the name of the stream."""

    def append(self, body: bytes) -> None:
        """Accept bytes at `received`."""

    def force_abort(self, reason: str) -> None:
        """Make the next vote abort. A second call changes nothing."""

    def prepare(self, vote: OpenVote) -> bool:
        """Store a vote with the bytes that it promises, and return it. A commit vote may become an abort vote."""
        ...

    def commit(self) -> None:
        """Commit the open vote, and keep the tail after its end."""

    def rollback(self) -> None:
        """End the open vote, and cut all bytes after `committed`."""

    def note_list(self, transactions: tuple[str, ...]) -> None:
        """Log that the open transactions were listed. It changes nothing."""

    def note_unknown(self, transaction: str, commit: bool) -> None:
        """Log a decision about a transaction that is not open. It changes nothing."""


class RecordLog(Protocol):
    """A log that keeps records."""

    def append(self, record: LogRecord) -> None:
        """Write a record durably."""


class Output(Protocol):
    """The program that receives the bytes of workers."""

    def write(self, worker: str, offset: int, body: bytes) -> None:
        """Take bytes at an offset. They need not be durable yet."""

    def prepare(self, worker: str, transaction: str, end: int) -> bool:
        """Make all bytes before `end` durable, and return whether they can be committed."""
        ...

    def commit(self, worker: str, transaction: str, end: int) -> None:
        """Publish all bytes before `end` durably. After a kill the call may come a second time."""

    def rollback(self, worker: str, end: int) -> None:
        """Discard all bytes from `end` on. The call may come at any time, also without such bytes."""


class LoggedState:
    """The state of one worker over a log of records and a program that keeps the bytes.

    The program commits before the log does. After a kill between the two, the vote is still open, so the coordinator
    decides again, and the program gets the commit a second time. The log rolls back before the program does. After a
    kill between the two, `restore` cuts the bytes.
    """

    def __init__(
        self, worker: str, log: RecordLog, output: Output, records: list[LogRecord], clock: Callable[[], float]
    ) -> None:
        self._worker = worker
        self._log = log
        self._output = output
        self._clock = clock
        self._summary = LogSummary.of(records)
        self.received = self._summary.prepared

    @property
    def prepared(self) -> int:
        return self._summary.prepared

    @property
    def committed(self) -> int:
        return self._summary.committed

    @property
    def vote(self) -> OpenVote | None:
        return self._summary.vote

    @property
    def forced(self) -> bool:
        return self._summary.forced

    def restore(self) -> None:
        self._output.rollback(self._worker, self.prepared)
        self.received = self.prepared

    def open_stream(self, name: bytes) -> None:
        if self._summary.name != name:
            self._write(StreamNamed(self._clock(), name))

    def append(self, body: bytes) -> None:
        self._output.write(self._worker, self.received, body)
        self.received += len(body)

    def force_abort(self, reason: str) -> None:
        if not self.forced:
            self._write(AbortForced(self._clock(), reason))

    def prepare(self, vote: OpenVote) -> bool:
        commit = vote.commit and self._output.prepare(self._worker, vote.transaction, vote.end)
        kind = CommitVote if commit else AbortVote
        self._write(kind(self._clock(), vote.transaction, vote.ranges))
        return commit

    def commit(self) -> None:
        vote = self._open()
        self._output.commit(self._worker, vote.transaction, vote.end)
        self._write(CommitDone(self._clock(), vote.transaction, vote.end))

    def rollback(self) -> None:
        self._write(RollbackDone(self._clock(), self._open().transaction, self.committed))
        self.restore()

    def note_list(self, transactions: tuple[str, ...]) -> None:
        self._write(UncommittedListed(self._clock(), transactions))

    def note_unknown(self, transaction: str, commit: bool) -> None:
        self._write(DecisionUnknown(self._clock(), transaction, commit))

    def _open(self) -> OpenVote:
        assert self._summary.vote is not None, "a decision needs an open vote"
        return self._summary.vote

    def _write(self, record: LogRecord) -> None:
        self._log.append(record)
        self._summary.apply(record)
