"""Nodes in the place of the views and sides that read a source. They collect what tasks send on to other tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.cache import Reader
from penstock.join import Entries, EntryChanges, SideNode, changes_payload, read_changes
from penstock.mapreduce import (
    Contributions,
    Delta,
    FewContributions,
    Spaces,
    ViewNode,
    Writes,
    held_db,
    in_columns,
)
from penstock.spark.backfill_job.contribution_blobs import sample_of, share_of
from penstock.spark.backfill_job.task_result_files import FrameKind, TaskResultFile
from penstock.spark.task_messages import JobPlan, TaskReport
from penstock.views import App, FieldMap, Source, View, all_joins, shown_join, side_views

__all__ = [
    "ContributionCollector",
    "collecting_nodes",
    "entries_data",
    "put_holds",
    "put_shares",
    "read_entries",
]


class ContributionCollector(ViewNode):
    """A node that collects the contributions to one view. Other tasks compute the view's rows."""

    def __init__(self, view: View, number: int, spaces: Spaces | None) -> None:
        super().__init__(view, number, spaces, True)
        self._parts: list[Contributions] = []

    def advance(self, reader: Reader, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        """Collect the contributions. A new store has none to retract."""
        assert not minus.n, "a new store has no contribution to retract"
        if plus.n:
            self._parts.append(plus)

    def advance_small(self, reader: Reader, plus: FewContributions, minus: FewContributions, writes: Writes) -> None:
        """Collect a few contributions."""
        fields = self.reduce.fields
        self.advance(reader, in_columns(plus, fields), in_columns(minus, fields), writes)

    def combined(self, plus: Contributions, minus: Contributions) -> Delta | None:
        """Return None: the task that folds a group combines its contributions."""
        return None

    def fold_gathered(self, reader: Reader, writes: Writes) -> None:
        """Collect the contributions of joined rows."""
        own = writes.gathered.pop(self.number, None)
        for plus, minus in () if own is None else zip(own.plus, own.minus, strict=True):
            self.advance(reader, plus, minus, writes)

    def heard(self) -> Contributions | None:
        """Return all contributions collected so far, and clear them."""
        parts, self._parts = self._parts, []
        return Contributions.join(parts) if parts else None


def collecting_nodes(app: App, source: Source, layout: JobPlan, spaces: Spaces | None) -> list[ViewNode]:
    """Return nodes for the views on a source, and for the sides of joins that it is.

    A side collects in the transaction. Key sides are sent like others, so their entries have the form of stored ones.
    `spaces` are those of a table.
    """
    out: list[ViewNode] = [
        ContributionCollector(view, layout.views[view.name], spaces if isinstance(view.map, FieldMap) else None)
        for view in app.views()
        if view.source is source and view.name in layout.views
    ]
    sides = [side for join in all_joins(app) for side in side_views(join) if side.source is source]
    return out + [
        SideNode(replace(side, by_key=False), layout.views[side.name], spaces)
        for side in sides
        if side.name in layout.views
    ]


def entries_data(entries: Entries) -> bytes:
    """Return entries of a side as bytes."""
    return changes_payload(EntryChanges(entries, np.zeros(len(entries), bool)))


def read_entries(data: bytes, width: int) -> Entries:
    """Return entries from their bytes. `width` is the number of fields of their side."""
    return read_changes(data, width).entries


def _gathered(node: SideNode, writes: Writes) -> list[Contributions]:
    own = writes.gathered.get(node.number)
    return [] if own is None else own.plus


def put_shares(frames: TaskResultFile, nodes: Sequence[ViewNode], writes: Writes, report: TaskReport) -> None:
    """Write the collected contributions to views and the entries of sides, and clear them."""
    for node in nodes:
        if isinstance(node, SideNode):
            entries = node.entries(_gathered(node, writes))
            writes.gathered.pop(node.number, None)
            if len(entries):
                frames.add(FrameKind.ENTRIES, node.name, [b""], [entries_data(entries)])
                _count(report, node.name, len(entries), [])
            continue
        assert isinstance(node, ContributionCollector), "there are no other nodes"
        part = node.heard()
        if part is not None:
            frames.add(FrameKind.SHARE, node.name, [b""], [share_of(node, part).data()])
            _count(report, node.name, part.n, sample_of(node, part))


def _count(report: TaskReport, name: str, n: int, sample: list[bytes]) -> None:
    known, before = report.shares.get(name, (0, []))
    report.shares[name] = known + n, before + sample


def put_holds(frames: TaskResultFile, nodes: Sequence[ViewNode], reader: Reader, report: TaskReport) -> None:
    """Write the documents and rows that views and sides hold. Count those of a side for its join."""
    for node in nodes:
        held = frames.add_rows(held_db(node.number), reader)
        if held:
            name = shown_join(node.side.join) if isinstance(node, SideNode) else node.name
            report.held[name] = report.held.get(name, 0) + held
