"""Compare the index with a dict: changes by bucket and by range, doublings in steps, and keys with equal hashes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.cache.errors import StoreDamaged
from penstock.cache.log.hash_index import (
    BUCKET,
    IndexEntries,
    bits_for,
    bucket_keys,
    look_up,
    merge,
    rewrite,
    rewrite_range,
)
from penstock.cache.store.memory_store import MemoryStore

Key = tuple[int, int]
Change = dict[Key, int | None]
DB = "index:1"
WORD = (1 << 64) - 1


def _entries(changes: Change) -> tuple[IndexEntries, NDArray[np.bool_]]:
    """Return changes as the index fold passes them: sorted by hash and rest, with the keys to drop."""
    keys = sorted(changes)
    rest = np.array([r for _, r in keys], np.uint32)
    entries = IndexEntries(
        np.array([h for h, _ in keys], np.uint64),
        rest if rest.any() else None,
        np.array([changes[k] or 0 for k in keys], np.uint32),
    )
    return entries, np.array([changes[k] is None for k in keys], bool)


def _listed(entries: IndexEntries) -> dict[Key, int]:
    rest = [0] * entries.hash.size if entries.rest is None else entries.rest.tolist()
    keys = list(zip(entries.hash.tolist(), rest, strict=True))
    assert keys == sorted(set(keys))
    return dict(zip(keys, entries.record.tolist(), strict=True))


def _laid_over(old: dict[Key, int], new: Change) -> dict[Key, int]:
    out: Change = {**old, **new}
    return {key: record for key, record in out.items() if record is not None}


@dataclass
class Table:
    """An index in a store, and the dict that it must equal."""

    bits: int
    store: MemoryStore = field(default_factory=MemoryStore)
    known: dict[Key, int] = field(default_factory=dict)

    def rewrite(self, changes: Change) -> None:
        entries, drop = _entries(changes)
        buckets = np.unique(entries.hash >> np.uint64(64 - self.bits))
        with self.store.write() as txn:
            rewrite(txn, DB, self.bits, buckets, entries, drop)
        self.known = _laid_over(self.known, changes)

    def double(self, changes: Change, step: int, check: Iterable[Key] = ()) -> None:
        """Double the index in steps, one transaction each, and look up all keys between them."""
        self.bits += 1
        for low in range(0, 1 << self.bits, step):
            high = min(low + step, 1 << self.bits)
            part: Change = {k: v for k, v in changes.items() if low <= k[0] >> (64 - self.bits) < high}
            entries, drop = _entries(part)
            with self.store.write() as txn:
                rewrite_range(txn, DB, self.bits, (low, high), entries, drop)
            self.known = _laid_over(self.known, part)
            self.check(check)

    def check(self, others: Iterable[Key] = ()) -> None:
        keys = list({**self.known, **dict.fromkeys(others, 0)})
        hashes = np.array([h for h, _ in keys], np.uint64)
        rest = np.array([r for _, r in keys], np.uint32)
        with self.store.read() as snap:
            found, records = look_up(snap, DB, self.bits, hashes, rest if rest.any() else None)
        got = {key: r for key, hit, r in zip(keys, found.tolist(), records.tolist(), strict=True) if hit}
        assert got == self.known


# Hashes that fall into few buckets, and a few rests: keys with equal hashes and different rests, or no rest.
HASHES = st.integers(0, WORD) | st.builds(lambda b, x: b << 58 | x, st.integers(0, 63), st.integers(0, 3))
RESTS = st.sampled_from([0, 0, 1, 5, 0xFFFFFFFF])
CHANGES = st.dictionaries(st.tuples(HASHES, RESTS), st.none() | st.integers(0, 0xFFFFFFFF), max_size=25)


@given(CHANGES, CHANGES)
def test_merge_replaces_earlier_entries(first: Change, second: Change) -> None:
    none = np.zeros(0, bool)
    old = (
        merge(IndexEntries.none(), *_entries(first)) if first else merge(IndexEntries.none(), IndexEntries.none(), none)
    )
    assert _listed(old) == _laid_over({}, first)
    before = _listed(old)
    again, drop = _entries(second)
    assert _listed(merge(old, again, drop)) == _laid_over(before, second)
    assert _listed(old) == before


@given(st.lists(CHANGES, max_size=5), st.lists(CHANGES, max_size=3), st.sampled_from([1, 3, 8, 1 << 9]))
def test_the_index_changes_like_a_dict(before: list[Change], doublings: list[Change], step: int) -> None:
    table = Table(4)
    for changes in before:
        table.rewrite(changes)
        table.check(k for c in before for k in c)
    for changes in doublings:
        table.double(changes, step, [*before[0]] if before else [])
        table.rewrite(dict.fromkeys(list(table.known)[::2]))
        table.check(changes)


@pytest.mark.parametrize("rests", [(1, 2), (0, 7), (9, 3)])
def test_keys_with_equal_hashes_stay_distinct(rests: tuple[int, int]) -> None:
    table, (one, other) = Table(4), rests
    shared = 0xABCD << 48
    table.rewrite({(shared, one): 10})
    table.check([(shared, other)])
    table.rewrite({(shared, other): 11, (shared + 1, 0): 12})
    table.check()
    table.double({(shared, one): 20}, 1, [(shared, 77)])
    table.rewrite({(shared, one): None})
    table.check([(shared, one), (shared, 77)])
    table.rewrite({(shared, other): None, (shared, one): 30})
    table.check()


def test_an_interrupted_doubling_starts_again() -> None:
    table, rng = Table(4), np.random.default_rng(1)
    old: Change = {(int(h), 0): i for i, h in enumerate(rng.integers(0, 1 << 64, 500, dtype=np.uint64))}
    table.rewrite(old)
    table.bits = 5
    with table.store.write() as txn:
        rewrite_range(txn, DB, 5, (0, 9), *_entries({}))
    table.check(), table.rewrite({})
    table.bits = 4
    table.double({next(iter(old)): None}, 7)
    assert table.bits == 5
    table.check(old)
    with table.store.read() as snap:
        assert snap.count(DB) == 32


def test_a_bucket_keeps_its_key_when_its_upper_half_leaves() -> None:
    low, high = bucket_keys(np.array([6, 7], np.uint64), 5)
    assert bucket_keys(np.array([3], np.uint64), 4) == [low]
    assert low < high < bucket_keys(np.array([4], np.uint64), 4)[0]


def test_the_last_bucket_has_an_end() -> None:
    table = Table(4)
    table.rewrite({(WORD, 0): 1, (0, 0): 2})
    table.double({(WORD - 1, 0): 3}, 5)
    table.check()


def test_an_emptied_bucket_has_no_row() -> None:
    table = Table(4)
    table.rewrite({(5, 0): 1, (WORD, 3): 2})
    table.rewrite({(5, 0): None, (WORD, 3): None})
    table.check([(5, 0)])
    with table.store.read() as snap:
        assert snap.count(DB) == 0


@pytest.mark.parametrize(("keys", "bits"), [(0, 4), (BUCKET * 15, 4), (BUCKET * 16, 5), (10_000_000, 14)])
def test_the_number_of_keys_sets_the_bits_of_a_bucket(keys: int, bits: int) -> None:
    assert bits_for(keys) == bits


def test_a_row_under_the_key_of_another_is_damage() -> None:
    table = Table(4)
    table.rewrite({(5, 0): 1})
    with table.store.write() as txn:
        (_, row), *_ = list(txn.scan(DB))
        txn.put_many(DB, [(b"\xf0\0\0\0", row)])
    with table.store.read() as snap, pytest.raises(StoreDamaged):
        look_up(snap, DB, 4, np.array([WORD], np.uint64), None)
