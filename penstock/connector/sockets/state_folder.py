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
import re
from contextlib import suppress

from penstock.connector.errors import ConnectorFault, LogDamaged
from penstock.connector.log_records import CommitDone, LogRecord, LogSummary, WorkerNamed
from penstock.connector.sockets.log_file import LONGEST_LOG, FileSystem, LogFile, make_folder, sync_folder

__all__ = ["StateFolder", "WorkerLog", "WorkerLogs"]


class WorkerLog:
    """The log of one worker."""

    def __init__(self, file: LogFile, worker: str, longest: int) -> None:
        self.records = file.records
        self._longest = longest
        self._file = file
        self._worker = worker
        self._summary = LogSummary.of(file.records)

    def append(self, record: LogRecord) -> None:
        """Write a record durably."""
        self._file.append(record)
        self._summary.apply(record)
        if self._file.size > self._longest and isinstance(record, CommitDone):
            self._file.replace([WorkerNamed(record.time, self._worker), *self._summary.records(record.time)])

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class WorkerLogs:
    """The logs of all workers of a sink."""

    def __init__(self, path: str, files: FileSystem = os, longest: int = LONGEST_LOG) -> None:
        self._path = path
        self._longest = longest
        self._files = files
        make_folder(path, files)
        names = sorted(name for name in files.listdir(path) if name.endswith(".log"))
        self._paths = {self._worker_of(found): found for found in (os.path.join(path, name) for name in names)}
        self._logs: dict[str, WorkerLog] = {}

    def log(self, worker: str) -> WorkerLog:
        """Open the log of a worker, and close an earlier copy."""
        if worker in self._logs:
            self._logs.pop(worker).close()
        if worker not in self._paths:
            self._paths[worker] = os.path.join(self._path, f"{self._number():06}.log")
        file = LogFile(self._paths[worker], self._files)
        if not file.records:
            file.replace([WorkerNamed(0.0, worker)])
        log = self._logs[worker] = WorkerLog(file, worker, self._longest)
        return log

    def retire(self, worker: str) -> None:
        """Set the log of a worker aside: if it returns, it starts at 0."""
        if worker in self._logs:
            self._logs.pop(worker).close()
        if worker in self._paths:
            path = self._paths[worker]
            with suppress(FileNotFoundError):  # the disk refused it, so the worker has no state
                self._files.replace(path, f"{path.removesuffix('.log')}.left")
            del self._paths[worker]
            sync_folder(self._path, self._files)

    def close(self) -> None:
        """Close all logs."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def _number(self) -> int:
        """Return a number that no file has or had."""
        names = [*self._files.listdir(self._path), *map(os.path.basename, self._paths.values())]
        found = (re.match(r"(\d+)\.", name) for name in names)
        return max((int(match[1]) for match in found if match), default=0) + 1

    def _worker_of(self, path: str) -> str:
        """Return the worker whose log a file is."""
        file = LogFile(path, self._files)
        file.close()
        if not file.records or not isinstance(file.records[0], WorkerNamed):
            raise LogDamaged(path, 0)
        return file.records[0].worker


class StateFolder(WorkerLogs):
    """The logs of all workers of a sink, for one process at a time."""

    def __init__(self, path: str) -> None:
        make_folder(path, os)
        self._lock = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            super().__init__(path)
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                reason = "another process has this folder"
                raise ConnectorFault(path, reason, "end it, or name another folder") from None
            raise

    def close(self) -> None:
        """Close all logs, and free the folder."""
        super().close()
        os.close(self._lock)
