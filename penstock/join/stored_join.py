"""All rows of a join, read in one snapshot, for builds, repairs and searches.

A join stores no rows. So one scan over the entries of its first side looks up the matches of each in the other. A full
join has another scan, over the second side. Entries with a null condition value are in no index: they come from the
documents. So do all entries of a key side. `join_parts` reads the rows in parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from penstock.cache import Reader, encode_entry, pack, seal, stored_key, unpack, unseal
from penstock.join.joined_columns import row_documents, row_keys, selected
from penstock.join.joined_rows import How, JoinChange, JoinedRows, KeptEntries, SideChange
from penstock.join.side_entries import Entries, Ints, Mask
from penstock.join.side_index import SideIndex, side_dbs
from penstock.join.side_node import KeySideKept
from penstock.mapreduce import Column, SourceKeys, Writes, held_db
from penstock.views import Join, SideView

__all__ = [
    "LimitHold",
    "SideDocuments",
    "StoredJoin",
    "StoredSide",
    "held_values",
    "put_limit_holds",
    "row_sides",
    "rows_of",
    "swapped",
]


@dataclass(frozen=True, slots=True)
class LimitHold:
    """A condition value above the limit, with its matches on both sides."""

    value: bytes
    left: int
    right: int


def held_values(change: JoinChange) -> list[LimitHold]:
    """Return the condition values that are above the limit after a change."""
    return [LimitHold(one.value, one.left, one.right) for one in change.limited if one.is_held]


def put_limit_holds(number: int, holds: Sequence[LimitHold], writes: Writes) -> None:
    """Store condition values above the limit of the join with this number."""
    if holds:
        keys = [stored_key(one.value) for one in holds]
        rows = [pack([one.value, one.left, one.right]) for one in holds]
        own = [(key, seal(key, row)) for key, row in zip(keys, rows, strict=True)]
        writes.puts.append((held_db(number), own))


def row_sides(join: Join, sides: Sequence[SideView]) -> list[SideView]:
    """Return those of the two sides of a join that its rows have."""
    return list(sides[: min(2, len(join.row_sides))])


class SideDocuments(Protocol):
    """The documents of a side's source in any snapshot, as entries."""

    def all(self, reader: Reader) -> Iterator[Entries]:
        """Yield all entries; a held document has that of its last accepted version."""
        ...

    def find(self, reader: Reader, keys: SourceKeys) -> tuple[Ints, Sequence[Column]]:
        """Return the index of each key that has an entry, and the fields of the entries. Only a key side is asked."""
        ...

    def part(self, reader: Reader, begin: bytes, most: int) -> tuple[Entries, bytes | None]:
        """Return the entries of about `most` documents from a place on, and the place after them; None for no more.

        The place of a document depends on its key alone. `b""` is the first one.
        """
        ...

    def before(self, keys: SourceKeys, place: bytes) -> Mask:
        """Mark the documents with these keys that are before a place."""
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
            yield from self.nulls(reader)
        else:
            yield from self.documents.all(reader)

    def is_empty(self, reader: Reader) -> bool:
        """Return True if there is an index without rows, because no document ever had a condition value."""
        return self.index is not None and not any(reader.count(db) for db in side_dbs(self.index.number))

    def nulls(self, reader: Reader) -> Iterator[Entries]:
        """Yield the entries with a null condition value that have rows, and are in no index."""
        for entries in self.documents.all(reader) if self.view.unmatched else ():
            null = entries.null()
            if null is not None:
                yield entries.take(null)

    def block(self, reader: Reader, begin: int, most: int) -> Entries:
        """Return about `most` entries of an index from a position on, in order, with all entries of the last one."""
        assert self.index is not None, "a key side has no order"
        return next(self.index.all(reader, begin, most), Entries.none(self.index.width))

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
        return row_sides(self.join, [side.view for side in self.sides])

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
            yield from self.selected(rows)
        for rows in _rows(reader, right, left, How.ANTI, held) if how is How.FULL else ():
            yield from self.selected(swapped(rows))

    def selected(self, rows: JoinedRows) -> Iterator[JoinedRows]:
        """Yield the rows that the condition of the join selects, if there are any."""
        shown = selected(self.row_sides, rows, self.join.filter)
        if shown.i.size:
            yield shown

    def pair_of(self, key: Any) -> tuple[Any, Any]:
        """Return the keys of the two entries that a row with this key joins; None for a missing one."""
        own = self.sides[0].view
        if not own.covers:
            return key[0], key[1]
        n = len(own.places)
        flat = [key[own.places.index(place)] for place in range(n)]
        return (*flat[:-1], *key[n:-1]), flat[-1]  # of the prefix: the keys of its documents, and its condition values

    def documents(self, reader: Reader, wanted: Collection[bytes]) -> dict[bytes, tuple[Any, dict[str, Any]]]:
        """Return the rows with these stored keys, each with its key. This reads the whole join."""
        out: dict[bytes, tuple[Any, dict[str, Any]]] = {}
        for rows in self.rows(reader) if wanted else ():
            keys = row_keys(rows)
            found = [i for i, key in enumerate(keys) if stored_key(encode_entry(key)) in wanted]
            if found:
                at = np.array(found, np.int64)
                for i, row in zip(found, row_documents(self.row_sides, rows.take(at)), strict=True):
                    out[stored_key(encode_entry(keys[i]))] = keys[i], row
        return out


def _rows(reader: Reader, side: StoredSide, other: StoredSide, how: How, held: set[bytes]) -> Iterator[JoinedRows]:
    """Yield the rows of all entries of one side, but those of held condition values."""
    for entries in side.all(reader):
        own = entries
        if held:
            own = entries.take(np.array([value not in held for value, _, _ in entries.listed()], bool))
        yield from rows_of(reader, side, other, how, own)


def rows_of(reader: Reader, side: StoredSide, other: StoredSide, how: How, entries: Entries) -> Iterator[JoinedRows]:
    """Yield the rows of some entries of one side."""
    kept = other.kept(reader)
    whole = SideChange(Entries.none(kept.width), Entries.none(kept.width), kept)
    yield from JoinChange(SideChange(Entries.none(entries.width), entries, side.kept(reader)), whole, how).rows()


def swapped(rows: JoinedRows) -> JoinedRows:
    """Return rows with their sides in the other order."""
    return JoinedRows(rows.plus, rows.right, rows.j, rows.left, rows.i)
