"""A side index against a dict, over folds at any point, crashes, reopening and old snapshots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.cache import MemoryStore, open_lmdb
from penstock.join import Conditions, Entries, How, SideIndex
from penstock.mapreduce import Column, SourceKeys
from tests.join.join_histories import TIES, entries_of, history
from tests.join.side_index.index_histories import IndexedSide, fold_once, run_index, run_sparse, small_pages, stage


@pytest.mark.parametrize("seed", range(8))
def test_histories_equal_a_dict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch)
    run_index(seed)


@pytest.mark.parametrize("seed", range(2))
def test_histories_of_tied_positions_equal_a_dict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch)
    for edit in TIES:
        edit.plant(monkeypatch)
    run_index(seed)


def test_folds_of_a_few_pages_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch)
    run_sparse(1)


def test_a_history_on_disk_equals_a_dict(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch)
    store = open_lmdb(store_path)
    run_index(4, store)
    store.close()


@pytest.mark.parametrize("how", list(How))
def test_histories_over_side_indexes_equal_the_nested_loop(how: How, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch)
    faults = [fault for seed in range(8) if (fault := history(seed, how, IndexedSide)) is not None]
    assert faults == []


def test_pages_of_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A side of 40,000 entries has pages of 40 to 160, and one condition value is in many of them."""
    store, index = MemoryStore(), SideIndex(1, 1)
    values = np.where(np.arange(40_000) % 4 == 0, 8, np.arange(40_000))
    entries = Entries.of(SourceKeys(values, None), SourceKeys(np.arange(40_000), None), [Column(values % 10)])
    fold_once(store, index, Entries.none(1), entries)
    with store.read() as reader:
        sizes = [(len(row) - 8) // 24 for _, row in reader.scan("side:1")]
        assert sum(sizes) == 40_000
        assert 40 <= min(sizes) <= max(sizes) <= 160
        wanted, _ = Conditions.of([entries.take(np.array([0, 5]))])
        assert sorted(index.counts(reader, wanted).tolist()) == [1, 10_000]
    gone = entries.take(np.arange(0, 40_000, 2))
    fold_once(store, index, gone, Entries.none(1))
    fold_once(store, index, entries.take(np.arange(1, 39_999, 2)), Entries.none(1))
    with store.read() as reader:
        assert [len(block) for block in index.all(reader)] == [1]
        assert reader.count("side:1") == 1


def test_long_values_and_plain_pages_beside_others() -> None:
    store, index = MemoryStore(), SideIndex(1, 1)
    ints = {key: (key % 1000, key) for key in range(3000)}
    others = {f"k{key}": (str(key % 7), "x" * 9) for key in range(10)}
    others |= {"long": ("a" * 300, "y" * 70_000), "number": (0.5, 1.5)}
    fold_once(store, index, Entries.none(1), entries_of(ints))
    fold_once(store, index, Entries.none(1), entries_of(others))
    entries = entries_of(ints | others)
    with store.read() as reader:
        found = [entry for block in SideIndex(1, 1).all(reader) for entry in block.listed()]
        assert sorted(found, key=repr) == sorted(entries.listed(), key=repr)
        assert {row[0] for _, row in reader.scan("side:1")} == {0, 1, 2}


def test_a_log_is_folded_when_it_is_large_or_memory_is_short() -> None:
    store, index = MemoryStore(), SideIndex(1, 0)
    n = 1 << 16
    for part in range(2):
        assert not index.due
        keys = SourceKeys(np.arange(part * n, (part + 1) * n), None)
        stage(store, index, Entries.none(0), Entries.of(keys, keys))
    assert index.due
    while steps := index.fold_steps():
        with store.write() as writer:
            done = index.fold_step(writer, steps)
        done()
    assert not index.due
    one = SourceKeys(np.array([1]), None)
    index.budget = 0
    stage(store, index, Entries.none(0), Entries.of(one, one))
    assert index.due
