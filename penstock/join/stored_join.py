"""All rows of a join, read from the side indexes of one snapshot, for repairs and searches.

A join stores no rows. So one scan over the index of its first side looks up the matches of each entry in the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.cache import Reader, encode_entry, stored_key, unpack, unseal
from penstock.join.joined_columns import row_documents, row_keys, selected
from penstock.join.joined_rows import How, JoinChange, JoinedRows, SideChange
from penstock.join.side_entries import Entries
from penstock.join.side_index import SideIndex
from penstock.mapreduce import held_db
from penstock.views import Join, SideView

__all__ = ["LimitHold", "StoredJoin"]


@dataclass(frozen=True, slots=True)
class LimitHold:
    """A condition value above the limit, with its matches on both sides."""

    value: bytes
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class StoredJoin:
    """A join as a snapshot has it: its sides and their indexes. Use it with the reader of that snapshot only."""

    join: Join
    number: int
    sides: Sequence[SideView]
    indexes: Sequence[SideIndex]

    def limited(self, reader: Reader) -> Iterator[LimitHold]:
        """Yield the condition values above the limit."""
        db = held_db(self.number)
        for key, row in reader.scan(db):
            yield LimitHold(*unpack(unseal(key, row, db)))

    def rows(self, reader: Reader) -> Iterator[JoinedRows]:
        """Yield all rows, in blocks."""
        left, right = self.indexes
        held = {own.value for own in self.limited(reader)}
        empty = [Entries.none(index.width) for index in self.indexes]
        for entries in left.all(reader):
            own = entries
            if held:
                own = entries.take(np.array([value not in held for value, _, _ in entries.listed()], bool))
            kept = SideChange(empty[1], empty[1], right.kept(reader, empty[1]))
            for rows in JoinChange(SideChange(empty[0], own, left.kept(reader, own)), kept, How.INNER).rows():
                shown = selected(self.sides, rows, self.join.filter)
                if shown.i.size:
                    yield shown

    def documents(self, reader: Reader, wanted: Collection[bytes]) -> dict[bytes, tuple[Any, dict[str, Any]]]:
        """Return the rows with these stored keys, each with its key. This reads the whole join."""
        out: dict[bytes, tuple[Any, dict[str, Any]]] = {}
        for rows in self.rows(reader) if wanted else ():
            keys = row_keys(rows)
            found = [i for i, key in enumerate(keys) if stored_key(encode_entry(key)) in wanted]
            if found:
                at = np.array(found, np.int64)
                some = JoinedRows(rows.plus, rows.left, rows.i[at], rows.right, rows.j[at])
                for i, row in zip(found, row_documents(self.sides, some), strict=True):
                    out[stored_key(encode_entry(keys[i]))] = keys[i], row
        return out
