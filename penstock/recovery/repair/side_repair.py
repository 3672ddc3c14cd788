"""Compare the index of a side of a join with the documents, and replace the entries that differ.

The entries follow from the documents as the contributions of any field view do, so the scan of documents makes them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.cache import Writer, canonical
from penstock.core import Core, Snapshot
from penstock.join import Entries, SideNode
from penstock.mapreduce import Spaces, Writes
from penstock.recovery.repair.document_scan import DocumentScan
from penstock.views import SideView, Table

__all__ = ["differing_entries", "replace_entries"]

Listed = tuple[bytes | None, bytes, bytes]


def differing_entries(snap: Snapshot, join: str, side: str) -> int:
    """Return the number of entries that only the index has, or only the documents."""
    missing, extra = _differences(snap, join, side)
    return sum(map(len, (*missing, *extra)))


def replace_entries(core: Core, writer: Writer, join: str, side: str, writes: Writes) -> None:
    """Remove entries that the documents don't have, and put those that the index lacks."""
    node = core.joins.sides[f"{join}:{side}"]
    with Snapshot(core) as snap:  # nothing was written since
        missing, extra = _differences(snap, join, side)
    none = Entries.none(len(node.side.projection))
    node.index.stage(writer, Entries.join([none, *extra]), Entries.join([none, *missing]), writes)
    writes.changed = True


def _differences(snap: Snapshot, join: str, side: str) -> tuple[list[Entries], list[Entries]]:
    """Return the entries that the index lacks, and those that no document has. All entries are in memory."""
    view = next(own for own in snap.schema.sides if own.name == f"{join}:{side}")
    assert isinstance(view.view, SideView), "it is a side"
    place = [own.side for own in snap.schema.join(join).sides].index(side)
    stored = list(snap.schema.join(join).indexes[place].all(snap.reader()))
    made = list(_made(snap, view.view, view.number))
    known, wanted = set(_listed(stored)), set(_listed(made))
    return _only(made, wanted - known), _only(stored, known - wanted)


def _made(snap: Snapshot, view: SideView, number: int) -> Iterator[Entries]:
    """Yield the entries of the documents of a side."""
    spaces = Spaces()
    node = SideNode(view, number, spaces)
    assert isinstance(view.source, Table), "stores keep joins of tables"
    scan = DocumentScan(node, lambda: spaces, None, snap.reader(), snap.reader(), None)
    for contributions in scan.of_table(view.source, snap.log(view.source.name)):
        yield node.entries([contributions])


def _listed(parts: list[Entries]) -> Iterator[Listed]:
    for entries in parts:
        for value, key, fields in entries.listed():
            yield value, key, canonical(fields)


def _only(parts: list[Entries], wanted: set[Listed]) -> list[Entries]:
    return [
        own
        for entries in parts
        if len(own := entries.take(np.array([one in wanted for one in _listed([entries])], bool)))
    ]
