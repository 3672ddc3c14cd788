"""The rows that a transaction takes from a join of two sides, and the rows that it adds.

Each side parts its entries into K (before and after the transaction), M (only before) and P (only after):

    rows that go   = M_A⋈M_B + M_A⋈K_B + K_A⋈M_B
    rows that come = P_A⋈P_B + P_A⋈K_B + K_A⋈P_B

The old state is K + M, the new one K + P. K_A⋈K_B is in both, and cancels. Invariants:

- a row that goes is one of the old state, a row that comes is one of the new state. No other combination occurs;
- a row of unchanged entries occurs only if `limit` holds or releases its condition value;
- two counts of each condition value, before and after, decide about rows with a missing side. No count is stored;
- K is read only for condition values whose rows may change, in blocks. A large condition value is cut over blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from penstock.join.conditions import NULL_CODE, Conditions
from penstock.join.product import BLOCK, CodedEntries, product
from penstock.join.side_entries import Entries, Ints, Mask

__all__ = [
    "How",
    "JoinChange",
    "JoinedRows",
    "KeptEntries",
    "LimitedValue",
    "SideChange",
    "above_limit",
    "joined_changes",
]


class How(StrEnum):
    """The kind of a join: which rows it has beside pairs of matching documents."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


_PAIRS = frozenset({How.INNER, How.LEFT, How.FULL})


class KeptEntries(Protocol):
    """The entries of one side that exist before and after a transaction."""

    @property
    def width(self) -> int:
        """Return the number of fields of the projection."""
        ...

    def blocks(self, wanted: Conditions) -> Iterator[tuple[Ints, Entries]]:
        """Yield the entries with these condition values in blocks, with their indexes in `wanted`."""
        ...

    def counts(self, wanted: Conditions) -> Ints:
        """Return the number of entries with each of these condition values."""
        ...

    def most(self, wanted: Conditions) -> Ints:
        """Return an upper bound for each of `counts`, without reading entries."""
        ...


@dataclass(slots=True)
class SideChange:
    """The change of one side: M, P and K. M and P share no equal entry with an equal projection."""

    minus: Entries
    plus: Entries
    kept: KeptEntries
    unique: bool = False  # no condition value ever has two entries


@dataclass(slots=True)
class JoinedRows:
    """Rows that all go, or all come: row r joins entry i[r] of `left` and j[r] of `right`. -1 is a missing side."""

    plus: bool
    left: Entries
    i: Ints
    right: Entries
    j: Ints
    places: tuple[int, ...] = ()
    """If the left entries are rows of a prefix: by side, its place among the sides of the prefix and the right one."""

    def take(self, at: Ints | Mask) -> JoinedRows:
        """Return the rows at these indexes or under this mask."""
        return replace(self, i=self.i[at], j=self.j[at])


@dataclass(frozen=True, slots=True)
class LimitedValue:
    """A condition value above the limit before or after a transaction, with its matches on both sides after it."""

    value: bytes
    left: int
    right: int
    was_held: bool
    is_held: bool


class _KeptCodes:
    """The kept entries of some codes. If they fit one block, they are read once."""

    def __init__(self, kept: KeptEntries, conditions: Conditions, codes: Mask) -> None:
        self._kept, self._n = kept, len(conditions)
        self._codes = np.flatnonzero(codes)
        self._all = conditions
        self._wanted = conditions.take(self._codes)
        self._single: list[CodedEntries] | None = None if self._codes.size else []

    @property
    def width(self) -> int:
        """Return the number of fields of the projection."""
        return self._kept.width

    def blocks(self) -> Iterator[CodedEntries]:
        """Yield the entries in blocks."""
        if self._single is not None:
            yield from self._single
            return
        blocks = (CodedEntries(self._codes[index], entries) for index, entries in self._kept.blocks(self._wanted))
        first, n = list[CodedEntries](), 0
        for block in blocks:
            first.append(block)
            n += len(block)
            if n > BLOCK:
                break
        else:
            self._single = first = [CodedEntries.join(first)] if n else []
        yield from first
        yield from blocks

    def counts(self) -> Ints:
        """Return the number of entries by code; 0 for other codes than these."""
        if self._single is not None:
            return sum((block.counts(self._n) for block in self._single), np.zeros(self._n, np.int64))
        out = np.zeros(self._n, np.int64)
        out[self._codes] = self._kept.counts(self._wanted)
        return out

    def most(self) -> Ints:
        """Return an upper bound of the number of entries by code, for all codes."""
        return self._kept.most(self._all)

    def counts_of(self, codes: Ints) -> Ints:
        """Return the number of entries of these codes."""
        return self._kept.counts(self._all.take(codes))


class _CodedSide:
    """One side with codes: M and P, their counts, and K once it is known for which codes it is read."""

    def __init__(self, change: SideChange, codes: tuple[Ints, Ints], conditions: Conditions) -> None:
        n = len(conditions)
        self.minus, self.plus = CodedEntries(codes[0], change.minus), CodedEntries(codes[1], change.plus)
        self.less, self.more = self.minus.counts(n), self.plus.counts(n)
        self.changed: Mask = (self.less > 0) | (self.more > 0)
        self._change, self._conditions = change, conditions
        self.kept = _KeptCodes(change.kept, conditions, np.zeros(n, bool))

    def most(self) -> Ints:
        """Return an upper bound of the entries before and after, by code."""
        return self.kept.most() + np.maximum(self.less, self.more)

    def read(self, codes: Mask) -> None:
        """Read K for these codes."""
        self.kept = _KeptCodes(self._change.kept, self._conditions, codes)


class JoinChange:
    """The change of a join in one transaction."""

    def __init__(self, left: SideChange, right: SideChange, how: How, limit: int | None = None) -> None:
        parts = [left.minus, left.plus, right.minus, right.plus]
        self.conditions, (a, b, c, d) = Conditions.of(parts)
        self._n, self._how = len(self.conditions), how
        self._left = _CodedSide(left, (a, b), self.conditions)
        self._right = _CodedSide(right, (c, d), self.conditions)
        none = np.zeros(self._n, bool)
        self._over = none, none  # condition values above the limit, before and after
        self.limited: list[LimitedValue] = []
        if limit is not None and self._n and not (left.unique or right.unique):
            self._apply(limit)
        moved, shown = self._over[0] ^ self._over[1], ~(self._over[0] & self._over[1])
        # rows with a missing side need counts of the other side for every code
        self._left.read(shown if how is How.FULL else shown & (self._right.changed | moved))
        self._right.read(shown & (self._left.changed | moved) if how is How.INNER else shown)

    def _apply(self, limit: int) -> None:
        """Find the condition values above the limit. Only those that may be there are counted."""
        sides = self._left, self._right
        right = self._right.most()
        if bool((right < 2).all()):
            return  # a key side never has a condition value above the limit
        near = np.flatnonzero(above_limit([self._left.most(), right], limit))
        if not near.size:
            return
        kept = [side.kept.counts_of(near) for side in sides]
        before, after = (
            [own + changed[near] for own, changed in zip(kept, changes, strict=True)]
            for changes in ([side.less for side in sides], [side.more for side in sides])
        )
        over = np.zeros((2, self._n), bool)
        over[0, near], over[1, near] = above_limit(before, limit), above_limit(after, limit)
        self._over = over[0], over[1]
        for place, value in enumerate(self.conditions.take(near).encoded()):
            was, now = bool(over[0, near[place]]), bool(over[1, near[place]])
            if was or now:
                self.limited.append(LimitedValue(value, int(after[0][place]), int(after[1][place]), was, now))

    def rows(self) -> Iterator[JoinedRows]:
        """Yield the rows that go and come, in blocks."""
        if not len(self._left.minus) + len(self._left.plus) + len(self._right.minus) + len(self._right.plus):
            return
        if self._how in _PAIRS:
            yield from self._pairs()
        if self._how is not How.INNER:
            yield from self._alone(self._left, self._right, self._how is How.SEMI, first=True)
        if self._how is How.FULL:
            yield from self._alone(self._right, self._left, matched=False, first=False)

    def _changed(self, plus: bool) -> tuple[CodedEntries, CodedEntries]:
        """Return P of both sides with `plus`, else M, without condition values above the limit in that state."""
        a, b = (side.plus if plus else side.minus for side in (self._left, self._right))
        if self._over[plus].any():
            shown = np.append(~self._over[plus], True)
            a, b = a.only(shown), b.only(shown)
        return a, b

    def _pairs(self) -> Iterator[JoinedRows]:
        """Yield the pairs that go and come."""
        left, right = self._left.kept, self._right.kept
        states = [(plus, *self._changed(plus)) for plus in (False, True)]
        for plus, a, b in states:
            yield from self._product(plus, a, b)
        for kept in right.blocks() if any(len(a) for _, a, _ in states) else ():
            for plus, a, _ in states:
                yield from self._product(plus, a, kept)
        for kept in left.blocks() if any(len(b) for _, _, b in states) else ():
            for plus, _, b in states:
                yield from self._product(plus, kept, b)
        for plus in (False, True):
            moved = self._over[not plus] & ~self._over[plus]  # held in the other state: its kept rows go or come too
            if moved.any():
                own = np.append(moved, False)
                for kept in left.blocks():
                    for other in right.blocks():
                        yield from self._product(plus, kept.only(own), other.only(own))

    def _product(self, plus: bool, a: CodedEntries, b: CodedEntries) -> Iterator[JoinedRows]:
        for i, j in product(a, b, self._n, BLOCK):
            yield JoinedRows(plus, a.entries, i, b.entries, j)

    def _alone(self, side: _CodedSide, other: _CodedSide, matched: bool, first: bool) -> Iterator[JoinedRows]:
        """Yield the rows of one side alone: its entries without a match, or with one if `matched`."""
        kept = other.kept.counts()
        null = not matched
        old, new = (
            np.append(((kept + change > 0) == matched) & ~over, null)
            for change, over in zip((other.less, other.more), self._over, strict=True)
        )
        yield from self._single(False, side.minus.only(old), other.kept.width, first)
        yield from self._single(True, side.plus.only(new), other.kept.width, first)
        goes, comes = old & ~new, new & ~old
        if not goes.any() and not comes.any():
            return
        for block in side.kept.blocks():
            yield from self._single(False, block.only(goes), other.kept.width, first)
            yield from self._single(True, block.only(comes), other.kept.width, first)

    @staticmethod
    def _single(plus: bool, own: CodedEntries, width: int, first: bool) -> Iterator[JoinedRows]:
        if not len(own):
            return
        here, missing = np.arange(len(own)), np.full(len(own), NULL_CODE, np.int64)
        none = Entries.none(width)
        if first:
            yield JoinedRows(plus, own.entries, here, none, missing)
        else:
            yield JoinedRows(plus, none, missing, own.entries, here)


def above_limit(counts: Sequence[Ints], limit: int) -> Mask:
    """Mark the condition values with more rows than the limit. One match on a side is never too many."""
    left, right = counts
    above: Mask = (np.minimum(left, right) >= 2) & (left.astype(float) * right > limit)
    return above


def joined_changes(
    left: SideChange, right: SideChange, how: How = How.INNER, limit: int | None = None
) -> Iterator[JoinedRows]:
    """Yield the rows that a transaction takes from a join, and those that it adds."""
    return JoinChange(left, right, how, limit).rows()
