"""Changes of entries as sorted runs: entries that were put or removed, each once per run, sorted by position.

A later run wins over an earlier one, and a removal counts as an entry. Each run has at least twice the entries of the
next, so an entry is merged a logarithmic number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.join.side_entries import (
    Entries,
    Ints,
    Mask,
    Positions,
    in_order,
    places_within,
    same_entries,
    same_projections,
)

__all__ = ["EntryChanges", "SortedRuns", "changed_entries"]


@dataclass(slots=True)
class EntryChanges:
    """Entries that are put, or removed where `gone` is set. They are sorted and distinct."""

    entries: Entries
    gone: Mask

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return self.entries.nbytes + self.gone.nbytes

    @classmethod
    def none(cls, width: int) -> EntryChanges:
        """Return no changes."""
        return cls(Entries.none(width), np.zeros(0, bool))

    @classmethod
    def of(cls, minus: Entries, plus: Entries) -> EntryChanges:
        """Return the changes of a transaction: it removes `minus` and puts `plus`."""
        removed = cls(minus, np.ones(len(minus), bool))
        return cls.last_of([removed, cls(plus, np.zeros(len(plus), bool))])

    @classmethod
    def last_of(cls, parts: Sequence[EntryChanges]) -> EntryChanges:
        """Return the last change of each entry."""
        parts = [part for part in parts if len(part)] or parts[:1]
        entries = Entries.join([part.entries for part in parts])
        gone = np.concatenate([part.gone for part in parts])
        order = in_order(entries)
        if order is None:
            return cls(entries, gone)
        stays = _last_of_each(entries, order)
        order = order[stays] if stays is not None else order
        return cls(entries.take(order), gone[order])

    def put(self) -> Entries:
        """Return the entries that are put."""
        return self.entries.take(~self.gone) if self.gone.any() else self.entries

    def over(self, old: Entries) -> Entries:
        """Return sorted entries with these changes applied."""
        if not len(old):
            return self.put()
        place = np.searchsorted(old.at, self.entries.at)
        inside = np.minimum(place, len(old) - 1)
        hit = np.flatnonzero(old.at[inside] == self.entries.at)
        ties = _has_ties(old.at) or _has_ties(self.entries.at)
        if ties or not same_entries(self.entries, hit, old, inside[hit]).all():
            return EntryChanges.last_of([EntryChanges(old, np.zeros(len(old), bool)), self]).put()
        keep = np.ones(len(old), bool)
        keep[inside[hit]] = False
        kept, come = np.flatnonzero(keep), np.flatnonzero(~self.gone)
        where = np.searchsorted(kept, place[come]) + np.arange(come.size)
        order = np.empty(kept.size + come.size, np.int64)
        stays = np.ones(order.size, bool)
        stays[where] = False
        order[where], order[stays] = come + len(old), kept
        return Entries.join([old, self.entries]).take(order)

    def slice(self, start: int, stop: int) -> EntryChanges:
        """Return the changes from start to stop, without a copy."""
        return EntryChanges(self.entries.slice(start, stop), self.gone[start:stop])

    def within(self, low: Positions, high: Positions) -> EntryChanges:
        """Return the changes in these disjoint ranges of positions, which ascend. Both ends belong to a range."""
        index = places_within(self.entries.at, low, high)
        return EntryChanges(self.entries.take(index), self.gone[index])

    def find(self, entries: Entries) -> Ints:
        """Return the index of the change of each of these entries, or -1."""
        out = np.full(len(entries), -1, np.int64)
        if not len(self) or not len(entries):
            return out
        at = self.entries.at
        left, place = np.arange(len(entries)), np.searchsorted(at, entries.at)
        while left.size:
            inside = place < at.size
            left, place = left[inside], place[inside]
            inside = at[place] == entries.at[left]
            left, place = left[inside], place[inside]
            same = same_entries(entries, left, self.entries, place)
            out[left[same]] = place[same]
            left, place = left[~same], place[~same] + 1  # another entry has this position too
        return out


def _has_ties(at: Positions) -> bool:
    return bool((at[1:] == at[:-1]).any())


def _last_of_each(entries: Entries, order: Ints) -> Mask | None:
    """Mark the last of equal entries, which are adjacent in this order; None if all are distinct."""
    at = entries.at[order]
    tie = np.flatnonzero(at[1:] == at[:-1])
    if not tie.size:
        return None
    stays = np.ones(order.size, bool)
    stays[tie] = ~same_entries(entries, order[tie], entries, order[tie + 1])
    return stays


class SortedRuns:
    """The changes of a log in memory."""

    def __init__(self, runs: Sequence[EntryChanges] = ()) -> None:
        self._runs = list(runs)

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return sum(run.nbytes for run in self._runs)

    def add(self, run: EntryChanges) -> None:
        """Add the changes of one transaction, and merge runs that are of similar size."""
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            last = self._runs.pop()
            self._runs.append(EntryChanges.last_of([self._runs.pop(), last]))

    def merged(self, width: int) -> EntryChanges:
        """Return all changes as one run."""
        return EntryChanges.last_of(self._runs) if self._runs else EntryChanges.none(width)

    def most(self, low: Positions, high: Positions) -> Ints:
        """Return the number of changes in each of these ranges."""
        out = np.zeros(low.size, np.int64)
        for run in self._runs:
            out += np.searchsorted(run.entries.at, high, "right") - np.searchsorted(run.entries.at, low)
        return out

    def within(self, low: Positions, high: Positions) -> list[EntryChanges]:
        """Return the changes in these ranges, run by run, the oldest first."""
        return [run.within(low, high) for run in self._runs]


def changed_entries(minus: Entries, plus: Entries) -> tuple[Entries, Entries]:
    """Return M and P, sorted, without the entries that are equal in both, projection included."""
    minus, plus = minus.sorted(), plus.sorted()
    if not len(minus) or not len(plus):
        return minus, plus
    both = Entries.join([minus, plus])
    order = in_order(both)
    if order is None:
        return minus, plus
    tie = np.flatnonzero(both.at[order[1:]] == both.at[order[:-1]])
    first, second = order[tie], order[tie + 1]
    equal = same_entries(both, first, both, second)
    first, second = first[equal], second[equal]
    same = same_projections(both, first, second)
    stays = np.ones(len(both), bool)
    stays[first[same]] = stays[second[same]] = False
    n = len(minus)
    return minus.take(stays[:n]), plus.take(stays[n:])
