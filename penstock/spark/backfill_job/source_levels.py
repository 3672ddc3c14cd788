"""The levels of an app's views and joins, and the jobs that fill one level. A level comes after all of its sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.backfill_job.bucket_documents import REPORT
from penstock.spark.backfill_job.contribution_blobs import bounds_of
from penstock.spark.backfill_job.join_tasks import ConditionRanges, JoinRangeTask, JoinSplitTask
from penstock.spark.backfill_job.range_tasks import PARTS, GroupRanges, RangeReduceTask, RangeSplitTask
from penstock.spark.spark_session import in_tasks, map_arrow
from penstock.spark.task_messages import JobPlan, TaskReport
from penstock.views import App, Join, Source, Table, View, all_joins, side_views

__all__ = ["SourceLevel", "levels"]

_MOST_BITS = 12


@dataclass(frozen=True, slots=True)
class SourceLevel:
    """Views and joins whose sources belong to earlier levels. A prefix of a join is one of the joins."""

    views: tuple[View, ...]
    joins: tuple[Join, ...]

    @property
    def readers(self) -> list[str]:
        """Return the names of the views and the sides, which get contributions and entries."""
        return [view.name for view in self.views] + [side.name for join in self.joins for side in side_views(join)]

    @property
    def names(self) -> list[str]:
        """Return the names of its views, joins and sides."""
        return self.readers + [join.name for join in self.joins]

    def frames(
        self, spark: Any, layout: JobPlan, number: int, files: Sequence[TaskReport], size: int
    ) -> dict[str, Any]:
        """Return the frames of its jobs, by stage. A range has about `size` contributions, or entries of sides."""
        out: dict[str, Any] = {}
        groups, conditions = _group_ranges(self.views, files, size), _condition_ranges(self.joins, files, size)
        if groups:
            tasks = RangeSplitTask(layout, groups), RangeReduceTask(layout, groups, number)
            out["views"] = _shuffled(spark, files, self.readers, *tasks, sum(own.count for own in groups))
        if conditions:
            own = JoinSplitTask(layout, conditions), JoinRangeTask(layout, conditions, number)
            out["joins"] = _shuffled(spark, files, self.readers, *own, sum(own.count for own in conditions))
        return out


def levels(app: App) -> list[SourceLevel]:
    """Return the levels of an app, in order."""
    left: list[View | Join] = [*app.views(), *all_joins(app)]
    done: set[Source] = set()
    out: list[SourceLevel] = []
    while left:
        ready = [own for own in left if all(isinstance(one, Table) or one in done for one in _sources(own))]
        views = tuple(own for own in ready if isinstance(own, View))
        out.append(SourceLevel(views, tuple(own for own in ready if isinstance(own, Join))))
        done.update(ready)
        left = [own for own in left if own not in done]
    return out


def _sources(reader: View | Join) -> list[Source]:
    return [reader.source] if isinstance(reader, View) else [side.source for side in side_views(reader)]


def _group_ranges(views: Sequence[View], files: Sequence[TaskReport], size: int) -> tuple[GroupRanges, ...]:
    """Return the ranges of groups of these views, for views with contributions."""
    out: list[GroupRanges] = []
    first = 0
    for view in views:
        found = [report.shares[view.name] for report in files if view.name in report.shares]
        total = sum(n for n, _ in found)
        if not total:
            continue
        bounds = bounds_of([key for _, sample in found for key in sample], 1 + total // size)
        out.append(GroupRanges(view.name, first, tuple(bounds)))
        first += out[-1].count
    return tuple(out)


def _condition_ranges(joins: Sequence[Join], files: Sequence[TaskReport], size: int) -> tuple[ConditionRanges, ...]:
    """Return the ranges of condition values of these joins, for joins with entries."""
    out: list[ConditionRanges] = []
    first = 0
    for join in joins:
        names = [side.name for side in side_views(join)]
        total = sum(report.shares[name][0] for report in files for name in names if name in report.shares)
        if total:
            out.append(ConditionRanges(join.name, first, min(_MOST_BITS, (total // size).bit_length())))
            first += out[-1].count
    return tuple(out)


def _shuffled(
    spark: Any,
    files: Sequence[TaskReport],
    readers: Sequence[str],
    split: Callable[..., Any],
    work: Callable[..., Any],
    ranges: int,
) -> Any:
    """Return the reports of a job that splits files for these readers by ranges, and works on each range."""
    read = [report for report in files if not report.shares.keys().isdisjoint(readers)]
    rows = [(i, report.path) for i, report in enumerate(read)]
    frame = in_tasks(spark.createDataFrame(rows, "i int, path string"), "i", len(rows))
    return map_arrow(in_tasks(map_arrow(frame, split, PARTS), "r", ranges), work, REPORT)
