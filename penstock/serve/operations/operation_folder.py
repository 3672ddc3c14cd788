"""The operations of a server, as files in a folder beside the store.

Several fronts share the folder, and it outlives each of them and the server. The process that runs an operation has a
kernel lock on the file of its kind, which ends with the process. Invariants:

- one operation of a kind runs at a time, in any process;
- an operation whose process ended is failed, never running forever;
- a record is replaced as a whole, so a reader never sees a part of one.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from penstock.serve.operations.operation_record import (
    OperationCancelled,
    OperationRecord,
    OperationState,
    OperationUnderWay,
)

__all__ = ["OperationClaim", "OperationFolder"]

KEPT = 24 * 3600.0
"""Seconds for which the record of an ended operation is kept."""
_SAY = 0.2  # seconds between two writes of the progress
_LAST = "last"  # the file with the number of the last operation
_LOST = "the process that ran it ended; begin it again, for completed steps change nothing"


class OperationFolder:
    """The operations below a path. The folder is made with the first one."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self.lost: Callable[[OperationRecord], object] = lambda record: None
        """Called with the record of an operation whose process ended."""
        self._clock = clock

    @classmethod
    def of_store(cls, path: str) -> OperationFolder:
        """Return the folder beside the folder of a store."""
        return cls(os.path.abspath(path) + ".operations")

    def begin(self, kind: str, by: str) -> OperationClaim:
        """Begin an operation. OperationUnderWay names the one of this kind that runs."""
        with self._turn():
            self._forget()
            lock = os.open(self._lock(kind), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if not _locked(lock):
                    self._must_have_ended(kind, os.pread(lock, 64, 0).decode())
                    fcntl.flock(lock, fcntl.LOCK_EX)  # its process is about to release it
                number = self._next()
                os.ftruncate(lock, 0)
                os.pwrite(lock, number.encode(), 0)
                record = OperationRecord(number, kind, by, OperationState.WAITING, began=self._clock())
                self.write(record)
            except BaseException:
                os.close(lock)
                raise
            return OperationClaim(self, record, lock, self._clock)

    def find(self, number: str) -> OperationRecord | None:
        """Return the record of an operation, as failed if its process has ended; None if there is none."""
        record = self._read(number)
        if record is None or record.state.ended:
            return record
        with self._turn():
            running = self._runs(record)
            record = self._read(number)  # a claim writes the outcome before it lets the lock go
            if record is not None and not record.state.ended and not running:
                record = replace(record, state=OperationState.FAILED, error=_LOST, ended=self._clock())
                self.write(record)
                self.lost(record)
        return record

    def listed(self) -> list[OperationRecord]:
        """Return all records, the last one first."""
        found = [self.find(str(number)) for number in sorted(self._numbers(), reverse=True)]
        return [record for record in found if record is not None]

    def cancel(self, number: str) -> OperationRecord | None:
        """Ask an operation to end at its next step. Return its record at present; None if there is none."""
        record = self.find(number)
        if record is not None and not record.state.ended:
            self.marker(number).touch(0o600)
        return record

    def marker(self, number: str) -> Path:
        """Return the path of the file that asks an operation to end."""
        return self.path / f"{number}.cancel"

    def write(self, record: OperationRecord) -> None:
        """Replace a record."""
        file = self._file(record.id)
        part = file.with_suffix(f".{threading.get_ident()}.part")
        part.write_text(record.text, encoding="utf-8")
        os.replace(part, file)

    def _read(self, number: str) -> OperationRecord | None:
        if not number.isdecimal() or not number.isascii():
            return None
        with suppress(FileNotFoundError):
            return OperationRecord.of_text(self._file(number).read_text(encoding="utf-8"))
        return None

    def _must_have_ended(self, kind: str, number: str) -> None:
        record = self._read(number)
        if record is None or not record.state.ended:
            raise OperationUnderWay(kind, number)

    def _runs(self, record: OperationRecord) -> bool:
        """Return True if a process runs this operation: it has the lock of the kind, and wrote this number into it."""
        with suppress(FileNotFoundError):
            lock = os.open(self._lock(record.kind), os.O_RDWR | os.O_CLOEXEC)
            try:
                return not _locked(lock) and os.pread(lock, 64, 0).decode() == record.id
            finally:
                os.close(lock)
        return False

    def _forget(self) -> None:
        """Remove the records of operations that ended long ago."""
        for number in self._numbers():
            record = self._read(str(number))
            if record is not None and record.state.ended and record.ended < self._clock() - KEPT:
                self._file(str(number)).unlink(missing_ok=True)
                self.marker(str(number)).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        return [int(file.stem) for file in self.path.glob("*.json") if file.stem.isdecimal()]

    def _next(self) -> str:
        """Return a number that no operation had."""
        file, before = self.path / _LAST, 0
        with suppress(FileNotFoundError, ValueError):
            before = int(file.read_text())
        number = max(before, *self._numbers(), 0) + 1
        file.write_text(str(number))
        return str(number)

    def _file(self, number: str) -> Path:
        return self.path / f"{number}.json"

    def _lock(self, kind: str) -> Path:
        return self.path / f"{kind}.lock"

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one thread of one process at a time begin operations or look at locks."""
        self.path.mkdir(0o700, exist_ok=True)
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


class OperationClaim:
    """The right to run one operation, and its record."""

    def __init__(self, folder: OperationFolder, record: OperationRecord, lock: int, clock: Callable[[], float]) -> None:
        self.record = record
        self._folder = folder
        self._lock = lock
        self._clock = clock
        self._said = 0.0
        self._stop = threading.Event()

    def tell(self, done: int, total: int) -> None:
        """Note the progress. OperationCancelled if the operation shall end."""
        if self._stop.is_set():
            raise OperationCancelled("the server stopped")
        now = self._clock()
        if now - self._said < _SAY and done < total and self.record.state is OperationState.RUNNING:
            return
        self._said = now
        self.record = replace(self.record, state=OperationState.RUNNING, done=done, total=total)
        self._folder.write(self.record)
        if self._folder.marker(self.record.id).exists():
            raise OperationCancelled("the operator cancelled it")

    def stop(self) -> None:
        """Have the operation end at its next step, because the server stops."""
        self._stop.set()

    def end(self, state: OperationState, result: str = "", error: str = "") -> OperationRecord:
        """Write the outcome, and let the next operation of this kind begin."""
        done = self.record.total if state is OperationState.DONE else self.record.done
        self.record = replace(self.record, state=state, done=done, result=result, error=error, ended=self._clock())
        try:
            self._folder.write(self.record)
            self._folder.marker(self.record.id).unlink(missing_ok=True)
        finally:
            os.close(self._lock)
        return self.record


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
