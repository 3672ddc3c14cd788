"""Items of trees as columns: contributions by source, or children by prefix, for many nodes at once.

Items are sorted by (node, at, key, rank), where `at` is the hash of a source or the prefix of a child. Items that
compare equal are the same item: a merge replaces, removes and inserts whole columns at a time. Invariants:

- a key that is a 64-bit int is in `lane`. Any other key has its encoding in `text`, and 0 in its lane;
- `at` is computed from key and rank by `source_hash`, in the same way in every store;
- no method changes its input columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from penstock.cache import decode_key, encode_entry, encode_key, mix
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.hash_lanes import hash_lanes

Ints = NDArray[np.int64]
Codes64 = NDArray[np.uint64]
Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]
_RANK = np.uint64(0x9E3779B97F4A7C15)
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(slots=True)
class SourceKeys:
    """The keys of a batch's documents, which distinguish their contributions."""

    lane: Ints
    text: Texts | None
    known: Codes64 | None = None  # the hashes, if they are known already

    @classmethod
    def of(cls, keys: Sequence[Any]) -> SourceKeys:
        """Convert keys from Python values."""
        n = len(keys)
        if set(map(type, keys)) == {int}:
            try:
                return cls(np.fromiter(keys, np.int64, n), None)
            except OverflowError:
                pass
        return cls.of_encoded(list(map(encoded_key, keys)))

    @classmethod
    def of_encoded(cls, keys: Sequence[bytes]) -> SourceKeys:
        """Convert encoded keys."""
        lane = np.zeros(len(keys), np.int64)
        text: Texts = np.full(len(keys), None, object)
        for i, encoded in enumerate(keys):
            key = decode_key(encoded)
            if type(key) is int and _INT_MIN <= key <= _INT_MAX:
                lane[i] = key
            else:
                text[i] = encoded
        return cls(lane, text)

    @staticmethod
    def join(parts: Sequence[SourceKeys]) -> SourceKeys:
        """Concatenate the parts."""
        text: Texts | None = None
        if any(p.text is not None for p in parts):
            text = np.concatenate([np.full(p.lane.size, None, object) if p.text is None else p.text for p in parts])
        return SourceKeys(np.concatenate([p.lane for p in parts]), text)

    def take(self, index: NDArray[Any]) -> SourceKeys:
        """Return the keys at these indexes or under this mask."""
        return SourceKeys(self.lane[index], None if self.text is None else self.text[index])

    def lanes(self, seed: int) -> tuple[Codes64, Codes64 | None]:
        """Return the keys as the lanes by which a table finds its documents; `seed` is that of its hashes."""
        first = self.lane.view(np.uint64)
        own = [] if self.text is None else [i for i, text in enumerate(self.text.tolist()) if text is not None]
        if self.text is None or not own:
            return first, None
        first, second = first.copy(), np.zeros(first.size, np.uint64)
        first[own], second[own] = hash_lanes(self.text[own].tolist(), seed)
        return first, second

    def encoded(self) -> list[bytes]:
        """Return the encodings of the keys."""
        texts = [None] * int(self.lane.size) if self.text is None else self.text.tolist()
        return [encode_key(key) if text is None else text for key, text in zip(self.lane.tolist(), texts, strict=True)]

    def hashes(self) -> Codes64:
        """Return the 64-bit hash of each key: a bijection for ints, else the hash of the encoding."""
        if self.known is not None:
            return self.known
        out = mix(self.lane.view(np.uint64))
        if self.text is not None:
            texts = self.text.tolist()
            own = [i for i, text in enumerate(texts) if text is not None]
            out[own] = np.fromiter((xxhash.xxh3_64_intdigest(texts[i]) for i in own), np.uint64, len(own))
        return out


def encoded_key(key: Any) -> bytes:
    """Encode the key of a document or a row. That of a joined row is a tuple, which may be longer than a document's."""
    return encode_entry(key) if type(key) is tuple else encode_key(key)


def source_hash(hashes: Codes64, rank: Ints | None) -> Codes64:
    """Return the positions of sources in a tree, from key hashes and ranks. For rank 0 it is the hash."""
    if rank is None:
        return hashes
    with np.errstate(over="ignore"):
        moved = mix(hashes + rank.astype(np.uint64) * _RANK)
    return np.where(rank == 0, hashes, moved)


@dataclass(slots=True)
class Items:
    """Items of nodes 0, 1, 2 …"""

    node: Ints
    at: Codes64
    lane: Ints
    text: Texts | None
    rank: Ints | None
    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return int(self.node.size)

    @classmethod
    def none(cls, columns: int) -> Items:
        """Return no items, with this number of columns."""
        empty = np.zeros(0, np.int64)
        return cls(empty, np.zeros(0, np.uint64), empty, None, None, (Column(empty),) * columns)

    def take(self, index: NDArray[Any]) -> Items:
        """Return the items at these indexes or under this mask."""
        return Items(
            self.node[index],
            self.at[index],
            self.lane[index],
            None if self.text is None else self.text[index],
            None if self.rank is None else self.rank[index],
            tuple(c.take(index) for c in self.columns),
        )

    def moved(self, node: Ints) -> Items:
        """Return the items with other node numbers."""
        return Items(node, self.at, self.lane, self.text, self.rank, self.columns)

    @staticmethod
    def join(parts: Sequence[Items]) -> Items:
        """Concatenate the parts."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        text: Texts | None = None
        if any(p.text is not None for p in parts):
            text = np.concatenate([np.full(len(p), None, object) if p.text is None else p.text for p in parts])
        rank: Ints | None = None
        if any(p.rank is not None for p in parts):
            rank = np.concatenate([np.zeros(len(p), np.int64) if p.rank is None else p.rank for p in parts])
        return Items(
            np.concatenate([p.node for p in parts]),
            np.concatenate([p.at for p in parts]),
            np.concatenate([p.lane for p in parts]),
            text,
            rank,
            tuple(Column.join([p.columns[i] for p in parts]) for i in range(len(parts[0].columns))),
        )

    def by_node(self) -> Items:
        """Sort the items by node. The items of one node are already in order."""
        if self.node.size < 2 or bool((self.node[1:] >= self.node[:-1]).all()):
            return self
        return self.take(np.argsort(self.node, kind="stable"))

    def sources(self) -> list[tuple[bytes, int]]:
        """Return the encoded key and the rank of each item."""
        return listed_sources(self.lane, self.text, self.rank)


def listed_sources(lane: Ints, text: Texts | None, rank: Ints | None) -> list[tuple[bytes, int]]:
    """Return the encoded key and the rank of each source."""
    ranks = repeat(0) if rank is None else rank.tolist()
    texts = repeat(None) if text is None else text.tolist()
    own = zip(lane.tolist(), texts, ranks)
    return [(encode_key(key) if text is None else text, rank) for key, text, rank in own]


def positions(items: Items) -> Codes64:
    """Return the positions of these contributions in a tree."""
    return source_hash(SourceKeys(items.lane, items.text).hashes(), items.rank)


def ranked(items: Items, ranks: int, columns: int) -> Items:
    """Repeat items of rank 0 with the ranks below `ranks`, sorted, with columns of nulls."""
    n = len(items) * ranks
    who = np.repeat(np.arange(len(items)), ranks)
    rank = np.tile(np.arange(ranks), len(items))
    lane, text = items.lane[who], None if items.text is None else items.text[who]
    at = source_hash(SourceKeys(lane, text).hashes(), rank)
    none = Column.nulls(n)
    out = Items(items.node[who], at, lane, text, rank, (none,) * columns)
    return out.take(sort_order(out))


def of_named(items: Items, named: Items) -> Ints:
    """Return the indexes of items that share node and source key with a named one, at any rank. Meant for few items."""
    names = set(_names(named))
    return np.array([i for i, name in enumerate(_names(items)) if name in names], np.int64)


def _names(items: Items) -> Iterator[tuple[int, int, bytes | None]]:
    text = repeat(None) if items.text is None else items.text.tolist()
    return zip(items.node.tolist(), items.lane.tolist(), text)


def sort_order(items: Items) -> Ints:
    """Return the indexes that sort the items. Equal items keep their order."""
    if len(items) < 2:
        return np.arange(len(items))
    order = _packed_order(items.node, items.at)
    node, at = items.node[order], items.at[order]
    tied = (node[1:] == node[:-1]) & (at[1:] == at[:-1])
    if not tied.any() or bool(same_items(items, order[:-1][tied], items, order[1:][tied]).all()):
        return order
    tied = np.append(tied, False) | np.append(False, tied)
    places = order[tied]
    exact = list(zip(node[tied].tolist(), at[tied].tolist(), items.take(places).sources(), strict=True))
    order[tied] = places[sorted(range(places.size), key=exact.__getitem__)]
    return order


def _packed_order(node: Ints, at: Codes64) -> Ints:
    """Return the indexes that sort by node, then `at`. Equal rows keep their order.

    Node, `at` and index are packed into 64 bits and sorted as numbers. This is several times as fast as two stable
    sorts of indexes. If too few bits of `at` fit to separate all rows, the check below finds it, and two sorts decide.
    """
    n = int(node.size)
    if n < 2:
        return np.zeros(n, np.int64)
    low = np.uint64(n.bit_length())
    high = np.uint64(int(node.max()).bit_length())
    if low + high >= 64:
        return np.lexsort((at, node))
    packed = (at >> (high + low)) << low
    if high:
        packed |= node.astype(np.uint64) << (np.uint64(64) - high)
    packed |= np.arange(n, dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << low) - np.uint64(1))).astype(np.int64)
    group, place = node[order], at[order]
    less = (place[1:] < place[:-1]) & (group[1:] == group[:-1])
    return np.lexsort((at, node)) if bool(less.any()) else order


def same_items(a: Items, i: NDArray[Any], b: Items, j: NDArray[Any]) -> Mask:
    """Mark the pairs of items i of a and items j of b that have the same source."""
    same: Mask = (a.at[i] == b.at[j]) & (a.lane[i] == b.lane[j])
    if a.rank is not None or b.rank is not None:
        left = 0 if a.rank is None else a.rank[i]
        right = 0 if b.rank is None else b.rank[j]
        same &= np.equal(left, right)
    if a.text is not None or b.text is not None:
        none: list[Any] = [None] * int(same.size)
        left_text = none if a.text is None else a.text[i].tolist()
        right_text = none if b.text is None else b.text[j].tolist()
        same &= np.fromiter((x == y for x, y in zip(left_text, right_text)), bool, int(same.size))
    return same


def merge(old: Items, new: Items, gone: Mask, groups: tuple[Ints, Ints] | None = None) -> tuple[Items, Ints]:
    """Merge `new` into `old`; where `gone` is set, remove the item. Also return each new item's index in old, or -1.

    `groups` may give the groups of both. Items sorted by (node, at) must then be sorted by (group, at) too.
    """
    if not len(old):
        kept = ~gone
        return (new if kept.all() else new.take(kept)), np.full(len(new), -1, np.int64)
    found = _places(old, new, *(groups or (old.node, new.node)))
    if found is None:
        return _merge_exactly(old, new, gone)
    place, hit = found
    keep = np.ones(len(old), bool)
    keep[place[hit]] = False
    kept_old = keep.nonzero()[0]
    come = (~gone).nonzero()[0]
    where = np.searchsorted(kept_old, place[come]) + np.arange(come.size)
    order = np.empty(kept_old.size + come.size, np.int64)
    stays = np.ones(order.size, bool)
    stays[where] = False
    order[where] = come + len(old)
    order[stays] = kept_old
    was = np.where(hit, place, -1)
    return Items.join([old, new]).take(order), was


def _places(old: Items, new: Items, old_group: Ints, new_group: Ints) -> tuple[Ints, Mask] | None:
    """Return the insertion index of each new item in old, and a mask of matches, or None if 64 bits are too few."""
    if not len(new):
        return np.zeros(0, np.int64), np.zeros(0, bool)
    bits = np.uint64(max(1, int(max(old_group[-1], new_group[-1])).bit_length()))
    up = np.uint64(64) - bits
    old_at = (old_group.astype(np.uint64) << up) | (old.at >> bits)
    new_at = (new_group.astype(np.uint64) << up) | (new.at >> bits)
    if bool((old_at[1:] <= old_at[:-1]).any()) or bool((new_at[1:] <= new_at[:-1]).any()):
        return None
    place = np.searchsorted(old_at, new_at)
    inside = np.minimum(place, len(old) - 1)
    hit = (place < len(old)) & (old_at[inside] == new_at)
    at = hit.nonzero()[0]
    if not bool(same_items(old, place[at], new, at).all()):
        return None
    return place, hit


def _merge_exactly(old: Items, new: Items, gone: Mask) -> tuple[Items, Ints]:
    """Merge by Python's order of whole keys."""
    both = Items.join([old, new])
    exact = both.sources()
    size = len(old)
    listed = list(zip(both.node.tolist(), both.at.tolist(), exact, range(len(both))))
    listed.sort()
    order: list[int] = []
    was = np.full(len(new), -1, np.int64)
    for k, (node, at, source, i) in enumerate(listed):
        follows = k + 1 < len(listed) and listed[k + 1][:3] == (node, at, source)
        if i >= size and order and order[-1] < size and k and listed[k - 1][:3] == (node, at, source):
            was[i - size] = order.pop()
        if i >= size and gone[i - size]:
            continue
        assert i < size or not follows, "a source has one item in each of the two"
        order.append(i)
    return both.take(np.array(order, np.int64)), was
