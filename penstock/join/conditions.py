"""The condition values of a batch as dense codes.

Both sides of a join use the codes of one `Conditions`, so equal codes mean a match. A null condition value has no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.join.side_entries import UPPER, VALUE, Entries, Ints, Mask, Positions, first_positions
from penstock.mapreduce import Codes, Groups, SourceKeys

__all__ = ["NULL_CODE", "ConditionKeys", "Conditions"]

NULL_CODE = -1
"""The code of a null condition value."""


@dataclass(slots=True)
class Conditions:
    """Distinct condition values, sorted by the position where their entries begin."""

    keys: SourceKeys
    low: Positions

    def __len__(self) -> int:
        return int(self.low.size)

    @property
    def high(self) -> Positions:
        """Return the last position that each value may have."""
        return self.low | ~UPPER

    def take(self, index: NDArray[Any]) -> Conditions:
        """Return the values at these indexes, which ascend, or under this mask."""
        text = None if self.keys.text is None else self.keys.text[index]
        return Conditions(SourceKeys(self.keys.lane[index], text), self.low[index])

    @staticmethod
    def of(parts: Sequence[Entries]) -> tuple[Conditions, list[Ints]]:
        """Return the distinct condition values of these entries, and the codes of each part."""
        if all(part.objs is None for part in parts):
            keys, inverse = _distinct_ints(parts)
        else:
            keys, inverse = _distinct_mixed(parts)
        low = first_positions(keys)
        order = np.argsort(low, kind="stable")
        place = np.empty(order.size + 1, np.int64)
        place[order] = np.arange(order.size)
        place[-1] = NULL_CODE  # the index of a null
        codes = place[inverse]
        cuts = np.cumsum([len(part) for part in parts])[:-1]
        return Conditions(keys, low).take(order), list(np.split(codes, cuts))

    def find(self, entries: Entries) -> Ints:
        """Return the code of each entry's condition value, or NULL_CODE if it is none of these."""
        out = np.full(len(entries), NULL_CODE, np.int64)
        if not len(self):
            return out
        start = entries.at & UPPER
        left = np.arange(len(entries))
        if (null := entries.null()) is not None:
            left = np.flatnonzero(~null)
        place = np.searchsorted(self.low, start[left])
        while left.size:
            inside = place < len(self)
            left, place = left[inside], place[inside]
            inside = self.low[place] == start[left]
            left, place = left[inside], place[inside]
            same = self._same(entries, left, place)
            out[left[same]] = place[same]
            left, place = left[~same], place[~same] + 1  # another value has this position too
        return out

    def _same(self, entries: Entries, index: Ints, code: Ints) -> Mask:
        same: Mask = entries.lanes[index, VALUE] == self.keys.lane[code]
        if entries.objs is None and self.keys.text is None:
            return same
        none = np.full(index.size, None, object)
        left = none if entries.objs is None else entries.objs[index, VALUE]
        right = none if self.keys.text is None else self.keys.text[code]
        same &= (left == right).astype(bool)
        return same


def _distinct_ints(parts: Sequence[Entries]) -> tuple[SourceKeys, Ints]:
    lanes = np.concatenate([part.lanes[:, VALUE] for part in parts])
    nulls = [part.null() for part in parts]
    if all(null is None for null in nulls):
        distinct, inverse = np.unique(lanes, return_inverse=True)
        return SourceKeys(distinct, None), inverse.ravel()
    null = np.concatenate([np.zeros(len(p), bool) if m is None else m for p, m in zip(parts, nulls, strict=True)])
    out = np.full(lanes.size, NULL_CODE, np.int64)
    distinct, inverse = np.unique(lanes[~null], return_inverse=True)
    out[~null] = inverse.ravel()
    return SourceKeys(distinct, None), out


def _distinct_mixed(parts: Sequence[Entries]) -> tuple[SourceKeys, Ints]:
    known: dict[int | bytes, int] = {}
    codes: list[int] = []
    for part in parts:
        own = part.values()
        texts = [None] * len(part) if own.text is None else own.text.tolist()
        null = part.null()
        nulls = [False] * len(part) if null is None else null.tolist()
        for lane, text, absent in zip(own.lane.tolist(), texts, nulls, strict=True):
            codes.append(NULL_CODE if absent else known.setdefault(lane if text is None else text, len(known)))
    lanes = np.array([0 if isinstance(value, bytes) else value for value in known], np.int64)
    texts_of = np.empty(len(known), object)
    texts_of[:] = [value if isinstance(value, bytes) else None for value in known]
    return SourceKeys(lanes, texts_of), np.array(codes, np.int64)


class ConditionKeys:
    """The groups of a decoder as condition values, converted once per group."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._keys = SourceKeys(np.zeros(0, np.int64), None)

    def of(self, codes: Codes) -> SourceKeys:
        """Return the condition values of these group codes."""
        known, size = int(self._keys.lane.size), self._groups.size
        if known < size:
            fresh = SourceKeys.of_encoded([self._groups.whole(code) for code in range(known, size)])
            if all(text is None for text in (() if fresh.text is None else fresh.text.tolist())):
                fresh = SourceKeys(fresh.lane, None)
            self._keys = SourceKeys.join([self._keys, fresh])
        text = None if self._keys.text is None else self._keys.text[codes]
        return SourceKeys(self._keys.lane[codes], text)
