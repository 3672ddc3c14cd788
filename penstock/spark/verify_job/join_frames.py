"""Plan the frames of a verification that join the sides of a copy again, step by step.

Each step of a join is one shuffle: entries of both inputs go to the task of their condition value. The last step of a
join feeds the views on it and the joins of which it is a side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.spark_session import in_tasks, map_arrow
from penstock.spark.verify_job.group_facts import SCHEMA
from penstock.spark.verify_job.joined_rows import JoinTask, SideTask, StepInput
from penstock.spark.verify_job.remap_task import CopyPart, VerifyJob
from penstock.views import App, Join, Source, View

__all__ = ["JoinFrames", "joins_below", "side_sources"]


def joins_below(app: App, views: Sequence[str]) -> list[Join]:
    """Return the joins that these views read, in order of definition. A view that isn't named is compared elsewhere."""
    found: set[str] = set()
    pending: list[Source] = [view.source for name in views if isinstance(view := app.lookup(name), View)]
    while pending:
        source = pending.pop()
        if isinstance(source, Join) and source.name not in found:
            found.add(source.name)
            pending += [side.source for side in source.sides]
    return [join for join in app.joins() if join.name in found]


def side_sources(joins: Sequence[Join]) -> list[Source]:
    """Return the tables and views that are sides of these joins."""
    own = {side.source.name: side.source for join in joins for side in join.sides}
    return [source for source in own.values() if not isinstance(source, Join)]


@dataclass(frozen=True, slots=True)
class JoinFrames:
    """The frames of the joins below the views of a verification."""

    spark: Any
    work: VerifyJob
    parts: Sequence[CopyPart]

    def facts(self, joins: Sequence[Join]) -> Iterator[Any]:
        """Yield a frame of facts for each step of these joins."""
        for join in joins:
            for step in range(len(join.steps()[1])):
                yield self._run(JoinTask(self.work, join.name, step), join)

    def _run(self, task: JoinTask, join: Join) -> Any:
        """Return the results of a task over the entries of both inputs of its step."""
        step = join.steps()[1][task.step]
        old, new = (StepInput(join.name, task.step, side) for side in (None, join.sides[step.side].name))
        entries = self._entries(old, join).unionAll(self._entries(new, join))
        return map_arrow(in_tasks(entries, "p", self.work.parts), task, SCHEMA)

    def _entries(self, own: StepInput, join: Join) -> Any:
        """Return the entries of one input of a step."""
        if own.side is None and own.step:
            return self._run(JoinTask(self.work, join.name, own.step - 1, own), join)
        first, _ = join.steps()
        side = next(one for one in join.sides if one.name == (own.side or join.sides[first].name))
        if isinstance(side.source, Join):
            last = len(side.source.steps()[1]) - 1
            return self._run(JoinTask(self.work, side.source.name, last, own, side.name), side.source)
        rows = [(i, bytearray(part.data())) for i, part in enumerate(self.parts) if part.name == side.source.name]
        frame = in_tasks(self.spark.createDataFrame(rows, "i int, part binary"), "i", len(self.parts))
        return map_arrow(frame, SideTask(self.work, own, side.name), SCHEMA)
