"""The numbers that lines had when they were written, of those that compacting copied since.

They are noted for as long as quarantine has records of a table whose versions have no ts, or while a table is made anew
elsewhere: then they tell which of two came first. Invariant: what is noted is the number of the batch which wrote the
version, however often its line was copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, Segment, Writer, record_key, seal, unseal

__all__ = ["first_numbers", "moved_lines_db", "write_moved_lines"]

Index = NDArray[np.int64]


def moved_lines_db(table: int) -> str:
    """The database of the numbers that copied lines had before, a row for each segment."""
    return f"moved:{table}"


def write_moved_lines(table: int, writer: Writer, parts: Sequence[tuple[Segment, Index]], base: int) -> None:
    """These lines are copied to the segment at `base`."""
    numbers = [first_numbers(table, writer, segment.base, at) for segment, at in parts]
    every = np.concatenate(numbers)
    if every.size:
        key = record_key(base)
        writer.put_many(moved_lines_db(table), [(key, seal(key, every.astype("<i8").tobytes()))])


def first_numbers(table: int, reader: Reader, base: int, at: Index) -> Index:
    """The numbers with which these lines of a segment were written."""
    key, db = record_key(base), moved_lines_db(table)
    row = reader.get_many(db, [key])[0]
    if row is None:
        return base + at.astype(np.int64)
    return np.frombuffer(unseal(key, row, db), "<i8").astype(np.int64)[at]
