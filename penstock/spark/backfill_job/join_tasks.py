"""Join the entries of one range of condition values: the pages of the side indexes, and contributions to the readers.

Ranges divide the positions of entries evenly, so all entries of a condition value meet in one task. It joins them with
the engine's own code, as the first transaction of a store would. A key side is joined like any other. Invariants:

- An entry with a null condition value matches nothing. So any task may have it, by the hash of its key.
- Rows are joined and collected in blocks. Only their remembered emissions and holds stay in memory.
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

from penstock.cache import MemoryStore, Reader
from penstock.join import (
    Entries,
    How,
    Ints,
    JoinChange,
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
    are_many,
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
        app = self.layout.app.app()
        join = _join_of(app, own.join)
        sides, store, writes = side_views(join), MemoryStore(), Writes()
        entries = [
            Entries.join([Entries.none(len(side.projection)), *(read_entries(b, len(side.projection)) for b in data)])
            for side, data in zip(sides, blobs, strict=True)
        ]
        entries = [part.sorted() for part in entries]
        path = os.path.join(self.layout.folder, f"joined-{self.level}-{number}")
        report = TaskReport(number, path, {}, sum(map(len, entries)))
        readers = collecting_nodes(app, join, self.layout, None)
        with TaskResultFile(path) as frames:
            with store.write() as writer:
                change = _change(writer, join, entries)
                shown = row_sides(join, sides)
                for block in change.rows():
                    rows = selected(shown, block, join.filter)
                    if rows.i.size:
                        send_rows(writer, shown, readers, partial(iter, [rows]), writes)
                    if are_many(readers, writes):
                        put_shares(frames, readers, writes, report)
                limited = held_values(change)
                put_limit_holds(self.layout.views[join.name], limited, writes)
                writes.write(writer)
                dbs = [held_db(self.layout.views[join.name])]
                for side, part in zip(sides, entries, strict=True):
                    if not side.by_key:
                        dbs.append(side_pages_db(self.layout.views[side.name]))
                        null = part.null()
                        fill_pages(writer, dbs[-1], own.begin(number), part if null is None else part.take(~null))
            if limited:
                report.held[shown_join(join.name)] = len(limited)
            with store.read() as reader:
                dbs += [emissions_db(node.number) for node in readers if isinstance(node.mapper, FunctionMapper)]
                for db in dbs:
                    frames.add_rows(db, reader)
                put_holds(frames, readers, reader, report)
            put_shares(frames, readers, writes, report)
        return report


def _change(reader: Reader, join: Join, entries: Sequence[Entries]) -> JoinChange:
    """Return the change of a join that has no entries before it."""
    none = [Entries.none(part.width) for part in entries]
    left, right = (
        SideChange(before, part, SideIndex(0, part.width).kept(reader, before))
        for before, part in zip(none, entries, strict=True)
    )
    return JoinChange(left, right, How(join.how), join.limit)
