"""The durable state of a Wallaroo sink: a log of its transactions, decisions and positions in the store's folder.

Invariants:

- a transaction is durable before its vote is asked for, and a decision to commit before it is sent;
- a decision and the position of the store that it reaches are one record;
- the log belongs to one view. Another view is refused.
"""

from __future__ import annotations

import os
import time
from urllib.parse import unquote

from penstock.connector import (
    LogRecord,
    OpenTransaction,
    PositionHeld,
    StreamNamed,
    TransactionDecided,
    TransactionOpened,
    logged,
    read_log,
)
from penstock.sink.errors import SinkTaken
from penstock.views import Position

__all__ = ["SinkLog"]

_LONG = 1 << 20  # bytes after which an opened log is written anew
_EVERY = 1.0  # seconds between two positions without changes


class SinkLog:
    """The state of a coordinator. `next_position` is the position that the next decision reaches."""

    def __init__(self, path: str, sink: str, stream: bytes) -> None:
        self.committed = 0
        self.open: OpenTransaction | None = None
        self.position: Position | None = None
        self.next_position: Position = 0
        self.number = 0
        """The number of the last transaction."""
        self._last = ""
        self._held = 0.0
        self._path = path
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _sync_folder(os.path.dirname(folder))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = os.pread(self._file, os.fstat(self._file).st_size, 0)
        records, self._end = read_log(data, path)
        os.ftruncate(self._file, self._end)
        for record in records:
            self._apply(record, sink, stream)
        if not records or self._end > _LONG:
            self._begin(stream)

    def prepare(self, transaction: OpenTransaction) -> None:
        """Store a transaction."""
        self._append(TransactionOpened(time.time(), transaction.transaction, transaction.end))
        self.open, self.number = transaction, self.number + 1

    def decide(self, commit: bool) -> None:
        """Store a decision to commit. Any other transaction is aborted, without a record."""
        assert self.open is not None, "a decision needs an open transaction"
        if commit:
            record = TransactionDecided(time.time(), self.open.transaction, self.open.end, self.next_position)
            self._append(record)
            self.committed, self._last, self.position = record.end, record.transaction, record.position
        self.open = None

    def is_committed(self, transaction: str) -> bool:
        """Return whether the last decision to commit was about this transaction."""
        return self._last == transaction

    def hold(self, position: Position) -> None:
        """Note that there were no changes up to a position. It may be forgotten in a crash."""
        now = time.monotonic()
        if position != self.position and now - self._held >= _EVERY:
            self._append(PositionHeld(time.time(), position), sync=False)
            self.position, self._held = position, now

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _apply(self, record: LogRecord, sink: str, stream: bytes) -> None:
        match record:
            case StreamNamed(name=name) if name != stream:
                other = unquote(name.decode(errors="replace").rpartition("-w-")[0])
                raise SinkTaken(sink, f"it gets the changes of view {other!r}", "give this one another name=")
            case TransactionOpened(transaction=transaction):
                self.number = max(self.number, int(transaction.rpartition("=")[2]))
            case TransactionDecided(transaction=transaction, end=end, position=position):
                self.number = max(self.number, int(transaction.rpartition("=")[2]))
                self.committed, self._last, self.position = end, transaction, position
            case PositionHeld(position=position):
                self.position = position
            case _:
                pass

    def _begin(self, stream: bytes) -> None:
        """Write the state as a short log, which replaces the old one at once."""
        now = time.time()
        records: list[LogRecord] = [StreamNamed(now, stream)]
        if self.position is not None:
            if self._last:
                records.append(TransactionDecided(now, self._last, self.committed, self.position))
            records.append(PositionHeld(now, self.position))
        data = b"".join(map(logged, records))
        fresh = os.open(f"{self._path}.new", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.pwrite(fresh, data, 0)
        os.fsync(fresh)
        os.replace(f"{self._path}.new", self._path)
        _sync_folder(os.path.dirname(self._path))
        os.close(self._file)
        self._file, self._end = fresh, len(data)

    def _append(self, record: LogRecord, sync: bool = True) -> None:
        data = logged(record)
        assert os.pwrite(self._file, data, self._end) == len(data), "a regular file takes all bytes or raises"
        if sync:
            os.fdatasync(self._file)
        self._end += len(data)


def _sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
