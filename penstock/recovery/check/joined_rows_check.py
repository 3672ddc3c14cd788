"""The rows and the sides of joins for a check: recomputed from the documents, and compared with the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.cache import Reader, stored_key
from penstock.core import Snapshot
from penstock.join import check_side, encoded_keys, row_documents
from penstock.mapreduce import Groups, ViewNode, copies, held_db
from penstock.recovery.check.emission_differences import differing
from penstock.recovery.oracle.plain_joins import joined, view_documents
from penstock.recovery.repair.fresh_map import FreshMap
from penstock.views import Join, SideView, Source, View, shown_join

__all__ = ["SideCheck", "checked_side", "joined_documents", "joined_emissions", "side_holds"]


@dataclass(slots=True)
class SideCheck:
    """The check of a side: its faults, and the number of holds."""

    faults: list[str]
    held: int = 0


def checked_side(
    snap: Snapshot, view: SideView, read: Callable[[Reader, str], Iterable[tuple[bytes, bytes]]]
) -> SideCheck:
    """Check the index of a side. `read` yields the intact rows of a database, and reports the others."""
    out = SideCheck([])
    for stored, reader in snap.stored_joins(view.join):
        index = next(own.index for own in stored.sides if own.view.side == view.side)
        faults = () if index is None else check_side(index, reader)  # a key side has none
        out.faults += [f"join {shown_join(view.join)!r}, side {view.side!r}: {fault}" for fault in faults]
        out.held += sum(1 for _ in read(reader, held_db(snap.schema.catalog.entries[view.name].number)))
        if view.side == stored.sides[0].view.side:
            out.held += sum(1 for _ in stored.limited(reader))  # condition values with too many rows
    return out


def side_holds(snap: Snapshot, join: Join) -> bool:
    """Return True if a side of a join holds a document. It counts with its last accepted version, which is gone."""
    views = ((side.view, side.number) for side in snap.schema.sides)
    own = [number for view, number in views if isinstance(view, SideView) and shown_join(view.join) == join.name]
    below = (side.source for side in join.sides if isinstance(side.source, Join))
    return any(snap.reader().count(held_db(number)) for number in own) or any(side_holds(snap, j) for j in below)


def joined_documents(snap: Snapshot, join: Join) -> list[tuple[Any, Any]] | None:
    """Return the rows of a join by key, recomputed from the documents of its sides, and from the rows of its views.

    Return None if a side holds a document.
    """
    if side_holds(snap, join):
        return None
    return joined(join, {side.name: _documents(snap, side.source) for side in join.sides}).rows


def _documents(snap: Snapshot, source: Source) -> list[tuple[Any, Any]]:
    """Return the documents of a side by key."""
    if isinstance(source, Join):
        return joined_documents(snap, source) or []
    if isinstance(source, View):
        return view_documents(snap.view(source.name).items())
    return list(snap.table(source.name).items())


def joined_emissions(snap: Snapshot, view: ViewNode, unsure: set[bytes]) -> int:
    """Count the joined rows that would now yield another emission."""
    mapping, n = FreshMap(view.view), 0
    join = snap.schema.join(view.view.source.name)
    for rows in join.rows(snap.reader()):
        groups = Groups()
        keys = list(map(stored_key, encoded_keys(rows)))
        found = view.remembered(snap.reader(), groups).emissions(keys)
        remembered = [[] if own is None else own.pairs(0, groups) for own in found]
        n += differing(mapping, copies(row_documents(join.row_sides, rows)), remembered, unsure)
    return n
