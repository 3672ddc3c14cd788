"""The condition values of a batch as dense codes.

Both sides of a join use the codes of one `Conditions`, so equal codes mean a match. A null condition value has no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import encode_key
from penstock.join.entries.entry_texts import EntryKeys
from penstock.join.side_entries import KEY, UPPER, VALUE, Entries, Ints, Positions, same_columns
from penstock.mapreduce import Codes, Groups, SourceKeys

__all__ = ["NULL_CODE", "ConditionKeys", "Conditions"]

NULL_CODE = -1
"""The code of a null condition value."""


@dataclass(slots=True)
class Conditions:
    """Distinct condition values, sorted by the position where their entries begin."""

    entries: Entries  # one entry of each value
    _keys: SourceKeys | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def keys(self) -> SourceKeys:
        """Return the condition values."""
        if self._keys is None:
            self._keys = self.entries.values()
        return self._keys

    def entry_keys(self) -> EntryKeys:
        """Return the condition values as keys of entries. Of their hashes only the upper halves are known."""
        own = self.entries
        texts = None if own.texts is None else own.texts.first(KEY)
        return EntryKeys(np.ascontiguousarray(own.lanes[:, VALUE]), self.low, texts)

    def encoded(self) -> list[bytes]:
        """Return the encoding of each value."""
        keys = self.keys
        texts = [None] * len(self) if keys.text is None else keys.text.tolist()
        return [
            encode_key(lane) if text is None else text for lane, text in zip(keys.lane.tolist(), texts, strict=True)
        ]

    @property
    def low(self) -> Positions:
        """Return the first position that each value may have."""
        return self.entries.at & UPPER

    @property
    def high(self) -> Positions:
        """Return the last position that each value may have."""
        return self.entries.at | ~UPPER

    def take(self, index: NDArray[Any]) -> Conditions:
        """Return the values at these indexes, which ascend, or under this mask."""
        return Conditions(self.entries.take(index))

    @staticmethod
    def of(parts: Sequence[Entries]) -> tuple[Conditions, list[Ints]]:
        """Return the distinct condition values of these entries, and the codes of each part."""
        every = Entries.join([part.pairs() for part in parts])
        null = every.null()
        own = every if null is None else every.take(~null)
        first, codes = _adjacent(own) or _distinct(own)
        if null is not None:
            codes, of_own = np.full(len(every), NULL_CODE, np.int64), codes
            codes[~null] = of_own
        cuts = np.cumsum([len(part) for part in parts])[:-1]
        return Conditions(own.take(first)), list(np.split(codes, cuts))

    def find(self, entries: Entries) -> Ints:
        """Return the code of each entry's condition value, or NULL_CODE if it is none of these."""
        out = np.full(len(entries), NULL_CODE, np.int64)
        if not len(self):
            return out
        start = entries.at & UPPER
        left = np.arange(len(entries))
        if (null := entries.null()) is not None:
            left = np.flatnonzero(~null)
        low = self.low
        place = np.searchsorted(low, start[left])
        while left.size:
            inside = place < len(self)
            left, place = left[inside], place[inside]
            inside = low[place] == start[left]
            left, place = left[inside], place[inside]
            same = same_columns(entries, left, self.entries, place, KEY)
            out[left[same]] = place[same]
            left, place = left[~same], place[~same] + 1  # another value has this position too
        return out


def _adjacent(entries: Entries) -> tuple[Ints, Ints] | None:
    """Return an entry of each condition value, in order of position, and the code of each entry.

    Return None if two condition values share their first position. Then equal ones need not be adjacent.
    """
    at = entries.at
    order = np.arange(at.size) if bool((at[1:] >= at[:-1]).all()) else np.argsort(at, kind="stable")
    low = at[order] & UPPER
    begins = np.ones(order.size, bool)
    begins[1:] = low[1:] != low[:-1]
    left = np.flatnonzero(~begins)
    if not same_columns(entries, order[left - 1], entries, order[left], KEY).all():
        return None
    codes = np.empty(order.size, np.int64)
    codes[order] = np.cumsum(begins) - 1
    return order[begins], codes


def _distinct(entries: Entries) -> tuple[Ints, Ints]:
    """Return the same as `_adjacent`, by comparison of whole condition values."""
    known: dict[tuple[int, int, bytes], int] = {}
    own, low = entries.values(), (entries.at & UPPER).tolist()
    texts = [None] * len(entries) if own.text is None else own.text.tolist()
    named = [(at, lane, text or b"") for at, lane, text in zip(low, own.lane.tolist(), texts, strict=True)]
    for place in sorted(range(len(entries)), key=named.__getitem__):
        known.setdefault(named[place], place)
    code_of = {name: code for code, name in enumerate(known)}
    return np.array(list(known.values()), np.int64), np.array([code_of[name] for name in named], np.int64)


class ConditionKeys:
    """The groups of a decoder as condition values, converted once per group."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._keys = EntryKeys.of(SourceKeys(np.zeros(0, np.int64), None))

    def of(self, codes: Codes) -> EntryKeys:
        """Return the condition values of these group codes."""
        known, size = int(self._keys.lane.size), self._groups.size
        if known < size:
            self._keys = EntryKeys.join(self._keys, EntryKeys.of(_keys_of(self._groups, known)))
        return self._keys.take(codes)


def _keys_of(groups: Groups, start: int) -> SourceKeys:
    """Return the groups from a code on as keys. The token of a group that is an int is that int."""
    tokens = groups.tokens[start:]
    types = set(map(type, tokens))
    if types == {int}:
        return SourceKeys.of(tokens)
    whole = [groups.whole(code) for code in range(start, start + len(tokens))]
    if int in types:
        return SourceKeys.of_encoded(whole)
    text = np.empty(len(whole), object)
    text[:] = whole
    return SourceKeys(np.zeros(len(whole), np.int64), text)
