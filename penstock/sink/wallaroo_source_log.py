"""The durable messages of one view for a source connector: each has an id of its own before it is sent.

The log has the messages of complete positions, and after each of them the position. Invariants:

- a message is durable before it is sent, so no other message ever gets its id;
- the position of the log has all its changes in messages. So the feed continues exactly after it;
- only acknowledged messages are dropped, once the log is long. The last id is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import count

from penstock.connector import (
    LogFile,
    LogRecord,
    MessageKept,
    MessagesDropped,
    PositionHeld,
    StreamNamed,
    make_folder,
)
from penstock.views import Position

__all__ = ["MessageLog"]

_LONG = 64 << 20  # bytes after which acknowledged messages are dropped
_EVERY = 1.0  # seconds between two positions without changes


class MessageLog:
    """The messages of one stream, with ids from 1 on."""

    def __init__(self, path: str, stream: bytes) -> None:
        self.position: Position | None = None
        self.first = 1
        """The id of the oldest message that was not dropped."""
        self.last = 0
        """The id of the newest message."""
        self._stream = stream
        self._held = 0.0
        self._limit = _LONG
        make_folder(os.path.dirname(path), os)
        self._file = LogFile(path)
        records, self._file.records = self._file.records, []
        ends = [place for place, record in enumerate(records) if isinstance(record, PositionHeld)]
        whole = records[: ends[-1] + 1] if ends else []
        for record in whole:
            self._apply(record)
        if not whole:
            self._file.replace([StreamNamed(time.time(), stream)])
        elif len(whole) < len(records):  # messages of a position that is not complete were never sent
            self._file.replace(whole)

    def add(self, bodies: Sequence[bytes], position: Position) -> list[tuple[int, bytes]]:
        """Keep the messages of all changes up to a position, and return them with their ids."""
        now = time.time()
        messages = list(zip(count(self.last + 1), bodies, strict=False))
        for number, body in messages:
            self._file.append(MessageKept(now, number, body), sync=False)
        self._file.append(PositionHeld(now, position))
        self.last += len(messages)
        self.position = position
        return messages

    def hold(self, position: Position) -> None:
        """Note that there were no changes up to a position. It may be forgotten in a crash."""
        now = time.monotonic()
        if position != self.position and now - self._held >= _EVERY:
            self._file.append(PositionHeld(time.time(), position), sync=False)
            self.position, self._held = position, now

    def after(self, point: int) -> list[tuple[int, bytes]]:
        """Return all messages after this one that are kept."""
        with closing(LogFile(self._file.path)) as file:
            kept = [record for record in file.records if isinstance(record, MessageKept)]
        return [(record.message, record.body) for record in kept if record.message > point]

    def drop(self, point: int) -> None:
        """Drop messages up to an acknowledged one if the log is long."""
        if self._file.size <= self._limit:
            return
        now = time.time()
        records: list[LogRecord] = [StreamNamed(now, self._stream), MessagesDropped(now, point)]
        records += (MessageKept(now, number, body) for number, body in self.after(point))
        if self.position is not None:
            records.append(PositionHeld(now, self.position))
        self._file.replace(records)
        self.first = point + 1
        self._limit = max(_LONG, 2 * self._file.size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _apply(self, record: LogRecord) -> None:
        match record:
            case MessageKept(message=number):
                self.last = number
            case MessagesDropped(message=number):
                self.first, self.last = number + 1, number
            case PositionHeld(position=position):
                self.position = position
            case _:
                pass
