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
    LONGEST_LOG,
    FileSystem,
    LogFile,
    LogRecord,
    OpenTransaction,
    PositionHeld,
    StreamNamed,
    TransactionDecided,
    TransactionOpened,
    make_folder,
)
from penstock.sink.errors import SinkTaken
from penstock.views import Position

__all__ = ["SinkLog"]

_EVERY = 1.0  # seconds between two positions without changes


class SinkLog:
    """The state of a coordinator. `next_position` is the position that the next decision reaches."""

    def __init__(self, path: str, sink: str, stream: bytes, files: FileSystem = os, longest: int = LONGEST_LOG) -> None:
        self.committed = 0
        self.open: OpenTransaction | None = None
        self.position: Position | None = None
        self.next_position: Position = 0
        self.number = 0
        """The number of the last transaction."""
        self._last = ""
        self._held = 0.0
        make_folder(os.path.dirname(path), files)
        self._file = LogFile(path, files)
        for record in self._file.records:
            self._apply(record, sink, stream)
        if not self._file.records or self._file.size > longest:
            self._begin(stream)

    @property
    def failed(self) -> bool:
        """A record could not be written, so only the next opening tells the last decision."""
        return self._file.failed

    def prepare(self, transaction: OpenTransaction) -> None:
        """Store a transaction."""
        self._file.append(TransactionOpened(time.time(), transaction.transaction, transaction.end))
        self.open, self.number = transaction, self.number + 1

    def decide(self, commit: bool) -> None:
        """Store a decision to commit. Any other transaction is aborted, without a record."""
        assert self.open is not None, "a decision needs an open transaction"
        if commit:
            record = TransactionDecided(time.time(), self.open.transaction, self.open.end, self.next_position)
            self._file.append(record)
            self.committed, self._last, self.position = record.end, record.transaction, record.position
        self.open = None

    def is_committed(self, transaction: str) -> bool:
        """Return whether the last decision to commit was about this transaction."""
        return self._last == transaction

    def hold(self, position: Position) -> None:
        """Note that there were no changes up to a position. It may be forgotten in a crash."""
        now = time.monotonic()
        if position != self.position and now - self._held >= _EVERY:
            self._file.append(PositionHeld(time.time(), position), sync=False)
            self.position, self._held = position, now

    def close(self) -> None:
        """Close the file."""
        self._file.close()

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
        self._file.replace(records)
