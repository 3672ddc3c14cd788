"""A folder with the transaction logs of a sink, one file for each worker.

A file has a number as its name, and the name of the worker as its first record. So no name of a peer is part of a path.
Invariants:

- a record is on disk before the call returns, and so is the folder's entry of a file;
- a log that grew is replaced as a whole by the records of its state;
- one process at a time has the folder.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.connector.errors import ConnectorFault, LogDamaged
from penstock.connector.transaction_log import CommitDone, LogRecord, LogSummary, WorkerNamed, logged, read_log

__all__ = ["FileLog", "StateFolder"]

_LARGEST = 1 << 20  # bytes of a log that is rewritten


class FileLog:
    """The log of one worker."""

    def __init__(self, path: Path, worker: str) -> None:
        self.path = path
        self._worker = worker
        data = path.read_bytes()
        self.records, end = read_log(data, str(path))
        self._summary = LogSummary.of(self.records)
        self._size = end
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if end < len(data):  # the end of a record that was never acknowledged
            os.ftruncate(self._file, end)
            os.fsync(self._file)

    def append(self, record: LogRecord) -> None:
        """Write a record durably."""
        data = logged(record)
        if os.write(self._file, data) != len(data):
            os.ftruncate(self._file, self._size)
            raise ConnectorFault(str(self.path), "the disk took a part of a record only", "free some space")
        os.fsync(self._file)
        self._size += len(data)
        self._summary.apply(record)
        if self._size > _LARGEST and isinstance(record, CommitDone):
            self._rewrite(record.time)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _rewrite(self, time: float) -> None:
        """Replace the log by the records of its state."""
        records = [WorkerNamed(time, self._worker), *self._summary.records(time)]
        _write(self.path, b"".join(map(logged, records)))
        os.close(self._file)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = os.fstat(self._file).st_size


class StateFolder:
    """The logs of all workers of a sink."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ConnectorFault(path, "another process has this folder", "end it, or name another folder") from None
        try:
            self._paths = {_worker_of(found): found for found in sorted(self._path.glob("*.log"))}
        except BaseException:
            os.close(self._lock)
            raise
        self._logs: dict[str, FileLog] = {}

    def log(self, worker: str) -> FileLog:
        """Open the log of a worker, and close an earlier copy."""
        path = self._paths.get(worker)
        if path is None:
            path = self._paths[worker] = self._path / f"{self._number():06}.log"
            _write(path, logged(WorkerNamed(0.0, worker)))
        if worker in self._logs:
            self._logs.pop(worker).close()
        log = self._logs[worker] = FileLog(path, worker)
        return log

    def retire(self, worker: str) -> None:
        """Set the log of a worker aside: if it returns, it starts at 0."""
        path = self._paths.pop(worker, None)
        if worker in self._logs:
            self._logs.pop(worker).close()
        if path is not None:
            path.rename(path.with_suffix(".left"))
            _sync(self._path)

    def close(self) -> None:
        """Close all logs, and free the folder."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        os.close(self._lock)

    def _number(self) -> int:
        """Return a number that no file has or had."""
        return max((int(found.stem) for found in self._path.glob("[0-9]*.*")), default=0) + 1


def _worker_of(path: Path) -> str:
    """Return the worker whose log a file is."""
    records, _ = read_log(path.read_bytes(), str(path))
    if not records or not isinstance(records[0], WorkerNamed):
        raise LogDamaged(str(path), 0)
    return records[0].worker


def _write(path: Path, data: bytes) -> None:
    """Write a file durably, and replace an older one as a whole."""
    fresh = path.with_suffix(".fresh")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Make the entries of a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
