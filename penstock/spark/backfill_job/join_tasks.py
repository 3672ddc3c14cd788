"""Join the entries of one range of condition values: the pages of the side indexes, and contributions to the readers.

Ranges divide the positions of entries evenly, so all entries of a condition value meet in one task. It joins them with
the engine's own code, as the first transaction of a store would. A key side is joined like any other. Invariants:

- An entry with a null condition value matches nothing. So any task may have it, by the hash of its key.
- Rows are joined in blocks. Their results are written once they are many, so memory does not grow with the rows.
- Pages of a range are written in the order of their keys, and ranges have that order too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from penstock.cache import MemoryStore, Reader, Writer
from penstock.join import (
    Entries,
    How,
    Ints,
    JoinChange,
    LimitHold,
    SideChange,
    SideIndex,
    fill_pages,
    held_values,
    put_limit_holds,
    row_sides,
    selected,
    send_rows,
    side_pages_db,
)
from penstock.mapreduce import FunctionMapper, Writes, emissions_db, held_db
from penstock.spark.backfill_job.contribution_collector import (
    collecting_nodes,
    entries_data,
    put_holds,
    put_shares,
    read_entries,
)
from penstock.spark.backfill_job.task_result_files import FrameKind, TaskResultFile, read_task_results
from penstock.spark.task_messages import JobPlan, TaskReport
from penstock.views import App, Join, all_joins, shown_join, side_views

__all__ = ["ConditionRanges", "JoinRangeTask", "JoinSplitTask"]

_POSITION = 64  # bits of a position
_KEY = np.uint64(32)  # bits of it that come from the key
_ROWS = 1 << 18  # joined rows after which their results are written
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class ConditionRanges:
    """The ranges of one join's condition values, by the first bits of positions, and the number of the first range."""

    join: str
    first: int
    bits: int

    @property
    def count(self) -> int:
        """Return the number of ranges."""
        return 1 << self.bits

    def begin(self, number: int) -> int:
        """Return the position where the range with this number begins."""
        return (number - self.first) << (_POSITION - self.bits)

    def split(self, entries: Entries) -> Iterator[tuple[int, Entries]]:
        """Yield the entries of each range, with its number."""
        if not self.bits:
            yield self.first, entries
            return
        at, null = entries.at, entries.null()
        if null is not None:
            at = np.where(null, at << _KEY, at)
        ranges: Ints = (at >> np.uint64(_POSITION - self.bits)).astype(np.int64)
        for number in np.unique(ranges).tolist():
            yield self.first + number, entries.take(ranges == number)


def _join_of(app: App, name: str) -> Join:
    return next(join for join in all_joins(app) if join.name == name)


@dataclass(frozen=True, slots=True)
class JoinSplitTask:
    """The task that turns files with entries of sides into parts of ranges, each with the number of the side."""

    layout: JobPlan
    ranges: tuple[ConditionRanges, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the parts."""
        import pyarrow as pa

        app = self.layout.app.app()
        sides = {
            side.name: (own, number, len(side.projection))
            for own in self.ranges
            for number, side in enumerate(side_views(_join_of(app, own.join)))
        }
        for batch in batches:
            for path in batch.column("path").to_pylist():
                for _, name, (_, values) in read_task_results(path, [FrameKind.ENTRIES]):
                    if name not in sides:
                        continue
                    own, side, width = sides[name]
                    for data in values:
                        for number, part in own.split(read_entries(data, width)):
                            arrays = [pa.array([number], pa.int32()), pa.array([side], pa.int32())]
                            yield pa.RecordBatch.from_arrays(
                                [*arrays, pa.array([entries_data(part)], pa.binary())], names=["r", "o", "blob"]
                            )


@dataclass(frozen=True, slots=True)
class JoinRangeTask:
    """The task that turns the parts of some ranges into reports. Each result is in the report's file."""

    layout: JobPlan
    ranges: tuple[ConditionRanges, ...]
    level: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the reports."""
        import pyarrow as pa

        parts: dict[int, tuple[list[bytes], list[bytes]]] = {}
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("r", "o", "blob"))
            for number, side, blob in zip(*columns, strict=True):
                parts.setdefault(number, ([], []))[side].append(blob)
        for number in sorted(parts):
            report = self._joined(number, parts.pop(number))
            yield pa.RecordBatch.from_arrays([pa.array([_encode(report)], pa.binary())], names=["report"])

    def _joined(self, number: int, blobs: Sequence[Sequence[bytes]]) -> TaskReport:
        own = next(r for r in self.ranges if r.first <= number < r.first + r.count)
        join = _join_of(self.layout.app.app(), own.join)
        widths = [len(side.projection) for side in side_views(join)]
        entries = [
            Entries.join([Entries.none(width), *(read_entries(blob, width) for blob in data)]).sorted()
            for width, data in zip(widths, blobs, strict=True)
        ]
        path = os.path.join(self.layout.folder, f"joined-{self.level}-{number}")
        report = TaskReport(number, path, {}, sum(map(len, entries)))
        with TaskResultFile(path) as frames, MemoryStore().write() as writer:
            _RangeJoin(self.layout, join, writer, frames, report).run(entries, own.begin(number))
        return report


class _RangeJoin:
    """The join of the entries of one range, with its results in a file. The store in memory is empty before it."""

    def __init__(self, layout: JobPlan, join: Join, writer: Writer, frames: TaskResultFile, report: TaskReport) -> None:
        self._join, self._sides = join, side_views(join)
        self._numbers = layout.views
        self._readers = collecting_nodes(layout.app.app(), join, layout, None)
        self._writer, self._frames, self._report = writer, frames, report
        self._writes = Writes()

    def run(self, entries: Sequence[Entries], begin: int) -> None:
        """Write the rows for the readers, the condition values above the limit, and the pages of the side indexes."""
        change = _change(self._writer, self._join, entries)
        shown, sent = row_sides(self._join, self._sides), 0
        for block in change.rows():
            rows = selected(shown, block, self._join.filter)
            if rows.i.size:
                send_rows(self._writer, shown, self._readers, partial(iter, [rows]), self._writes)
            sent += rows.i.size
            if sent >= _ROWS:
                self._write_sent()
                sent = 0
        self._write_sent()
        self._write_limited(held_values(change))
        for side, part in zip(self._sides, entries, strict=True):
            if not side.by_key:
                null = part.null()
                db = side_pages_db(self._numbers[side.name])
                fill_pages(self._writer, db, begin, part if null is None else part.take(~null))
                self._write_rows(db)

    def _write_sent(self) -> None:
        """Write all that the readers collected, the emissions that they remember, and the rows that they hold."""
        self._writes.write(self._writer)
        put_shares(self._frames, self._readers, self._writes, self._report)
        put_holds(self._frames, self._readers, self._writer, self._report)
        for node in self._readers:
            self._writer.clear(held_db(node.number))
            if isinstance(node.mapper, FunctionMapper):
                self._write_rows(emissions_db(node.number))
        self._writes = Writes()

    def _write_limited(self, limited: Sequence[LimitHold]) -> None:
        writes, number = Writes(), self._numbers[self._join.name]
        put_limit_holds(number, limited, writes)
        writes.write(self._writer)
        self._write_rows(held_db(number))
        if limited:
            name = shown_join(self._join.name)
            self._report.held[name] = self._report.held.get(name, 0) + len(limited)

    def _write_rows(self, db: str) -> None:
        self._frames.add_rows(db, self._writer)
        self._writer.clear(db)


def _change(reader: Reader, join: Join, entries: Sequence[Entries]) -> JoinChange:
    """Return the change of a join that has no entries before it."""
    none = [Entries.none(part.width) for part in entries]
    left, right = (
        SideChange(before, part, SideIndex(0, part.width).kept(reader, before))
        for before, part in zip(none, entries, strict=True)
    )
    return JoinChange(left, right, How(join.how), join.limit)
