"""Read a table's log: segments in their order, and lines by record number.

A record is in the last segment that begins at or before it, because segments follow each other without gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.cache.errors import StoreDamaged
from penstock.cache.log.key_slots import Lane
from penstock.cache.log.segment import Segment
from penstock.cache.store.protocol import Reader

Records = NDArray[np.int64]
_RUN = 1 << 12


@dataclass(frozen=True, slots=True)
class KeyRun:
    """The keys of consecutive segments. `base` is their first record, and `gone` marks the deleted keys."""

    base: int
    k0: Lane
    k1: Lane | None
    gone: NDArray[np.bool_] | None

    def __len__(self) -> int:
        return int(self.k0.size)

    @classmethod
    def of(cls, parts: Sequence[Segment]) -> KeyRun:
        """Join segments."""
        first = parts[0]
        if len(parts) == 1:
            return cls(first.base, first.k0, first.k1, first.gone)
        k1: Lane | None = None
        if any(part.k1 is not None for part in parts):
            k1 = np.concatenate([np.zeros(len(p), np.uint64) if p.k1 is None else p.k1 for p in parts])
        gone: NDArray[np.bool_] | None = None
        if any(part.gone is not None for part in parts):
            gone = np.concatenate([np.zeros(len(p), np.bool_) if p.gone is None else p.gone for p in parts])
        return cls(first.base, np.concatenate([part.k0 for part in parts]), k1, gone)


def log_db(table: int) -> str:
    """Return the name of the database of a table's segments."""
    return f"log:{table}"


def record_key(record: int) -> bytes:
    """Return the key of the segment that begins with this record."""
    return record.to_bytes(8, "big")


def segments_from(reader: Reader, table: int, start: int) -> Iterator[Segment]:
    """Yield all segments that begin at or after this record, without a copy. They are valid until the next write."""
    db = log_db(table)
    key = next((key for key, _ in reader.scan(db, record_key(start))), None)
    while key is not None:
        found = reader.floor(db, key)
        if found is None or found[0] != key:
            return  # the log is one window of consecutive records, so it ends here
        segment = Segment.parse(int.from_bytes(key, "big"), found[1], db)
        yield segment
        key = record_key(segment.base + len(segment))


def runs_from(reader: Reader, table: int, start: int) -> Iterator[KeyRun]:
    """Yield the keys of all segments that begin at or after this record. Small segments are joined."""
    parts: list[Segment] = []
    n = 0
    for segment in segments_from(reader, table, start):
        parts.append(segment)
        n += len(segment)
        if n >= _RUN:
            yield KeyRun.of(parts)
            parts, n = [], 0
    if parts:
        yield KeyRun.of(parts)


def segments_at(reader: Reader, table: int, record: int) -> Iterator[Segment]:
    """Yield the segment with this record, or the first one after it, and all later ones."""
    db = log_db(table)
    found = reader.floor(db, record_key(record))
    if found is not None:
        segment = Segment.parse(int.from_bytes(found[0], "big"), found[1], db)
        if segment.base + len(segment) > record:
            record = segment.base
    return segments_from(reader, table, record)


def read_lines(reader: Reader, table: int, records: Records, checked: set[int] | None = None) -> list[bytes]:
    """Return the lines of these records in their order.

    `checked` has the segments whose columns were checked before.
    """
    out: list[bytes] = [b""] * int(records.size)
    for segment, which, at in segments_of(reader, table, records, checked):
        for place, line in zip(which.tolist(), segment.lines(at), strict=True):
            out[place] = line
    return out


def segments_of(
    reader: Reader, table: int, records: Records, checked: set[int] | None = None
) -> Iterator[tuple[Segment, NDArray[np.int64], Records]]:
    """Yield each segment with some of these records, the indexes of these records, and their positions in it.

    A segment is not copied. It is valid until the next one, or until the next write.
    """
    order = np.argsort(records, kind="stable")
    ordered = records[order]
    db = log_db(table)
    i = 0
    while i < ordered.size:
        record = int(ordered[i])
        found = reader.floor(db, record_key(record)) if record >= 0 else None
        if found is None:
            raise _missing_record(table, record)
        segment = Segment.parse(int.from_bytes(found[0], "big"), found[1], db, checked)
        j = int(np.searchsorted(ordered, segment.base + len(segment)))
        if j <= i:
            raise _missing_record(table, record)
        yield segment, order[i:j], ordered[i:j] - segment.base
        i = j


def _missing_record(table: int, record: int) -> StoreDamaged:
    """Return the damage of a record that the index names but no log entry has."""
    return StoreDamaged(f"index:{table}, record {record} is in no log entry")
