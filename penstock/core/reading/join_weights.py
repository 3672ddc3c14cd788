"""Measure a join in one snapshot: the entries of its sides, their matches, and the condition values with most rows.

One pass reads all entries, and memory holds 8 bytes for each. A condition value is counted by its hash of 64 bits. So
two texts with one hash would count as one value here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, decode_key
from penstock.join import Entries, StoredJoin, side_dbs

__all__ = ["JoinWeight", "SideWeight", "weigh_join"]

_Hashes = NDArray[np.uint64]
_Parts = list[tuple[StoredJoin, Reader]]


@dataclass(frozen=True, slots=True)
class SideWeight:
    """One side: its entries with a condition value, those of them with a match, and the bytes of its index.

    A side without an index has 0 bytes: its documents are looked up by key. `average` and `greatest` are
    the matches of one entry on the other side. So many rows a change of it changes.
    """

    name: str
    entries: int
    matching: int
    bytes: int
    average: float
    greatest: int


@dataclass(frozen=True, slots=True)
class JoinWeight:
    """A join of two sides: its pairs of documents that match, and the condition values with most pairs.

    A value has the numbers of its documents on both sides.
    """

    sides: tuple[SideWeight, ...]
    values: int
    pairs: int
    largest: tuple[tuple[Any, int, int], ...]


def weigh_join(parts: Iterable[tuple[StoredJoin, Reader]], most: int) -> JoinWeight:
    """Measure a join in all partitions of a snapshot, with its `most` largest condition values."""
    own = list(parts)
    left, right = (np.unique(_hashes(own, place), return_counts=True) for place in (0, 1))
    shared, i, j = np.intersect1d(left[0], right[0], assume_unique=True, return_indices=True)
    counts = left[1][i], right[1][j]
    pairs = counts[0] * counts[1]
    total = int(pairs.sum())
    sides = []
    for place, (side, others) in enumerate(((left, counts[1]), (right, counts[0]))):
        n = int(side[1].sum())
        matching = int(counts[place].sum())
        greatest = int(others.max()) if others.size else 0
        name = own[0][0].sides[place].view.side
        sides.append(SideWeight(name, n, matching, _bytes(own, place), total / n if n else 0.0, greatest))
    top = np.argsort(-pairs, kind="stable")[:most]
    values = _values(own, shared[top])
    largest = tuple((values[int(shared[k])], int(counts[0][k]), int(counts[1][k])) for k in top.tolist())
    return JoinWeight(tuple(sides), int(shared.size), total, largest)


def _hashes(parts: _Parts, place: int) -> _Hashes:
    """Return the hash of the condition value of each entry of a side."""
    found = [np.zeros(0, np.uint64)]
    for join, reader in parts:
        found += [_matching(entries).values().hashes() for entries in join.sides[place].all(reader)]
    return np.concatenate(found)


def _matching(entries: Entries) -> Entries:
    """Return the entries with a condition value."""
    null = entries.null()
    return entries if null is None else entries.take(~null)


def _values(parts: _Parts, wanted: _Hashes) -> dict[int, Any]:
    """Return the condition values with these hashes."""
    out: dict[int, Any] = {}
    for join, reader in parts:
        for entries in join.sides[0].all(reader) if len(out) < wanted.size else ():
            values = _matching(entries).values()
            hashes = values.hashes()
            for at in np.flatnonzero(np.isin(hashes, wanted)).tolist():
                text = None if values.text is None else values.text[at]
                out[int(hashes[at])] = int(values.lane[at]) if text is None else decode_key(text)
    return out


def _bytes(parts: _Parts, place: int) -> int:
    """Return the bytes of the rows of a side's index."""
    total = 0
    for join, reader in parts:
        index = join.sides[place].index
        for db in () if index is None else side_dbs(index.number):
            total += sum(len(key) + len(row) for key, row in reader.scan(db))
    return total
