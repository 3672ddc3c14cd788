"""The limit of remembered deletions: with `tombstones=N`, a deletion older than the greatest ts minus N is forgettable.

Compaction deletes forgettable deletions. Until then a late record is still compared with them. Invariant: only winning
versions determine the limit, so a digest without forgettable deletions is the same before and after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain

import numpy as np

from penstock.cache import Reader, read_mark, segments_from, unpack_document
from penstock.gateway.lines.stored_lines import StoredLine, unwrap
from penstock.gateway.versions.version_stamps import TEXT, number_of
from penstock.views import Table, reach

__all__ = ["forgettable"]

_SECOND = 10**9


def forgettable(
    readers: Sequence[Reader], table: Table, number: int, kind: str | None
) -> Callable[[bytes], bool] | None:
    """Return a test for lines of forgettable deletions, or None if there are none. `kind` is the kind of ts.

    `readers` are those of the partitions of the table. Superseded lines count too, because the newest version of a key
    has
    its greatest ts.
    """
    if table.tombstones is None or not any(read_mark(reader, number).tombstones for reader in readers):
        return None
    greatest: int | float | None = None
    for segment in chain.from_iterable(segments_from(reader, number, 0) for reader in readers):
        for line in segment.lines(np.arange(len(segment))):
            ts = _ts_of(table, unwrap(line), line)
            if greatest is None or ts > greatest:
                greatest = ts
    assert greatest is not None, "a tombstone has a line"
    limit = Fraction(greatest) - Fraction(table.tombstones) * (_SECOND if kind == TEXT else 1)

    def is_old(line: bytes) -> bool:
        found = unwrap(line)
        return found.absent and _ts_of(table, found, line) < limit

    return is_old


def _ts_of(table: Table, found: StoredLine, line: bytes) -> int | float:
    """Return the greatest ts of a line, as a number for comparison."""
    if found.patched is not None:
        floor = [] if found.patched.floor is None else [found.patched.floor]
        greatest: int | float = max(*floor, *found.patched.stamps.values(), -math.inf)
        return greatest
    if found.line is None or table.broker_ts:
        ts: int | float = found.ts
        return ts
    assert table.ts is not None, "asked of tables with a ts"
    number: int | float = number_of(reach(unpack_document(line), table.ts), None)[0]
    return number
