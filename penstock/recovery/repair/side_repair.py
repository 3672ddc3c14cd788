"""Compare the index of a side of a join with the documents, and replace the entries that differ.

The entries follow from the documents as the contributions of any field view do, so the scan of documents makes them.
The documents of a side that is a view are its rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.cache import Writer, canonical
from penstock.core import Core, Snapshot
from penstock.join import Entries
from penstock.mapreduce import Writes

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
    own = next(own for own in snap.schema.join(join).sides if own.view.side == side)
    stored, made = list(own.index.all(snap.reader())), list(_indexed(own.documents.all(snap.reader())))
    known, wanted = set(_listed(stored)), set(_listed(made))
    return _only(made, wanted - known), _only(stored, known - wanted)


def _indexed(parts: Iterator[Entries]) -> Iterator[Entries]:
    """Yield the entries that an index has. A null condition value is not in one."""
    for entries in parts:
        null = entries.null()
        yield entries if null is None else entries.take(~null)


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
