"""Entries of one side of a join in columns: condition value, document key, projection.

An entry has a position: the upper 32 bits of the hash of its condition value, then those of the hash of its key.
Entries of one condition value are therefore adjacent in the order of positions. Invariants:

- the whole condition value and the whole key decide whether two entries are equal. Positions may tie;
- a condition value or key that is a 64-bit int is in its lane. Any other has its encoding in `texts`, and kind OTHER;
- a null condition value has kind NULL;
- no method changes its input columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import canonical, unpack
from penstock.join.entries.entry_texts import EntryKeys, Texts, flat_places
from penstock.mapreduce import Codes, Column, Groups, LaneKind, SourceKeys

__all__ = [
    "Entries",
    "Ints",
    "Mask",
    "Positions",
    "first_positions",
    "flat_places",
    "in_order",
    "places_within",
    "positions_of",
    "same_columns",
    "same_entries",
    "same_projections",
]

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.uint64]

VALUE, KEY, FIELDS = 0, 1, 2
"""The columns of an entry: its condition value, its key, and the first field of its projection."""

_HALF = np.uint64(32)
_encode = msgspec.msgpack.Encoder().encode  # of texts: the same bytes as the canonical ones, sooner
UPPER = np.uint64(0xFFFFFFFF00000000)
"""The bits of a position that come from the condition value."""


@dataclass(slots=True)
class Entries:
    """Entries as rows of one array, so that a selection is one operation however many fields there are."""

    at: Positions
    lanes: Ints  # a row for each entry, a column for condition value, key and each field
    kinds: NDArray[np.uint8] | None  # None: every value is an INT
    texts: Texts | None  # values that have no lane
    fields: tuple[Column, ...] | None = None  # the projection of entries that are never stored
    _columns: dict[int, Column] = field(default_factory=dict, repr=False)  # by field, once it is read
    _parts: dict[str, list[bytes]] = field(default_factory=dict, repr=False)  # of keys of rows, once they are made
    _codes: dict[int, list[tuple[Groups, Codes]]] = field(default_factory=dict, repr=False)  # the same fields as groups

    def __len__(self) -> int:
        return int(self.at.size)

    @property
    def width(self) -> int:
        """Return the number of fields of the projection."""
        return int(self.lanes.shape[1]) - FIELDS if self.fields is None else len(self.fields)

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        own = self.at.nbytes + self.lanes.nbytes + (0 if self.kinds is None else self.kinds.nbytes)
        return own + (0 if self.texts is None else self.texts.nbytes)

    @classmethod
    def none(cls, width: int) -> Entries:
        """Return no entries, with this number of fields."""
        return cls(np.zeros(0, np.uint64), np.zeros((0, FIELDS + width), np.int64), None, None)

    @classmethod
    def of(
        cls,
        values: SourceKeys | EntryKeys,
        keys: SourceKeys | EntryKeys,
        columns: Sequence[Column] = (),
        null: Mask | None = None,
    ) -> Entries:
        """Make entries from condition values, keys and fields. `null` marks null condition values."""
        value, key = EntryKeys.of(values), EntryKeys.of(keys)
        value = value if null is None else value.without(null)
        n, wide = int(key.lane.size), FIELDS + len(columns)
        lanes = np.empty((n, wide), np.int64)
        lanes[:, VALUE], lanes[:, KEY] = value.lane, key.lane
        for i, column in enumerate(columns, FIELDS):
            lanes[:, i] = column.lane
        at = positions_of(value, key)
        beside = [value.texts, key.texts, *map(_texts_of, columns)]
        texts = Texts.of(n, beside) if any(column is not None for column in beside) else None
        if texts is None and null is None and all(column.kind is None for column in columns):
            return cls(at, lanes, None, None)
        kinds = np.full((n, wide), LaneKind.INT, np.uint8)
        if texts is not None:
            kinds[:, :FIELDS][texts.sizes[:, :FIELDS] > 0] = LaneKind.OTHER
        for i, column in enumerate(columns, FIELDS):
            kinds[:, i] = column.kinds()
        if null is not None:
            kinds[null, VALUE] = LaneKind.NULL
        return cls(at, lanes, kinds, texts)

    @classmethod
    def unstored(
        cls, values: EntryKeys, keys: EntryKeys, columns: Sequence[Column], null: Mask | None = None
    ) -> Entries:
        """Make entries that are never stored. Their fields are not converted."""
        return replace(cls.of(values, keys, (), null), fields=tuple(columns))

    def take(self, index: NDArray[Any]) -> Entries:
        """Return the entries at these indexes or under this mask."""
        at = index.nonzero()[0] if index.dtype == bool else index
        return Entries(  # `take` of rows is several times as fast as an index
            self.at.take(at),
            self.lanes.take(at, axis=0),
            None if self.kinds is None else self.kinds.take(at, axis=0),
            None if self.texts is None else self.texts.take(at),
            None if self.fields is None else tuple(column.take(at) for column in self.fields),
        )

    def sorted(self) -> Entries:
        """Return the entries in order of position."""
        order = in_order(self)
        return self if order is None else self.take(order)

    def pairs(self) -> Entries:
        """Return the entries without their projections: pairs of condition value and key."""
        kinds = None if self.kinds is None else self.kinds[:, :FIELDS]
        return Entries(self.at, self.lanes[:, :FIELDS], kinds, None if self.texts is None else self.texts.first(FIELDS))

    def slice(self, start: int, stop: int) -> Entries:
        """Return the entries from start to stop, without a copy."""
        own = slice(start, stop)
        kinds = None if self.kinds is None else self.kinds[own]
        texts = None if self.texts is None else self.texts.slice(own)
        fields = None if self.fields is None else tuple(column.part(start, stop) for column in self.fields)
        return Entries(self.at[own], self.lanes[own], kinds, texts, fields)

    @staticmethod
    def join(parts: Sequence[Entries]) -> Entries:
        """Concatenate the parts."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        kinds: NDArray[np.uint8] | None = None
        if any(part.kinds is not None for part in parts):
            kinds = np.concatenate([part.all_kinds() for part in parts])
        texts: Texts | None = None
        if any(part.texts is not None for part in parts):
            texts = Texts.join([part.texts or Texts.none(*part.lanes.shape) for part in parts])
        lanes = np.concatenate([part.lanes for part in parts])
        fields = [part.fields for part in parts if part.fields is not None]
        columns = tuple(map(Column.join, zip(*fields, strict=True))) if fields else None
        return Entries(np.concatenate([part.at for part in parts]), lanes, kinds, texts, columns)

    def all_kinds(self) -> NDArray[np.uint8]:
        """Return the kind of each value."""
        return np.full(self.lanes.shape, LaneKind.INT, np.uint8) if self.kinds is None else self.kinds

    def values(self) -> SourceKeys:
        """Return the condition values."""
        return self._keys_in(VALUE)

    def keys(self) -> SourceKeys:
        """Return the document keys."""
        return self._keys_in(KEY)

    def _keys_in(self, column: int) -> SourceKeys:
        lane = np.ascontiguousarray(self.lanes[:, column])
        if self.texts is None or not self.texts.sizes[:, column].any():
            return SourceKeys(lane, None)
        text = np.empty(lane.size, object)
        text[:] = [own or None for own in self.texts.column(column)]
        return SourceKeys(lane, text)

    def null(self) -> Mask | None:
        """Mark the entries with a null condition value; None if there is none."""
        if self.kinds is None:
            return None
        null: Mask = self.kinds[:, VALUE] == LaneKind.NULL
        return null if null.any() else None

    def column(self, number: int) -> Column:
        """Return one field of the projection, by its number from 0. It is converted once."""
        if self.fields is not None:
            return self.fields[number]
        found = self._columns.get(number)
        if found is None:
            found = self._columns[number] = self._column(FIELDS + number)
        return found

    def _column(self, i: int) -> Column:
        lane = np.ascontiguousarray(self.lanes[:, i])
        if self.kinds is None:
            return Column(lane)
        kind = np.ascontiguousarray(self.kinds[:, i])
        objs: dict[int, Any] = {}
        if self.texts is not None and self.texts.sizes[:, i].any():
            objs = {row: unpack(own) for row, own in enumerate(self.texts.column(i)) if own}
        return Column(lane, kind, objs).narrow()

    def codes(self, number: int, groups: Groups) -> Codes:
        """Return one field as group codes. They are found once."""
        known = self._codes.setdefault(number, [])
        for own, codes in known:
            if own is groups:
                return codes
        codes = self.column(number).codes(groups)
        known.append((groups, codes))
        return codes

    def once(self, name: str, make: Callable[[], list[bytes]]) -> list[bytes]:
        """Return parts of keys of rows that are made once for all blocks of rows."""
        found = self._parts.get(name)
        if found is None:
            found = self._parts[name] = make()
        return found

    def listed(self) -> list[tuple[bytes | None, bytes, list[Any]]]:
        """Return the encoded condition value, None for null, the encoded key and the fields of each entry."""
        values, keys = self.values(), self.keys()
        fields = [self.column(number).values() for number in range(self.width)]
        null = self.null()
        nulls = [False] * len(self) if null is None else null.tolist()
        out: list[tuple[bytes | None, bytes, list[Any]]] = []
        sources = zip(nulls, values.encoded(), keys.encoded(), strict=True)
        for row, (is_null, value, key) in enumerate(sources):
            out.append((None if is_null else value, key, [column[row] for column in fields]))
        return out


def _texts_of(column: Column) -> Texts | None:
    """Return the bytes of the values of a field that have no lane; None if all have one."""
    if not column.objs:
        return None
    out = [b""] * len(column)
    for i, value in column.objs.items():
        out[i] = _encode(value) if type(value) is str else canonical(value)
    return Texts.of_values(out)


def first_positions(values: SourceKeys | EntryKeys) -> Positions:
    """Return the least position that an entry of each condition value may have."""
    return values.hashes() & UPPER


def positions_of(values: SourceKeys | EntryKeys, keys: SourceKeys | EntryKeys) -> Positions:
    """Return the positions of entries with these condition values and keys."""
    return first_positions(values) | (keys.hashes() >> _HALF)


def places_within(at: Positions, low: Positions, high: Positions) -> Ints:
    """Return the places of positions in these disjoint ranges. All of them ascend; both ends belong to a range."""
    if not at.size:
        return np.zeros(0, np.int64)
    own = slice(int(np.searchsorted(high, at[0])), int(np.searchsorted(low, at[-1], "right")))
    start, stop = np.searchsorted(at, low[own]), np.searchsorted(at, high[own], "right")
    return flat_places(start, stop - start)


def same_entries(a: Entries, i: Ints, b: Entries, j: Ints) -> Mask:
    """Mark the pairs of entries i of a and entries j of b with equal condition values and equal keys."""
    return same_columns(a, i, b, j, FIELDS)


def same_columns(a: Entries, i: Ints, b: Entries, j: Ints, columns: int) -> Mask:
    """Mark the pairs of entries i of a and entries j of b that are equal in their first columns."""
    same: Mask = a.lanes[i, VALUE] == b.lanes[j, VALUE]
    for column in range(1, columns):
        same &= a.lanes[i, column] == b.lanes[j, column]
    if a.kinds is not None or b.kinds is not None:
        left, right = (own.all_kinds() for own in (a, b))
        for column in range(columns):
            same &= left[i, column] == right[j, column]
    if a.texts is not None and b.texts is not None:
        same = a.texts.same(i, b.texts, j, columns, same)
    return same


def same_projections(entries: Entries, i: Ints, j: Ints) -> Mask:
    """Mark the pairs of entries i and j with equal condition values, keys and fields."""
    if entries.fields is None:
        return same_columns(entries, i, entries, j, FIELDS + entries.width)
    same = same_entries(entries, i, entries, j)
    for column in entries.fields:
        same &= column.equal(i, j)
    return same


def in_order(entries: Entries) -> Ints | None:
    """Return the indexes that sort entries by position and then make equal entries adjacent, in their given order.

    None means that they are in this order already and that no two of them are equal.
    """
    n = len(entries)
    if n < 2 or bool((entries.at[1:] > entries.at[:-1]).all()):
        return None
    order = np.argsort(entries.at, kind="stable")  # it merges sorted runs
    at = entries.at[order]
    tie = at[1:] == at[:-1]
    if tie.any():
        first = np.flatnonzero(tie)
        if not same_entries(entries, order[first], entries, order[first + 1]).all():
            return _in_exact_order(entries, order, tie)
    return order


def _in_exact_order(entries: Entries, order: Ints, tie: Mask) -> Ints:
    """Sort the entries of each tied position by condition value and key."""
    order = order.copy()
    edges = np.flatnonzero(np.diff(tie.astype(np.int8), prepend=0, append=0))
    for start, stop in zip(edges[::2].tolist(), (edges[1::2] + 1).tolist(), strict=True):
        own = order[start:stop]
        names = [(value or b"", key) for value, key, _ in entries.take(own).listed()]
        order[start:stop] = own[sorted(range(stop - start), key=names.__getitem__)]
    return order
