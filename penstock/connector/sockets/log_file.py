"""A transaction log in a file, and the calls of the file system that keep it durable.

Invariants:

- a record that `append` synced survives a power loss, and so does each record that an opening returns. A process may be
  killed before its sync, so each opening syncs the file and its name;
- a log is replaced as a whole: its data is synced, then it gets its name, then its folder is synced;
- after a write or a sync that failed, the log takes no record. Only the next opening tells which records it has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from penstock.connector.errors import ConnectorFault
from penstock.connector.log_records import LogRecord, logged, read_log

__all__ = ["LONGEST_LOG", "FileSystem", "LogFile", "make_folder", "read_file", "sync_folder"]

LONGEST_LOG = 1 << 20
"""The bytes of a log after which it is replaced by the records of its state."""
_BLOCK = 1 << 20


class FileSystem(Protocol):
    """The calls of `os` that logs use. The module itself is the real file system, and the simulator has another."""

    def open(self, path: str, flags: int, mode: int = ..., /) -> int: ...

    def close(self, file: int, /) -> None: ...

    def pread(self, file: int, length: int, offset: int, /) -> bytes: ...

    def pwrite(self, file: int, data: bytes, offset: int, /) -> int: ...

    def ftruncate(self, file: int, length: int, /) -> None: ...

    def fsync(self, file: int, /) -> None: ...

    def fdatasync(self, file: int, /) -> None: ...

    def replace(self, path: str, other: str, /) -> None: ...

    def listdir(self, path: str, /) -> list[str]: ...

    def makedirs(self, path: str, mode: int, exist_ok: bool, /) -> None: ...


class LogFile:
    """A log. `records` are those that it had when it was opened. Without a file it begins with `replace`."""

    def __init__(self, path: str, files: FileSystem = os) -> None:
        self.path = path
        self.records: list[LogRecord] = []
        self.size = 0
        self.failed = False
        """A write or a sync failed, so this process can't know which records are durable."""
        self._files = files
        self._file: int | None = None
        with suppress(FileNotFoundError):
            self._file = files.open(path, os.O_RDWR | os.O_CLOEXEC)
        if self._file is not None:
            try:
                data = read_file(self._file, files)
                self.records, self.size = read_log(data, path)
                if self.size < len(data):  # the end of a record that was never acknowledged
                    files.ftruncate(self._file, self.size)
                files.fsync(self._file)
                sync_folder(os.path.dirname(path), files)
            except BaseException:
                self.close()
                raise

    def append(self, record: LogRecord, sync: bool = True) -> None:
        """Write a record. With `sync` it is durable when the call returns."""
        if self.failed or self._file is None:
            raise ConnectorFault(self.path, "an earlier record could not be written", "start again")
        data = logged(record)
        self.failed = True
        if self._files.pwrite(self._file, data, self.size) != len(data):
            self._files.ftruncate(self._file, self.size)
            raise ConnectorFault(self.path, "the disk took a part of a record only", "free some space")
        if sync:
            self._files.fdatasync(self._file)
        self.failed = False
        self.size += len(data)

    def replace(self, records: Iterable[LogRecord]) -> None:
        """Replace all records by these, durably and as a whole."""
        files, fresh, data = self._files, f"{self.path}.fresh", b"".join(map(logged, records))
        file = files.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if files.pwrite(file, data, 0) != len(data):
                raise ConnectorFault(self.path, "the disk took a part of a log only", "free some space")
            files.fsync(file)
            self.failed = True
            files.replace(fresh, self.path)
            sync_folder(os.path.dirname(self.path), files)
        except BaseException:
            files.close(file)
            raise
        self.close()
        self._file, self.size, self.failed = file, len(data), False

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file is not None:
            file, self._file = self._file, None
            self._files.close(file)


def read_file(file: int, files: FileSystem) -> bytes:
    """Return all bytes of an open file."""
    parts: list[bytes] = []
    while part := files.pread(file, _BLOCK, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def make_folder(path: str, files: FileSystem) -> None:
    """Make a folder, unless it exists, and make its name durable."""
    files.makedirs(path, 0o700, True)
    sync_folder(os.path.dirname(os.path.abspath(path)), files)


def sync_folder(path: str, files: FileSystem) -> None:
    """Make the names in a folder durable."""
    folder = files.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files.fsync(folder)
    finally:
        files.close(folder)
