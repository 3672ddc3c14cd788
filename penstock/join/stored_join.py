"""All rows of a join, read in one snapshot, for builds, repairs and searches.

A join stores no rows. So one scan over the entries of its first side looks up the matches of each in the other. A full
join has another scan, over the second side. Entries with a null condition value are in no index: they come from the
documents. So do all entries of a key side. A row has the position of one of its entries. So a build reads the rows in
parts, in order of position.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np

from penstock.cache import Reader, encode_entry, pack, seal, stored_key, unpack, unseal
from penstock.join.conditions import Conditions
from penstock.join.joined_columns import row_documents, row_keys, selected
from penstock.join.joined_rows import How, JoinChange, JoinedRows, KeptEntries, SideChange, above_limit
from penstock.join.side_entries import Entries, Ints, Mask, Positions
from penstock.join.side_index import SideIndex, side_dbs
from penstock.join.side_node import KeySideKept
from penstock.mapreduce import Column, SourceKeys, Writes, held_db
from penstock.views import Join, SideView

__all__ = [
    "JoinPart",
    "LimitHold",
    "SideDocuments",
    "StoredJoin",
    "StoredSide",
    "held_values",
    "put_limit_holds",
    "row_sides",
]

_LAST = (1 << 64) - 1
_PAIRS = (How.INNER, How.LEFT, How.FULL)


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


@dataclass(slots=True)
class JoinPart:
    """The rows from one position of a join to the next one, and the condition values there that are above the limit.

    `end` is where the next part begins; None after the last one.
    """

    end: int | None
    entries: int
    limited: list[LimitHold]
    _rows: Callable[[], Iterator[JoinedRows]]

    def rows(self) -> Iterator[JoinedRows]:
        """Yield the rows in blocks. This can be called again."""
        return self._rows()


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
            yield from self._selected(rows)
        for rows in _rows(reader, right, left, How.ANTI, held) if how is How.FULL else ():
            yield from self._selected(_swapped(rows))

    def _selected(self, rows: JoinedRows) -> Iterator[JoinedRows]:
        shown = selected(self.row_sides, rows, self.join.filter)
        if shown.i.size:
            yield shown

    @property
    def _first(self) -> int | None:
        """Return the number of the side whose index orders the rows; None if there is none for all rows."""
        if self.sides[0].index is not None:
            return 0
        return 1 if How(self.join.how) is How.INNER and self.sides[1].index is not None else None

    def positions(self, rows: JoinedRows) -> Positions:
        """Return the position of each row: that of its entry of the ordering side, or of the only one that it has.

        The row of a null condition value comes last: no index has its entry.
        """
        out = np.empty(rows.i.size, np.uint64)
        first = rows.i >= 0 if self._first != 1 else np.zeros(rows.i.size, bool)
        for own, entries, index in ((first, rows.left, rows.i), (~first, rows.right, rows.j)):
            null = entries.null()
            at = entries.at if null is None else np.where(null, np.uint64(_LAST), entries.at)
            out[own] = at[index[own]]
        return out

    def part(self, reader: Reader, begin: int, limit: int) -> JoinPart:
        """Return about `limit` rows from a position on, or the rows of one entry. The last part has those of null.

        A build uses this, so the stored list of condition values above the limit may lack some. Without an index that
        orders the rows all of them are one part.
        """
        first = self._first
        if first is None:
            return JoinPart(None, 0, [], lambda: self.rows(reader))
        how = How(self.join.how)
        left, right = self.sides[first], self.sides[1 - first]
        own = left.block(reader, begin, limit)
        other = right.block(reader, begin, limit) if how is How.FULL else Entries.none(0)
        conditions, [codes, beside] = Conditions.of([own, other.pairs()])
        matches = right.kept(reader).counts(conditions)
        before, over = self._matches_before(left.kept(reader), conditions, matches)
        last = [int(entries.at[-1]) for entries in (own, other) if len(entries)]
        end = None if begin == _LAST or not last else min([_LAST, *(at + 1 for at in last)])
        rows = np.where(over, 0, np.maximum(matches, 1) if how in _PAIRS else 1)[codes]
        many = np.flatnonzero(np.cumsum(rows) > limit)
        if end is not None and many.size:  # entries of one position are in one part
            end = min(end, int(own.at[max(int(many[0]), 1) - 1]) + 1)
        if end is not None:
            n, m = (int(np.searchsorted(entries.at, np.uint64(end))) for entries in (own, other))
            own, codes, other, beside = own.slice(0, n), codes[:n], other.slice(0, m), beside[:m]
        held = np.intersect1d(np.flatnonzero(over), np.concatenate([codes, beside]))
        values = zip(conditions.take(held).encoded(), before[held].tolist(), matches[held].tolist(), strict=True)
        shown = own.take(~over[codes]), other.take(~over[beside])
        limited = [LimitHold(*one) for one in values]
        return JoinPart(
            end, len(own) + len(other), limited, lambda: self._part_rows(reader, first, *shown, end is None)
        )

    def _matches_before(self, left: KeptEntries, conditions: Conditions, matches: Ints) -> tuple[Ints, Mask]:
        """Return the matches of the ordering side, where they matter, and mark the condition values above the limit."""
        own = np.zeros(len(conditions), np.int64)
        near = np.flatnonzero(above_limit([left.most(conditions), matches], self.join.limit))
        if near.size:
            own[near] = left.counts(conditions.take(near))
        return own, above_limit([own, matches], self.join.limit)

    def _part_rows(self, reader: Reader, first: int, own: Entries, other: Entries, last: bool) -> Iterator[JoinedRows]:
        """Yield the rows of some entries of the ordering side, and those of the second side alone in a full join."""
        how = How(self.join.how)
        left, right = self.sides[first], self.sides[1 - first]
        lone = How.LEFT if how is How.FULL else how
        for entries in chain([own], left.nulls(reader) if last else ()):
            for rows in _rows_of(reader, left, right, lone, entries):
                yield from self._selected(_swapped(rows) if first else rows)
        if how is How.FULL:
            for entries in chain([other], right.nulls(reader) if last else ()):
                for rows in _rows_of(reader, right, left, How.ANTI, entries):
                    yield from self._selected(_swapped(rows))

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
        yield from _rows_of(reader, side, other, how, own)


def _rows_of(reader: Reader, side: StoredSide, other: StoredSide, how: How, entries: Entries) -> Iterator[JoinedRows]:
    """Yield the rows of some entries of one side."""
    kept = other.kept(reader)
    whole = SideChange(Entries.none(kept.width), Entries.none(kept.width), kept)
    yield from JoinChange(SideChange(Entries.none(entries.width), entries, side.kept(reader)), whole, how).rows()


def _swapped(rows: JoinedRows) -> JoinedRows:
    """Return rows with their sides in the other order."""
    return JoinedRows(rows.plus, rows.right, rows.j, rows.left, rows.i)
