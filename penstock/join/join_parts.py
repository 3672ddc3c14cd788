"""The rows of a join in parts, in the order in which a build reads them.

A row has a place, which depends on its key alone. Places have three sections:

    0   by the position of an entry in an index: pairs, and rows of one side alone whose index has that order
    1   by a document of the first side: rows of null condition values, and rows of a key side alone
    2   by a document of the second side: its rows of null condition values

In sections 1 and 2 the source of the side has an order of its documents. Invariants:

- a part has exactly the rows with places between its begin and its end, so a build knows the rows that its views have;
- a part has about as many entries and rows as its limit, or the rows of one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.cache import Reader, encode_entry, encode_key
from penstock.join.conditions import Conditions
from penstock.join.joined_rows import How, JoinedRows, KeptEntries, above_limit
from penstock.join.side_entries import Entries, Ints, Mask, Positions, positions_of
from penstock.join.stored_join import LimitHold, StoredJoin, rows_of, swapped
from penstock.mapreduce import SourceKeys
from penstock.views import View

__all__ = ["FIRST_PLACE", "JoinPart", "JoinParts"]

FIRST_PLACE = b""
"""The place before all rows."""

_BY_INDEX, _BY_FIRST, _BY_SECOND = range(3)  # the sections
_POSITION = 8  # bytes of a position
_PAIRS = (How.INNER, How.LEFT, How.FULL)
_UNMATCHED = (How.LEFT, How.FULL, How.ANTI)


@dataclass(slots=True)
class JoinPart:
    """The rows from one place of a join to the next one, and the condition values there that are above the limit.

    `end` is where the next part begins; None after the last one. `entries` counts the entries that were read.
    """

    end: bytes | None
    entries: int
    limited: list[LimitHold]
    _rows: Callable[[], Iterator[JoinedRows]]

    def rows(self) -> Iterator[JoinedRows]:
        """Yield the rows in blocks. This can be called again."""
        return self._rows()


@dataclass(slots=True)
class _PlacedRows:
    """Rows of which the places are asked: their sides, their condition values, and functions of their indexes.

    The functions take indexes of rows, and True for the second side.
    """

    left: Mask  # the row has the first side
    right: Mask
    null: Mask  # its condition value is null
    positions: Callable[[Ints, bool], Positions]
    keys: Callable[[Ints, bool], SourceKeys]


class JoinParts:
    """The parts of one join. Like a `StoredJoin`, read them with the reader of one snapshot only."""

    def __init__(self, stored: StoredJoin) -> None:
        self._stored = stored
        self._how = how = How(stored.join.how)
        first, second = stored.sides
        self._ordering: int | None = None  # the side whose index orders section 0
        same_keys = how is How.LEFT and isinstance(second.view.source, View)  # a row alone, and one with a null group
        if first.index is not None:
            self._ordering = 0
        elif second.index is not None and how in _PAIRS and not same_keys:
            self._ordering = 1
        alone = how in _UNMATCHED if self._ordering == 0 else self._ordering is None or how is How.LEFT
        sections = {_BY_INDEX: self._ordering is not None, _BY_FIRST: alone, _BY_SECOND: how is How.FULL}
        self._sections = [section for section, used in sections.items() if used]

    # -- places

    def before(self, rows: JoinedRows, place: bytes) -> Mask:
        """Mark the rows before a place."""
        sides = (rows.left, rows.i), (rows.right, rows.j)
        null = np.zeros(rows.i.size, bool)
        for entries, index in sides:
            own = entries.null()
            if own is not None:
                null |= (index >= 0) & own[index]

        def positions(at: Ints, second: bool) -> Positions:
            entries, index = sides[second]
            return entries.at[index[at]]

        def keys(at: Ints, second: bool) -> SourceKeys:
            entries, index = sides[second]
            return entries.keys().take(index[at])

        return self._before(_PlacedRows(rows.i >= 0, rows.j >= 0, null, positions, keys), place)

    def keys_before(self, keys: Sequence[Any], place: bytes) -> Mask:
        """Mark the keys of rows that are before a place."""
        pairs = [self._stored.pair_of(key) for key in keys]
        left, right = ([pair[side] for pair in pairs] for side in (0, 1))
        values = [key[-1] for key in keys]

        def keys_of(at: Ints, second: bool) -> SourceKeys:
            own = right if second else left
            return SourceKeys.of_encoded([_encoded(own[i]) for i in at.tolist()])

        def positions(at: Ints, second: bool) -> Positions:
            own = SourceKeys.of_encoded([_encoded(values[i]) for i in at.tolist()])
            return positions_of(own, keys_of(at, second))

        known, how = [np.array([one is not None for one in own], bool) for own in (left, right, values)], self._how
        has_left = known[0] if how is How.FULL else np.ones(len(keys), bool)  # null may be the group of a view
        has_right = np.ones(len(keys), bool) if how is How.INNER else known[1]
        return self._before(_PlacedRows(has_left, has_right, ~known[2], positions, keys_of), place)

    def _before(self, rows: _PlacedRows, place: bytes) -> Mask:
        if not place:
            return np.zeros(rows.left.size, bool)
        section = np.where(rows.left, _BY_FIRST, _BY_SECOND)
        if self._ordering is not None:
            section[~rows.null & (rows.right | (self._ordering == 0))] = _BY_INDEX
        until, rest = place[0], place[1:]
        out: Mask = section < until
        own = np.flatnonzero(section == until)
        if until != _BY_INDEX:
            second = until == _BY_SECOND
            if own.size:
                out[own] = self._stored.sides[second].documents.before(rows.keys(own, second), rest)
            return out
        stop = np.uint64(int.from_bytes(rest, "big"))
        of_second = ~rows.left[own] | (self._ordering == 1)
        for at, second in ((own[~of_second], False), (own[of_second], True)):
            if at.size:
                out[at] = rows.positions(at, second) < stop
        return out

    # -- parts

    def part(self, reader: Reader, begin: bytes, limit: int) -> JoinPart:
        """Return about `limit` rows from a place on, or the rows of one entry.

        A build uses this, so the stored list of condition values above the limit may lack some.
        """
        section, rest = (begin[0], begin[1:]) if begin else (self._sections[0], b"")
        by = self._by_index if section == _BY_INDEX else self._by_documents
        part = by(reader, section, rest, limit)
        later = [own for own in self._sections if own > section]
        if part.end is not None:
            part.end = bytes([section]) + part.end
        elif later:
            part.end = bytes(later[:1])
        return part

    def _by_documents(self, reader: Reader, section: int, begin: bytes, limit: int) -> JoinPart:
        """Return rows of the next documents of a side: of those without an entry in an index."""
        second = section == _BY_SECOND
        side, other = self._stored.sides[second], self._stored.sides[1 - second]
        entries, end = side.documents.part(reader, begin, limit)
        if side.index is not None:
            null = entries.null()
            entries = entries.slice(0, 0) if null is None else entries.take(null)
        how = How.ANTI if side.index is not None or self._ordering == 1 else self._how

        def rows() -> Iterator[JoinedRows]:
            for own in rows_of(reader, side, other, how, entries):
                yield from self._stored.selected(swapped(own) if second else own)

        return JoinPart(end, len(entries), [], rows)

    def _by_index(self, reader: Reader, _: int, begin: bytes, limit: int) -> JoinPart:
        """Return rows of the next entries of the index that orders them."""
        how, first = self._how, self._ordering or 0
        left, right = self._stored.sides[first], self._stored.sides[1 - first]
        start = int.from_bytes(begin, "big")
        own = left.block(reader, start, limit)
        other = right.block(reader, start, limit) if how is How.FULL else Entries.none(0)
        conditions, [codes, beside] = Conditions.of([own, other.pairs()])
        matches = right.kept(reader).counts(conditions)
        before, over = self._matches_before(left.kept(reader), conditions, matches)
        last = [int(entries.at[-1]) for entries in (own, other) if len(entries)]
        end = min(last) + 1 if last else None
        rows = np.where(over, 0, np.maximum(matches, 1) if how in _PAIRS else 1)[codes]
        many = np.flatnonzero(np.cumsum(rows) > limit)
        if end is not None and many.size:  # entries of one position are in one part
            end = min(end, int(own.at[max(int(many[0]), 1) - 1]) + 1)
        if end is not None:
            n, m = (int(np.searchsorted(entries.at, np.uint64(end - 1), "right")) for entries in (own, other))
            own, codes, other, beside = own.slice(0, n), codes[:n], other.slice(0, m), beside[:m]
        held = np.intersect1d(np.flatnonzero(over), np.concatenate([codes, beside]))
        values = zip(conditions.take(held).encoded(), before[held].tolist(), matches[held].tolist(), strict=True)
        shown = own.take(~over[codes]), other.take(~over[beside])
        limited = [LimitHold(*one) for one in values]
        after = None if end is None or end >> 64 else end.to_bytes(_POSITION, "big")
        return JoinPart(after, len(own) + len(other), limited, lambda: self._index_rows(reader, *shown))

    def _matches_before(self, left: KeptEntries, conditions: Conditions, matches: Ints) -> tuple[Ints, Mask]:
        """Return the matches of the ordering side, where they matter, and mark the condition values above the limit."""
        limit = self._stored.join.limit
        own = np.zeros(len(conditions), np.int64)
        near = np.flatnonzero(above_limit([left.most(conditions), matches], limit))
        if near.size:
            own[near] = left.counts(conditions.take(near))
        return own, above_limit([own, matches], limit)

    def _index_rows(self, reader: Reader, own: Entries, other: Entries) -> Iterator[JoinedRows]:
        """Yield the rows of some entries of the ordering side, and those of the second side alone in a full join."""
        how, first = self._how, self._ordering or 0
        left, right = self._stored.sides[first], self._stored.sides[1 - first]
        kind = How.INNER if first else How.LEFT if how is How.FULL else how
        for rows in rows_of(reader, left, right, kind, own):
            yield from self._stored.selected(swapped(rows) if first else rows)
        for rows in rows_of(reader, right, left, How.ANTI, other) if how is How.FULL else ():
            yield from self._stored.selected(swapped(rows))


def _encoded(key: Any) -> bytes:
    """Encode a key; that of a joined row may be longer than other keys."""
    return encode_entry(key) if isinstance(key, tuple) else encode_key(key)
