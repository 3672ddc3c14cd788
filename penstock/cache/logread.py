"""Reading a table's log: its segments in their order, and lines by record number.

Record r of a table stands in the last segment that begins at or before r: segments follow each other without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from penstock.cache.segment import Segment
from penstock.cache.store import Reader

Records = NDArray[np.int64]


def log_db(table: int) -> str:
    """The database of a table's segments."""
    return f"log:{table}"


def record_key(record: int) -> bytes:
    """The key of the segment that begins with this record."""
    return record.to_bytes(8, "big")


def segments_from(reader: Reader, table: int, start: int) -> Iterator[Segment]:
    """All segments that begin at or after this record, each where it lies: good until anything is written."""
    db = log_db(table)
    key = next((key for key, _ in reader.scan(db, record_key(start))), None)
    while key is not None:
        found = reader.floor(db, key)
        if found is None or found[0] != key:
            return  # the log is one window of consecutive records: this is its end
        segment = Segment.parse(int.from_bytes(key, "big"), found[1], db)
        yield segment
        key = record_key(segment.base + len(segment))


def segments_at(reader: Reader, table: int, record: int) -> Iterator[Segment]:
    """The segment that holds this record, or the first one after it, and all after that."""
    db = log_db(table)
    found = reader.floor(db, record_key(record))
    if found is not None:
        segment = Segment.parse(int.from_bytes(found[0], "big"), found[1], db)
        if segment.base + len(segment) > record:
            record = segment.base
    return segments_from(reader, table, record)


def read_lines(reader: Reader, table: int, records: Records, checked: set[int] | None = None) -> list[bytes]:
    """The lines of these records, in their order; `checked` are segments whose columns need no second check."""
    out: list[bytes] = [b""] * int(records.size)
    for segment, which, at in segments_of(reader, table, records, checked):
        for place, line in zip(which.tolist(), segment.lines(at), strict=True):
            out[place] = line
    return out


def segments_of(
    reader: Reader, table: int, records: Records, checked: set[int] | None = None
) -> Iterator[tuple[Segment, NDArray[np.int64], Records]]:
    """Each segment that holds some of these records, which they are, and where in it they stand.

    A segment is given where it lies in the store, and is good until the next one or until anything is written.
    """
    order = np.argsort(records, kind="stable")
    ordered = records[order]
    db = log_db(table)
    i = 0
    while i < ordered.size:
        found = reader.floor(db, record_key(int(ordered[i])))
        assert found is not None, "a record that is named has a segment"
        segment = Segment.parse(int.from_bytes(found[0], "big"), found[1], db, checked)
        j = int(np.searchsorted(ordered, segment.base + len(segment)))
        assert j > i, "the log is one window of consecutive records"
        yield segment, order[i:j], ordered[i:j] - segment.base
        i = j
