"""All rows of a join, read in one snapshot, for repairs and searches.

A join stores no rows. So one scan over the entries of its first side looks up the matches of each in the other. A full
join has another scan, over the second side. Entries with a null condition value are in no index: they come from the
documents. So do all entries of a key side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from penstock.cache import Reader, encode_entry, stored_key, unpack, unseal
from penstock.join.joined_columns import row_documents, row_keys, selected
from penstock.join.joined_rows import How, JoinChange, JoinedRows, KeptEntries, SideChange
from penstock.join.side_entries import Entries, Ints
from penstock.join.side_index import SideIndex, side_dbs
from penstock.join.side_node import KeySideKept
from penstock.mapreduce import SourceKeys, held_db
from penstock.views import Join, SideView

__all__ = ["LimitHold", "SideDocuments", "StoredJoin", "StoredSide"]


@dataclass(frozen=True, slots=True)
class LimitHold:
    """A condition value above the limit, with its matches on both sides."""

    value: bytes
    left: int
    right: int


class SideDocuments(Protocol):
    """The documents of a side's source in any snapshot, as entries."""

    def all(self, reader: Reader) -> Iterator[Entries]:
        """Yield all entries; a held document has that of its last accepted version."""
        ...

    def find(self, reader: Reader, keys: SourceKeys) -> tuple[Ints, Entries]:
        """Return the entries with these keys, with the index of each key. Only a key side is asked."""
        ...


@dataclass(frozen=True, slots=True)
class StoredSide:
    """A side as a snapshot has it."""

    view: SideView
    index: SideIndex | None
    documents: SideDocuments

    def all(self, reader: Reader) -> Iterator[Entries]:
        """Yield all entries. One with a null condition value is left out if it has no row."""
        if self.index is not None:
            yield from self.index.all(reader)
            for entries in self.documents.all(reader) if self.view.unmatched else ():
                null = entries.null()
                if null is not None:
                    yield entries.take(null)
        else:
            yield from self.documents.all(reader)

    def is_empty(self, reader: Reader) -> bool:
        """Return True if there is an index without rows, because no document ever had a condition value."""
        return self.index is not None and not any(reader.count(db) for db in side_dbs(self.index.number))

    def kept(self, reader: Reader) -> KeptEntries:
        """Return all entries by condition value."""
        none = Entries.none(len(self.view.projection))
        if self.index is not None:
            return self.index.kept(reader, none)
        return KeySideKept(none.width, partial(self.documents.find, reader), none)


@dataclass(frozen=True, slots=True)
class StoredJoin:
    """A join as a snapshot has it. Use it with the reader of that snapshot only."""

    join: Join
    number: int
    sides: Sequence[StoredSide]

    @property
    def row_sides(self) -> list[SideView]:
        """Return the sides that a row has."""
        return [side.view for side in self.sides[: len(self.join.row_sides)]]

    def limited(self, reader: Reader) -> Iterator[LimitHold]:
        """Yield the condition values above the limit."""
        db = held_db(self.number)
        for key, row in reader.scan(db):
            yield LimitHold(*unpack(unseal(key, row, db)))

    def rows(self, reader: Reader) -> Iterator[JoinedRows]:
        """Yield all rows, in blocks."""
        held = {own.value for own in self.limited(reader)}
        left, right = self.sides
        how = How(self.join.how)
        for rows in _rows(reader, left, right, How.LEFT if how is How.FULL else how, held):
            yield from self._selected(rows)
        for rows in _rows(reader, right, left, How.ANTI, held) if how is How.FULL else ():
            yield from self._selected(JoinedRows(rows.plus, rows.right, rows.j, rows.left, rows.i))

    def _selected(self, rows: JoinedRows) -> Iterator[JoinedRows]:
        shown = selected(self.row_sides, rows, self.join.filter)
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
                for i, row in zip(found, row_documents(self.row_sides, some), strict=True):
                    out[stored_key(encode_entry(keys[i]))] = keys[i], row
        return out


def _rows(reader: Reader, side: StoredSide, other: StoredSide, how: How, held: set[bytes]) -> Iterator[JoinedRows]:
    """Yield the rows of all entries of one side, but those of held condition values."""
    kept = other.kept(reader)
    whole = SideChange(Entries.none(kept.width), Entries.none(kept.width), kept)
    for entries in side.all(reader):
        own = entries
        if held:
            own = entries.take(np.array([value not in held for value, _, _ in entries.listed()], bool))
        none = Entries.none(own.width)
        yield from JoinChange(SideChange(none, own, side.kept(reader)), whole, how).rows()
