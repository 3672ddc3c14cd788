"""The meters of an open store: outcomes, commits, bytes and durations since its opening.

All of them are plain ints, in memory only. Invariants:

- a batch is counted under the writer's lock, right after its commit;
- a reader takes no lock. It may see a part of the last batch, and no number ever falls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from penstock.core.input.batches import Batch
from penstock.views import Counts

__all__ = ["BucketCounts", "Meters"]

_OUTCOMES = ("applied", "equal", "late", "held", "rejected")


class BucketCounts:
    """Counts values in buckets whose bounds double; the last bucket has no bound.

    >>> sizes = BucketCounts(1, 4)
    >>> for size in (1, 2, 3, 4, 99):
    ...     sizes.add(size)
    >>> sizes.bounds, sizes.counts, sizes.total
    ([1, 2, 4], [1, 1, 2, 1], 109)
    """

    __slots__ = ("_last", "_shift", "counts", "total")

    def __init__(self, first: int, buckets: int) -> None:
        """Make `buckets` buckets; `first`, a power of two, is the bound of the first one."""
        self.counts = [0] * buckets
        self.total = 0
        self._shift = first.bit_length() - 1
        self._last = buckets - 1

    def add(self, value: int) -> None:
        """Count one value in the first bucket whose bound is not below it."""
        at = (value - 1 >> self._shift).bit_length() if value else 0
        self.counts[at if at < self._last else self._last] += 1
        self.total += value

    @property
    def bounds(self) -> list[int]:
        """Return the greatest value of each bucket but the last."""
        return [1 << self._shift + at for at in range(self._last)]

    def data(self) -> dict[str, Any]:
        """Return bounds, counts and the sum of all values as plain data."""
        return {"bounds": self.bounds, "counts": list(self.counts), "total": self.total}


class TableMeter:
    """The outcomes of the records of one table, and the bytes of their lines: JSON as received, or packed documents."""

    __slots__ = (*_OUTCOMES, "bytes")

    def __init__(self) -> None:
        self.applied = self.equal = self.late = self.held = self.rejected = self.bytes = 0

    def add(self, counts: Counts, lines: Sequence[bytes]) -> None:
        """Add the records of a batch."""
        self.applied += counts.applied
        self.equal += counts.equal
        self.late += counts.late
        self.held += counts.held
        self.rejected += counts.rejected
        self.bytes += len(lines[0]) if len(lines) == 1 else sum(map(len, lines))

    def data(self) -> dict[str, int]:
        """Return the numbers by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class Meters:
    """The meters of one open store.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with ps.open(app, None) as engine:
    ...     counts = engine.put_many("users", [{"id": 7}, {"id": 8}, {"id": 7}])
    ...     meter = engine.meters.tables["users"]
    ...     print(meter.applied, meter.equal, engine.meters.commits, engine.meters.batch_records.total)
    2 1 1 3
    """

    def __init__(self, tables: Iterable[str], clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.clock = clock
        """Returns nanoseconds."""
        self.tables = {name: TableMeter() for name in tables}
        self.commits = 0  # one per partition and batch
        self.redelivered = 0  # records of sources that were dropped unread, as an earlier batch had them
        self.commit_ns = BucketCounts(1 << 14, 24)  # from the lock to the end of the commit: 16 µs to 69 s
        self.batch_records = BucketCounts(1, 22)  # 1 to 1,048,576 records

    def add(self, began: int, commits: Collection[Mapping[str, Sequence[Batch]]], each: Mapping[int, Counts]) -> None:
        """Count work that was committed: its batches by transaction and table, and the counts of each by its identity.

        `began` is the time of `clock` when the work began.
        """
        records = 0
        for tables in commits:
            for name, parts in tables.items():
                meter = self.tables[name]
                for part in parts:
                    counts = each[id(part)]
                    meter.add(counts, part.records.lines)
                    records += part.size
        self.commits += len(commits)
        self.batch_records.add(records)
        self.commit_ns.add(self.clock() - began)

    def data(self) -> dict[str, Any]:
        """Return all meters as plain data.

        engine.meters.data()["tables"]["users"]["applied"]
        """
        return {
            "tables": {name: meter.data() for name, meter in self.tables.items()},
            "commits": self.commits,
            "redelivered": self.redelivered,
            "commit_ns": self.commit_ns.data(),
            "batch_records": self.batch_records.data(),
        }
