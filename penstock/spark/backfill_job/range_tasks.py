"""Process the groups of one range of a view: their rows and trees, and contributions to the views and joins on it.

The engine's own reducers fold all contributions of the range at once, in an empty store. Collecting nodes stand in
place of the views on it and of the sides that it is, as for a table. Invariants:

- All contributions of a group are folded together. So its row equals that of a store that got them in one batch.
- Rows and nodes of a range are written in the order of their keys, and ranges have that order too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from penstock.cache import MemoryStore
from penstock.mapreduce import FunctionMapper, Spaces, TreeReduce, ViewNode, Writes, emissions_db, nodes_db, rows_db
from penstock.spark.backfill_job.contribution_blobs import ContributionShare, fields_count, joined_shares
from penstock.spark.backfill_job.contribution_collector import collecting_nodes, put_holds, put_shares
from penstock.spark.backfill_job.task_result_files import FrameKind, TaskResultFile, read_task_results
from penstock.spark.task_messages import JobPlan, TaskReport
from penstock.views import App, FieldMap

__all__ = ["PARTS", "GroupRanges", "RangeReduceTask", "RangeSplitTask"]

PARTS = "r int, o int, blob binary"
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class GroupRanges:
    """The ranges of one view's groups: the start of each but the first, and the number of the first."""

    view: str
    first: int
    bounds: tuple[bytes, ...]

    @property
    def count(self) -> int:
        """Return the number of ranges."""
        return len(self.bounds) + 1


@dataclass(frozen=True, slots=True)
class RangeSplitTask:
    """The task that turns files of contributions into parts of ranges, each with the file's number."""

    layout: JobPlan
    ranges: tuple[GroupRanges, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the parts."""
        import pyarrow as pa

        app = self.layout.app.app()
        columns = {own.view: fields_count(app.view_of(own.view)) for own in self.ranges}
        known = {own.view: own for own in self.ranges}
        for batch in batches:
            for number, path in zip(batch.column("i").to_pylist(), batch.column("path").to_pylist(), strict=True):
                for _, name, (_, values) in read_task_results(path, [FrameKind.SHARE]):
                    own = known.get(name)
                    if own is None:
                        continue
                    for data in values:
                        for at, part in self._parts(data, columns[name], own):
                            arrays = [pa.array([own.first + at], pa.int32()), pa.array([number], pa.int32())]
                            yield pa.RecordBatch.from_arrays(
                                [*arrays, pa.array([part], pa.binary())], names=["r", "o", "blob"]
                            )

    @staticmethod
    def _parts(data: bytes, columns: int, own: GroupRanges) -> Iterator[tuple[int, bytes]]:
        if not own.bounds:
            yield 0, data
            return
        for at, part in ContributionShare.read(data, columns).split(own.bounds):
            yield at, part.data()


@dataclass(frozen=True, slots=True)
class RangeReduceTask:
    """The task that turns the parts of some ranges into reports. Each result is in the report's file."""

    layout: JobPlan
    ranges: tuple[GroupRanges, ...]
    level: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the reports."""
        import pyarrow as pa

        parts: dict[int, list[tuple[int, bytes]]] = {}
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("r", "o", "blob"))
            for number, order, blob in zip(*columns, strict=True):
                parts.setdefault(number, []).append((order, blob))
        for number in sorted(parts):
            report = self._reduced(number, [blob for _, blob in sorted(parts.pop(number))])
            yield pa.RecordBatch.from_arrays([pa.array([_encode(report)], pa.binary())], names=["report"])

    def _reduced(self, number: int, shares: Sequence[bytes]) -> TaskReport:
        own = next(r for r in self.ranges if r.first <= number < r.first + r.count)
        app = self.layout.app.app()
        node, children = _nodes(app, own.view, self.layout)
        whole = joined_shares(node, shares)
        store, writes = MemoryStore(), Writes()
        with store.write() as writer:
            node.advance(writer, whole, whole.take(np.zeros(0, np.int64)), writes)
            writes.write(writer)
        writes.committed()
        if isinstance(node.reduce, TreeReduce):
            with store.write() as writer:
                node.reduce.read_node_log(writer).write_all(writer, {})
        path = os.path.join(self.layout.folder, f"groups-{self.level}-{number}")
        report = TaskReport(number, path, {}, whole.n, held_groups=dict(writes.held_groups))
        with TaskResultFile(path) as frames, store.read() as reader:
            dbs = [emissions_db(child.number) for child in children if isinstance(child.mapper, FunctionMapper)]
            for db in (rows_db(node.number), nodes_db(node.number), *dbs):
                report.rows[db] = frames.add_rows(db, reader)
            put_holds(frames, children, reader, report)
            put_shares(frames, children, writes, report)
        return report


def _nodes(app: App, name: str, layout: JobPlan) -> tuple[ViewNode, list[ViewNode]]:
    """Return the node that folds a view, and the collecting nodes on it."""
    view = app.view_of(name)
    node = ViewNode(view, layout.views[name], Spaces() if isinstance(view.map, FieldMap) else None, True)
    children = collecting_nodes(app, view, layout, None)
    node.children = children
    return node, children
