"""A side of a join as the node of a view without a reducer: a group is a condition value, its values projections.

The gateway drives it like any view of a table, so it holds documents as views do. It gathers the changes of a batch.
The join takes them as entries when all tables have their final documents.

The owner of a condition value's hash owns its entries. Changes of them cross between partitions as sets: a pair of
condition value and key has this entry, or none. The receiver takes the entry before from its index. Invariants:

- an entry of M is derived from the remembered fields of the document, from its held row, or from the index. It is never
  derived from the new version;
- a set that equals the entry in the index changes nothing. Of several sets for one pair the last one counts;
- an entry with a null condition value matches nothing, so it stays where its document is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from penstock.cache import FEW, Reader, decode_key, encode_key
from penstock.join.conditions import NULL_CODE, ConditionKeys, Conditions
from penstock.join.entries.entry_texts import EntryKeys
from penstock.join.entry_pages import changes_payload, read_changes
from penstock.join.joined_rows import KeptEntries, SideChange
from penstock.join.product import BLOCK
from penstock.join.side_entries import Entries, Ints, Mask
from penstock.join.side_index import SideIndex
from penstock.join.sorted_runs import EntryChanges, changed_entries
from penstock.mapreduce import (
    Codes,
    Column,
    Contributions,
    Groups,
    KeyRanges,
    Part,
    SourceKeys,
    Spaces,
    TransactionContributions,
    ViewNode,
    Writes,
    entries_part,
)
from penstock.views import FieldMap, SideView, key_of_group

__all__ = ["KeySideKept", "LookUp", "SideNode", "entry_owners"]

EntrySides = tuple[Entries, Entries]
_NULL, _TUPLE, _END = encode_key(None), encode_key(())[:1], b"\0"
LookUp = Callable[[Reader, SourceKeys], tuple[Ints, Sequence[Column]]]
"""Return the index of each key that has a document, and the fields of these documents."""


class SideNode(ViewNode):
    """The node of one side."""

    def __init__(self, view: SideView, number: int, spaces: Spaces | None, few: int = FEW) -> None:
        super().__init__(view, number, spaces, complete=False, few=few)
        self.side = view
        self.drops_equal = True
        self.index = None if view.by_key else SideIndex(number, len(view.projection))
        self.look_up: LookUp | None = None  # of a key side: reads the state before the transaction
        self._values: _SideValues | None = None
        self._keys: tuple[SourceKeys, EntryKeys] | None = None  # those of the documents of a batch

    def nbytes(self, spaces: bool) -> int:
        """Estimate the bytes in use; with shared groups if `spaces`."""
        return super().nbytes(spaces) + (0 if self.index is None else self.index.nbytes)

    def forget(self, spaces: Spaces | None) -> None:
        """Drop the memory; `spaces` are those of its source."""
        super().forget(spaces)
        if self.index is not None:
            self.index.forget()
        self._values = None

    def advance(self, reader: Reader, plus: Contributions, minus: Contributions, writes: Writes) -> None:
        """Gather contributions for the join."""
        writes.gathered.setdefault(self.number, TransactionContributions()).add(plus, minus)

    def fold_gathered(self, reader: Reader, writes: Writes) -> None:
        """Leave gathered contributions to the join, which takes them when all sides have theirs."""

    def change(self, reader: Reader, own: TransactionContributions | None, writes: Writes) -> SideChange:
        """Return M, P and K of a transaction. A document whose entry stays as it is belongs to K.

        Entries of other partitions leave, and those that came from others count here.
        """
        none = Entries.none(len(self.side.projection))
        minus, plus = none, none
        if own is not None:
            minus, plus = changed_entries(self.entries(own.minus), self.entries(own.plus))
            self._keys = None
            if self.crossing is not None and self.index is not None:  # the owner of a key has its document
                minus, plus = self._crossed(reader, self.index, (minus, plus), own.entries, writes)
        kept = self._kept(reader, Entries.join([minus, plus]))
        return SideChange(minus, plus, kept, unique=self.index is None)

    def _kept(self, reader: Reader, changed: Entries) -> KeptEntries:
        if self.index is not None:
            return self.index.kept(reader, changed)
        assert self.look_up is not None, "the node of its source sets it"
        return KeySideKept(len(self.side.projection), partial(self.look_up, reader), changed)

    def stage(self, reader: Reader, change: SideChange, writes: Writes) -> None:
        """Store the change of a transaction in the index. A key side stores nothing."""
        if self.index is not None and (len(change.minus) or len(change.plus)):
            self.index.stage(reader, change.minus, change.plus, writes)
            writes.changed = True

    def _crossed(
        self, reader: Reader, index: SideIndex, sides: EntrySides, came: list[bytes], writes: Writes
    ) -> EntrySides:
        """Return M and P of this partition, by its documents and by sets of other partitions."""
        assert self.crossing is not None, "asked of a partition"
        ranges, home = self.crossing.ranges, self.crossing.partition
        minus, plus = divided_entries(self.number, sides, ranges, home, self.leaving(writes))
        if not came:
            return minus, plus
        before, after = applied_sets(index, reader, came)
        return changed_entries(Entries.join([minus, before]), Entries.join([plus, after]))

    def entries(self, parts: list[Contributions]) -> Entries:
        """Return contributions as entries. One with a null condition value is left out if it has no row."""
        if not parts:
            return Entries.none(len(self.side.projection))
        own = Contributions.join(parts)
        assert own.sources is not None, "a side keeps the keys of its documents"
        keys, index = own.sources.keys, own.sources.index
        if self._values is None or self._values.groups is not self.groups:
            assert isinstance(self.view.map, FieldMap), "a side has no function"
            self._values = _SideValues(self.groups, self.view.map.key.single)
        null = self._values.null(own.code)
        if null.any() and not self.side.unmatched:
            matching = np.flatnonzero(~null)
            own, index, null = own.take(matching), index[matching], null[matching]
        if self._keys is None or self._keys[0] is not keys:
            self._keys = keys, EntryKeys.of(_nested_nulls(keys) if self.side.nests_null else keys)
        columns = [own.inputs[path] for path in self.side.projection]
        make = Entries.unstored if self.index is None else Entries.of
        return make(self._values.keys.of(own.code), self._keys[1].take(index), columns, null if null.any() else None)


def _nested_nulls(keys: SourceKeys) -> SourceKeys:
    """Return groups as parts of keys of rows, in which null stands for a missing side."""
    if keys.text is None:
        return keys
    text = keys.text.copy()
    for i, own in enumerate(text.tolist()):
        if own is not None and own.lstrip(_TUPLE).rstrip(_END) == _NULL:
            text[i] = encode_key(key_of_group(decode_key(own)))
    return SourceKeys(keys.lane, text)


class KeySideKept:
    """The entries of a key side that a transaction does not change. The key of an entry is its condition value."""

    def __init__(
        self, width: int, found: Callable[[SourceKeys], tuple[Ints, Sequence[Column]]], changed: Entries
    ) -> None:
        self.width = width
        self._found = found
        self._changed: Conditions | None = None  # the condition values of these entries
        self._entries = changed

    def _unchanged(self, wanted: Conditions) -> Ints:
        """Return the indexes of the condition values that the transaction changes no document of."""
        if not len(self._entries):
            return np.arange(len(wanted))
        if self._changed is None:
            self._changed, _ = Conditions.of([self._entries])
        return np.flatnonzero(self._changed.find(wanted.entries) == NULL_CODE)

    def blocks(self, wanted: Conditions) -> Iterator[tuple[Ints, Entries]]:
        """Yield the entries with these condition values in blocks, with their indexes in `wanted`."""
        index = self._unchanged(wanted)
        for start in range(0, index.size, BLOCK):
            own = index[start : start + BLOCK]
            asked = wanted if own.size == len(wanted) else wanted.take(own)
            found, columns = self._found(asked.keys)
            if found.size:
                keys = asked.entry_keys().take(found)
                yield own[found], Entries.unstored(keys, keys, columns)

    def counts(self, wanted: Conditions) -> Ints:
        """Return the number of entries with each of these condition values: 1 or 0."""
        out = np.zeros(len(wanted), np.int64)
        for index, _ in self.blocks(wanted):
            out[index] = 1
        return out

    def most(self, wanted: Conditions) -> Ints:
        """Return an upper bound for each of `counts`, without a look-up."""
        out = np.zeros(len(wanted), np.int64)
        out[self._unchanged(wanted)] = 1
        return out


class _SideValues:
    """The groups of a side as condition values, and which of them are null, each found once."""

    def __init__(self, groups: Groups, single: bool) -> None:
        self.groups = groups
        self.keys = ConditionKeys(groups)
        self._single = single
        self._null = np.zeros(0, bool)

    def null(self, codes: Codes) -> Mask:
        """Mark the codes whose condition value is null. One null part of a composite value is enough."""
        known, size = self._null.size, self.groups.size
        if known < size:
            fresh = list(map(self._is_null, map(self.groups.value, range(known, size))))
            self._null = np.concatenate([self._null, np.array(fresh, bool)])
        out: Mask = self._null[codes]
        return out

    def _is_null(self, value: object) -> bool:
        if self._single:
            return value is None
        return isinstance(value, tuple) and any(part is None for part in value)


def entry_owners(entries: Entries, ranges: KeyRanges, home: int) -> Ints:
    """Return the partition that owns each entry; `home` has those with a null condition value."""
    values = entries.values()
    owners = ranges.of_lanes(values.lane.view(np.uint64), None)
    if values.text is not None:
        at = np.flatnonzero(values.text.astype(bool))
        owners[at] = ranges.of_encoded(values.text[at].tolist())
    null = entries.null()
    if null is not None:
        owners[null] = home
    return owners


def divided_entries(
    number: int, sides: EntrySides, ranges: KeyRanges, home: int, leaving: dict[int, list[Part]]
) -> EntrySides:
    """Return the entries before and after that this partition owns. Add sets for the others to `leaving`, by owner."""
    owners = [entry_owners(entries, ranges, home) for entries in sides]
    minus, plus = sides
    went, came = owners
    for other in np.unique(np.concatenate(owners)).tolist():
        if other != home:
            sets = EntryChanges.of(minus.take(went == other), plus.take(came == other))
            leaving.setdefault(other, []).append(entries_part(number, changes_payload(sets)))
    return minus.take(went == home), plus.take(came == home)


def applied_sets(index: SideIndex, reader: Reader, payloads: Sequence[bytes]) -> EntrySides:
    """Return the entries that sets take from an index, and those that they put into it."""
    sets = EntryChanges.last_of([read_changes(payload, index.width) for payload in payloads])
    _, before = index.find(reader, sets.entries.values(), sets.entries.keys())
    return changed_entries(before, sets.put())
