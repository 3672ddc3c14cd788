"""The rows of joins for a check: recomputed from the documents, and compared with remembered emissions."""

from __future__ import annotations

from typing import Any

from penstock.cache import stored_key
from penstock.core import Snapshot
from penstock.join import encoded_keys, row_documents
from penstock.mapreduce import Groups, ViewNode, copies, held_db
from penstock.recovery.check.emission_differences import differing
from penstock.recovery.oracle.plain_joins import joined
from penstock.recovery.repair.fresh_map import FreshMap
from penstock.views import Join, SideView

__all__ = ["joined_documents", "joined_emissions", "side_holds"]


def side_holds(snap: Snapshot, join: Join) -> bool:
    """Return True if a side of a join holds a document. It counts with its last accepted version, which is gone."""
    own = [side for side in snap.schema.sides if isinstance(side.view, SideView) and side.view.join == join.name]
    return any(snap.reader().count(held_db(side.number)) for side in own)


def joined_documents(snap: Snapshot, join: Join) -> list[tuple[Any, Any]] | None:
    """Return the rows of a join by key, recomputed from the documents of its sides.

    Return None if a side holds a document.
    """
    if side_holds(snap, join):
        return None
    return joined(join, {side.name: list(snap.table(side.source.name).items()) for side in join.sides}).rows


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
