"""The values of entries that have no lane, as words of eight bytes in one heap, and the keys of entries in columns.

Each value begins at a word, and zeros fill its last one. So values are compared and copied word by word, as columns.
The words of one entry are adjacent, in the order of its columns. A selection of entries shares the heap. Invariants:

- a value that has a lane, or is null, has no bytes. No other value has an empty encoding;
- no method changes its input columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import mix
from penstock.mapreduce import SourceKeys

__all__ = ["EntryKeys", "Texts", "flat_places", "row_sums"]

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Sizes = NDArray[np.int32]
_Words = NDArray[np.uint64]

_WORDS = 16  # words of two entries that are compared as columns; the others are compared entry by entry
_NULL = mix(np.zeros(1, np.uint64))[0]  # the hash of a null condition value, which has lane 0
_BYTES = (np.arange(8) < np.arange(9)[:, None]).view(np.uint64).ravel()
"""By a number of bytes: a mark for each of them in a word."""


def row_sums(rows: NDArray[Any]) -> Ints:
    """Return the sum of each row of a few columns. It is several times as fast as `sum` over such rows."""
    out = np.zeros(len(rows), np.int64)
    for column in rows.T:
        out += column
    return out


def flat_places(start: Ints, sizes: Ints) -> Ints:
    """Return the places of ranges that begin at `start` and have these sizes, one range after the other."""
    if start.size == 1:
        return np.arange(start[0], start[0] + sizes[0])
    ends = np.cumsum(sizes)
    places: Ints = np.arange(int(ends[-1]) if ends.size else 0) + np.repeat(start - ends + sizes, sizes)
    return places


@dataclass(slots=True)
class Texts:
    """The bytes of entries: the word where those of an entry begin, and the size of each value in bytes."""

    heap: _Words
    start: Ints
    sizes: Sizes  # a row for each entry, a column for each of its columns; 0 for a value with a lane

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return self.heap.nbytes + self.start.nbytes + self.sizes.nbytes

    @classmethod
    def none(cls, n: int, columns: int) -> Texts:
        """Return entries without such values."""
        return cls(np.zeros(0, np.uint64), np.zeros(n, np.int64), np.zeros((n, columns), np.int32))

    @classmethod
    def of_values(cls, values: Sequence[bytes]) -> Texts:
        """Return one column of bytes, empty for a value with a lane."""
        sizes = np.fromiter(map(len, values), np.int32, len(values))
        return cls.in_order(b"".join(values), sizes.reshape(-1, 1))

    @classmethod
    def of(cls, n: int, columns: Sequence[Texts | None]) -> Texts:
        """Join columns, each of one value, to entries. None is a column of lanes."""
        sizes = np.zeros((n, len(columns)), np.int32)
        for i, column in enumerate(columns):
            if column is not None:
                sizes[:, i] = column.sizes[:, 0]
        words = _words(sizes)
        each = row_sums(words)
        start = np.cumsum(each) - each
        heap = np.empty(int(each.sum()), np.uint64)
        at = start
        for i, column in enumerate(columns):
            if column is not None:
                heap[flat_places(at, words[:, i])] = column.heap[flat_places(column.start, words[:, i])]
                at = at + words[:, i]
        return cls(heap, start, sizes)

    @classmethod
    def in_order(cls, raw: bytes, sizes: Sizes) -> Texts:
        """Make them from the bytes of all values, in their order."""
        words = _words(sizes)
        each = row_sums(words)
        heap = np.zeros(8 * int(each.sum()), np.uint8)
        heap[_filled(sizes, words)] = np.frombuffer(raw, np.uint8)
        return cls(heap.view(np.uint64), np.cumsum(each) - each, sizes)

    def raw(self) -> bytes:
        """Return the bytes of all values, in their order."""
        own = self.packed()
        out: NDArray[np.uint8] = own.heap.view(np.uint8)[_filled(own.sizes, _words(own.sizes))]
        return out.tobytes()

    def take(self, at: NDArray[Any]) -> Texts:
        """Return those of the entries at these indexes."""
        return Texts(self.heap, self.start.take(at), self.sizes.take(at, axis=0))

    def slice(self, own: slice) -> Texts:
        """Return those of adjacent entries."""
        return Texts(self.heap, self.start[own], self.sizes[own])

    def packed(self) -> Texts:
        """Return them with a heap that has only their bytes, in their order."""
        each = row_sums(_words(self.sizes))
        start = np.cumsum(each) - each
        if bool((self.start == start).all()) and int(each.sum()) == self.heap.size:
            return self
        return Texts(self.heap[flat_places(self.start, each)], start, self.sizes)

    @staticmethod
    def join(parts: Sequence[Texts]) -> Texts:
        """Concatenate the parts. Bytes of other entries are left behind if they are the larger part of a heap."""
        parts = [part if 2 * int(_words(part.sizes).sum()) >= part.heap.size else part.packed() for part in parts]
        shifts = np.cumsum([0, *(part.heap.size for part in parts[:-1])]).tolist()
        return Texts(
            np.concatenate([part.heap for part in parts]),
            np.concatenate([part.start + shift for part, shift in zip(parts, shifts, strict=True)]),
            np.concatenate([part.sizes for part in parts]),
        )

    def first(self, columns: int) -> Texts:
        """Return those of the first columns only."""
        return Texts(self.heap, self.start, self.sizes[:, :columns])

    def column(self, i: int) -> list[bytes]:
        """Return the bytes of one column, empty for a value with a lane."""
        own = Texts(self.heap, self.start + row_sums(_words(self.sizes[:, :i])), self.sizes[:, i : i + 1])
        raw, sizes = own.raw(), self.sizes[:, i]
        ends = np.cumsum(sizes)
        return [raw[a:b] for a, b in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]

    def same(self, i: Ints, other: Texts, j: Ints, columns: int, among: Mask) -> Mask:
        """Mark the pairs of entries i and j of the other ones with equal bytes in their first columns.

        `among` marks the pairs that are of interest.
        """
        sizes = self.sizes[i, :columns]
        same = among.copy()
        for column, other_column in zip(sizes.T, other.sizes[j, :columns].T, strict=True):
            same &= column == other_column
        left = same.nonzero()[0]
        each = row_sums(_words(sizes[left]))
        a, b = self.start[i[left]], other.start[j[left]]
        for word in range(_WORDS):
            more = (each > word).nonzero()[0]
            if not more.size:
                return same
            equal = self.heap[a[more] + word] == other.heap[b[more] + word]
            same[left[more]] = equal
            more = more[equal]
            left, each, a, b = left[more], each[more], a[more], b[more]
        for pair, n, x, y in zip(left.tolist(), each.tolist(), a.tolist(), b.tolist(), strict=True):
            same[pair] = bool((self.heap[x : x + n] == other.heap[y : y + n]).all())
        return same


@dataclass(slots=True)
class EntryKeys:
    """Keys in columns. A batch converts them once, and takes them for the entries before and after."""

    lane: NDArray[np.int64]
    known: NDArray[np.uint64]  # their hashes
    texts: Texts | None

    @classmethod
    def of(cls, keys: SourceKeys | EntryKeys) -> EntryKeys:
        """Convert keys, if they are not converted yet."""
        if isinstance(keys, EntryKeys):
            return keys
        texts: Texts | None = None
        if keys.text is not None:
            values = [own or b"" for own in keys.text.tolist()]
            texts = Texts.of_values(values) if any(values) else None
        return cls(keys.lane, keys.hashes(), texts)

    def hashes(self) -> NDArray[np.uint64]:
        """Return the 64-bit hash of each key."""
        return self.known

    def take(self, at: NDArray[Any]) -> EntryKeys:
        """Return the keys at these indexes."""
        return EntryKeys(self.lane[at], self.known[at], None if self.texts is None else self.texts.take(at))

    @staticmethod
    def join(a: EntryKeys, b: EntryKeys) -> EntryKeys:
        """Concatenate keys."""
        texts: Texts | None = None
        if a.texts is not None or b.texts is not None:
            texts = Texts.join([own.texts or Texts.none(own.lane.size, 1) for own in (a, b)])
        return EntryKeys(np.concatenate([a.lane, b.lane]), np.concatenate([a.known, b.known]), texts)

    def without(self, null: NDArray[np.bool_]) -> EntryKeys:
        """Return the keys with null in some places: lane 0, and no bytes."""
        texts = self.texts
        if texts is not None:
            texts = Texts(texts.heap, texts.start, np.where(null[:, None], np.int32(0), texts.sizes))
        return EntryKeys(np.where(null, 0, self.lane), np.where(null, _NULL, self.known), texts)


def _words(sizes: Sizes) -> Ints:
    """Return the number of words of each value."""
    out: Ints = (sizes + np.int64(7)) >> 3
    return out


def _filled(sizes: Sizes, words: Ints) -> Mask:
    """Mark the bytes of a heap, in order, that belong to values of these sizes."""
    flat, each = sizes.ravel(), words.ravel()
    ends = np.cumsum(each)
    used = np.full(int(ends[-1]) if ends.size else 0, 8)
    own = each > 0
    used[ends[own] - 1] = flat[own] - 8 * (each[own] - 1)
    out: Mask = _BYTES.take(used).view(np.bool_)
    return out
