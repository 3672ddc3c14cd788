"""The original record numbers of lines that a compaction copied.

They are kept while quarantine has records of a table without ts, or during a refill. They tell the order of two
versions. Invariant: the number is that of the batch which wrote the version, after any number of copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, Segment, Writer, record_key, seal, unseal

__all__ = ["first_numbers", "moved_lines_db", "write_moved_lines"]

Index = NDArray[np.int64]


def moved_lines_db(table: int) -> str:
    """Name the database of the original numbers of copied lines, with a row per segment."""
    return f"moved:{table}"


def write_moved_lines(table: int, writer: Writer, parts: Sequence[tuple[Segment, Index]], base: int) -> None:
    """Write the original numbers of the lines that were copied to the segment at `base`."""
    numbers = [first_numbers(table, writer, segment.base, at) for segment, at in parts]
    every = np.concatenate(numbers)
    if every.size:
        key = record_key(base)
        writer.put_many(moved_lines_db(table), [(key, seal(key, every.astype("<i8").tobytes()))])


def first_numbers(table: int, reader: Reader, base: int, at: Index) -> Index:
    """Return the original numbers of these lines of a segment."""
    key, db = record_key(base), moved_lines_db(table)
    row = reader.get_many(db, [key])[0]
    if row is None:
        return base + at.astype(np.int64)
    return np.frombuffer(unseal(key, row, db), "<i8").astype(np.int64)[at]
