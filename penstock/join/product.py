"""Pairs of entries with equal condition values, in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.join.side_entries import Entries, Ints, Mask

__all__ = ["BLOCK", "CodedEntries", "product"]

BLOCK = 1 << 16
"""Most pairs, and most kept entries, that are in memory together."""


@dataclass(slots=True)
class CodedEntries:
    """Entries with the codes of their condition values; a code below 0 matches nothing."""

    code: Ints
    entries: Entries
    _sorted: tuple[Ints, Ints, Ints] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return int(self.code.size)

    def take(self, index: Ints | Mask) -> CodedEntries:
        """Return the entries at these indexes or under this mask."""
        return CodedEntries(self.code[index], self.entries.take(index))

    @staticmethod
    def join(parts: Sequence[CodedEntries]) -> CodedEntries:
        """Concatenate the parts."""
        if len(parts) == 1:
            return parts[0]
        return CodedEntries(np.concatenate([p.code for p in parts]), Entries.join([p.entries for p in parts]))

    def only(self, codes: Mask) -> CodedEntries:
        """Return the entries whose codes are marked. The last mark is that of a null condition value."""
        own = codes[self.code]
        return self if own.all() else self.take(own)

    def counts(self, n: int) -> Ints:
        """Return the number of entries by code."""
        code = self.code
        return np.bincount(code if not code.size or code.min() >= 0 else code[code >= 0], minlength=n)

    def by_code(self, n: int) -> tuple[Ints, Ints, Ints]:
        """Return the indexes sorted by code, the first of them for each code, and the number for each code."""
        if self._sorted is None:
            counts = self.counts(n)
            order = np.argsort(self.code, kind="stable")[len(self) - int(counts.sum()) :]
            self._sorted = order, np.cumsum(counts) - counts, counts
        return self._sorted


def product(a: CodedEntries, b: CodedEntries, n: int, block: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield the indexes in a and in b of all pairs with equal codes below n, at most `block` pairs at a time."""
    if not len(a) or not len(b):
        return
    order, start, counts = b.by_code(n)
    own = np.flatnonzero(a.code >= 0)
    code = a.code[own]
    times = counts[code]
    ends = np.cumsum(times)
    total = int(ends[-1]) if ends.size else 0
    for low in range(0, total, block):
        high = min(low + block, total)
        first, last = (int(x) for x in np.searchsorted(ends, (low, high - 1), "right"))
        begins = ends[first : last + 1] - times[first : last + 1]
        many = np.minimum(ends[first : last + 1], high) - np.maximum(begins, low)
        within = np.arange(low, high) - np.repeat(begins, many)
        i = np.repeat(own[first : last + 1], many)
        yield i, order[np.repeat(start[code[first : last + 1]], many) + within]
