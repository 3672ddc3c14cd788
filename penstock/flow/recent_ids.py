"""The ids of a stream's recent records, so that a record that a producer sends again counts once.

An id is the pair of lanes of its key. Each batch writes its ids as one sorted row of the current slice of time, a
quarter of the retention. Slices that are over are deleted whole. A Bloom filter in memory recognizes most ids that are
new. Invariants:

- an id is known for the retention at least, and for a quarter more at most;
- a positive of the filter is looked up in the rows, so a false one changes nothing;
- the filter may know ids of a batch that failed. Rows are written in the transaction of their batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Lane, Reader, seal, unseal
from penstock.mapreduce import Writes

__all__ = ["RecentIds", "ids_db"]

Mask = NDArray[np.bool_]
Pairs = NDArray[Any]
_PAIR: Any = np.dtype([("a", "<u8"), ("b", "<u8")])
_SLICES = 4  # of the retention; one more is being filled
_MERGED = 16  # rows of one slice that become one
_BITS, _HASHES = 10, 7
_LEAST = 1 << 14  # ids of the smallest filter


def ids_db(stream: int) -> str:
    """Return the name of the database of a stream's ids."""
    return f"ids:{stream}"


class BloomFilter:
    """A set of pairs of lanes with false positives: about one in a hundred at its capacity."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self._size = np.uint64(capacity * _BITS | 1)
        self._bits = np.zeros(capacity * _BITS // 8 + 2, np.uint8)

    def add(self, pairs: Pairs) -> None:
        """Add pairs."""
        self.used += pairs.size
        for place in self._places(pairs):
            np.bitwise_or.at(self._bits, place >> np.uint64(3), np.uint8(1) << (place & np.uint64(7)).astype(np.uint8))

    def may_have(self, pairs: Pairs) -> Mask:
        """Mark the pairs that it may have."""
        out = np.ones(pairs.size, bool)
        for place in self._places(pairs):
            out &= (self._bits[place >> np.uint64(3)] >> (place & np.uint64(7)).astype(np.uint8)) & 1 == 1
        return out

    def _places(self, pairs: Pairs) -> list[NDArray[np.uint64]]:
        first, second = mixed(pairs["a"]), mixed(pairs["b"] ^ pairs["a"]) | np.uint64(1)
        return [(first + np.uint64(i) * second) % self._size for i in range(_HASHES)]


def mixed(lane: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a lane with its bits mixed, since ids that are ints are dense."""
    out: NDArray[np.uint64] = lane * np.uint64(0x9E3779B97F4A7C15)
    out = (out ^ (out >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return out ^ (out >> np.uint64(29))


class RecentIds:
    """The recent ids of one stream."""

    def __init__(self, stream: int, retention: int) -> None:
        self._db = ids_db(stream)
        self._quarter = max(retention // _SLICES, 1)
        self._filter = BloomFilter(_LEAST)
        self._rows: dict[int, list[int]] = {}  # by slice: the numbers of its rows
        self._number = 0

    def open(self, reader: Reader) -> None:
        """Read all rows into the filter."""
        rows = [(*_slice_of(key), unseal(key, row, self._db)) for key, row in reader.scan(self._db)]
        self._rows = {}
        for own, number, _ in rows:
            self._rows.setdefault(own, []).append(number)
            self._number = max(self._number, number + 1)
        pairs = [_pairs_of(row) for *_, row in rows]
        total = sum(part.size for part in pairs)
        self._filter = BloomFilter(max(_LEAST, 2 * total))
        for part in pairs:
            self._filter.add(part)

    def take(self, reader: Reader, k0: Lane, k1: Lane | None, now: int, writes: Writes) -> Mask:
        """Mark the ids that are new, of two equal ones the first, and note them in this transaction."""
        pairs: Pairs = np.zeros(k0.size, _PAIR)
        pairs["a"] = k0
        if k1 is not None:
            pairs["b"] = k1
        fresh = np.zeros(pairs.size, bool)
        fresh[np.unique(pairs, return_index=True)[1]] = True
        current = now // self._quarter
        maybe = (fresh & self._filter.may_have(pairs)).nonzero()[0]
        if maybe.size:
            fresh[maybe[self._stored(reader, pairs[maybe], current)]] = False
        self._note(reader, np.sort(pairs[fresh]), current, writes)
        return fresh

    def _stored(self, reader: Reader, pairs: Pairs, current: int) -> Mask:
        """Mark the pairs that a row of a slice within the retention has."""
        out = np.zeros(pairs.size, bool)
        for key, row in reader.scan(self._db, _key(max(current - _SLICES, 0), 0)):
            known = _pairs_of(unseal(key, row, self._db))
            out |= np.isin(pairs, known)
        return out

    def _note(self, reader: Reader, pairs: Pairs, current: int, writes: Writes) -> None:
        over = [own for own in self._rows if own < current - _SLICES]
        gone = [_key(own, number) for own in over for number in self._rows[own]]
        numbers = self._rows.get(current, [])
        if pairs.size and len(numbers) + 1 >= _MERGED:
            before = [(key, row) for key, row in reader.scan(self._db, _key(current, 0), _key(current + 1, 0))]
            parts = [_pairs_of(unseal(key, row, self._db)) for key, row in before]
            merged, numbers = np.sort(np.concatenate([*parts, pairs])), []
            gone += [key for key, _ in before]
        else:
            merged = pairs
        number, key = self._number, _key(current, self._number)
        if gone:
            writes.deletes.append((self._db, gone))
        if pairs.size:
            writes.puts.append((self._db, [(key, seal(key, merged.tobytes()))]))
        if self._filter.used + pairs.size > self._filter.capacity:
            self._widen(reader, pairs.size)
        self._filter.add(pairs)

        def follow() -> None:
            for own in over:
                del self._rows[own]
            if pairs.size:
                self._rows[current] = [*numbers, number]
                self._number = number + 1

        writes.after.append(follow)

    def _widen(self, reader: Reader, more: int) -> None:
        """Make the filter anew, with room for as many ids again."""
        parts = [_pairs_of(unseal(key, row, self._db)) for key, row in reader.scan(self._db)]
        self._filter = BloomFilter(max(_LEAST, 2 * (more + sum(part.size for part in parts))))
        for part in parts:
            self._filter.add(part)


def _key(own: int, number: int) -> bytes:
    return own.to_bytes(8, "big") + number.to_bytes(8, "big")


def _slice_of(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")


def _pairs_of(row: bytes) -> Pairs:
    """Return the ids of a row."""
    return np.frombuffer(row, _PAIR)
