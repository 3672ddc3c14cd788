"""Productions for views on views in a partition that has early sets: they cross once these are saved.

A partition that takes an early set changes rows of a view before the batch is saved. Contributions of these rows to
groups of other partitions follow from that. They wait in the database `delayed` until readers of saved changes may see
their commit (`core/reading/visibility`). So a production never follows from a batch that is not saved. If early sets
are taken back, the contributions before and after that leave together, as one step. Invariants:

- contributions to one view leave in the order of their commits;
- each contribution of this partition's rows waits in `delayed`, is in `out`, or was applied by its receiver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cache import Reader, Writer
from penstock.core import StateRow, read_spans, saved_position
from penstock.mapreduce import GroupCrossing, Part, ViewNode, Writes
from penstock.recovery import DelayedContributions, delay, delayed, drop_delayed, first_delayed

__all__ = ["ProductionDelay"]


class ProductionDelay:
    """The productions of one partition that wait."""

    def __init__(self) -> None:
        self._first: int | None = None  # the first position with contributions that wait

    def recall(self, reader: Reader) -> None:
        """Begin with the rows of the store."""
        self._first = first_delayed(reader)

    def passed(
        self, writer: Writer, writes: Writes, state: StateRow, views: Sequence[ViewNode]
    ) -> Mapping[int, list[Part]]:
        """Keep the contributions of a transaction to views on views, and give those that cross now by receiver."""
        if not state.told_at and self._first is None:
            return writes.derived
        if writes.derived:
            delay(writer, state.position, writes.derived)
        saved = saved_position(state, read_spans(writer, state))
        rows = list(delayed(writer, saved))
        drop_delayed(writer, rows)
        first = first_delayed(writer)
        writes.after.append(lambda: self._now(first))
        return _joined(rows, {view.number: view for view in views}) if rows else {}

    def _now(self, first: int | None) -> None:
        self._first = first


def _joined(rows: list[DelayedContributions], views: Mapping[int, ViewNode]) -> dict[int, list[Part]]:
    """Make one step of these rows for each receiver and view."""
    found: dict[int, dict[int, list[Part]]] = {}
    for row in rows:
        for part in row.parts:
            found.setdefault(row.receiver, {}).setdefault(part[0], []).append(part)
    out: dict[int, list[Part]] = {}
    for receiver, by_view in found.items():
        for number, parts in by_view.items():
            view = views.get(number)  # None: it is gone, and the receiver ignores these parts
            step = parts if view is None else GroupCrossing.joined(view, parts)
            if step:
                out.setdefault(receiver, []).extend(step)
    return out
