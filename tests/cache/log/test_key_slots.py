"""Compare the slots of keys with a dict: many calls, growth between them, one lane and two lanes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache.log.key_slots import Lane, SlotMap, Slots, key_hash, mix, mix_one

Key = tuple[int, int]
WORD = (1 << 64) - 1


class Oracle:
    """A SlotMap, and a dict with the same keys."""

    def __init__(self, capacity: int) -> None:
        self.map = SlotMap(capacity)
        self.known: dict[Key, int] = {}

    def _lanes(self, keys: list[Key]) -> tuple[Lane, Lane | None]:
        k0 = np.array([a for a, _ in keys], np.uint64)
        second = [b for _, b in keys]
        return k0, np.array(second, np.uint64) if any(second) else None

    def find(self, keys: list[Key]) -> None:
        assert self.map.find(*self._lanes(keys)).tolist() == [self.known.get(key, -1) for key in keys]

    def add(self, keys: list[Key]) -> None:
        slots = self.map.find_or_add(*self._lanes(keys)).tolist()
        for key, slot in zip(keys, slots, strict=True):
            assert self.known.setdefault(key, slot) == slot
        assert sorted(self.known.values()) == list(range(self.map.used))
        self.check(np.array(slots, np.int64), keys)

    def check(self, slots: Slots, keys: list[Key]) -> None:
        k0, k1 = self.map.lanes(slots)
        seconds = [0] * len(keys) if k1 is None else k1.tolist()
        assert list(zip(k0.tolist(), seconds, strict=True)) == keys


# First lanes that are close together, second lanes that are few or absent: keys that differ in one lane only.
KEYS = st.tuples(st.integers(0, 40) | st.integers(0, WORD), st.sampled_from([0, 0, 0, 1, 3, WORD]))
CALLS = st.lists(st.tuples(st.booleans(), st.lists(KEYS, min_size=1, max_size=30)), max_size=12)


@given(CALLS)
def test_slots_behave_like_a_dict(calls: list[tuple[bool, list[Key]]]) -> None:
    oracle = Oracle(512)
    for adds, keys in calls:
        (oracle.add if adds else oracle.find)(keys)
    if oracle.known:
        oracle.find(list(oracle.known))


@pytest.mark.parametrize("hashed", [0, 1, 2], ids=["ints", "hashes", "both"])
@pytest.mark.parametrize("step", [1, 5_000, 90_000], ids=["one", "some", "many"])
def test_growing_loses_no_key(hashed: int, step: int) -> None:
    total = 4_000 if step == 1 else 180_000
    rng = np.random.default_rng(step + hashed)
    k0 = rng.permutation(np.arange(total, dtype=np.uint64) * np.uint64(3))
    seconds = rng.integers(0, 1 << 63, total, dtype=np.uint64) << np.uint64(1) | np.uint64(1)
    k1: Lane | None = None if hashed == 0 else seconds if hashed == 1 else np.where(k0 % 2 == 0, seconds, 0)
    slots = SlotMap(total)
    for a in range(0, total, step):
        b = min(a + step, total)
        got = slots.find_or_add(k0[a:b], None if k1 is None else k1[a:b])
        assert np.unique(got).tolist() == list(range(a, b))
        probe = rng.integers(0, b, 50)
        seen = slots.find(k0[probe], None if k1 is None else k1[probe])
        back = slots.lanes(seen)
        assert np.array_equal(back[0], k0[probe])
    every = slots.find(k0, k1)
    assert np.array_equal(np.sort(every), np.arange(total))
    assert slots.find(k0 + np.uint64(1), k1).max() == -1


def test_a_first_lane_alone_is_no_key() -> None:
    slots = SlotMap(16)
    one = np.array([7], np.uint64)
    mine = slots.find_or_add(one, None)
    other = slots.find_or_add(one, np.array([9], np.uint64))
    assert mine.tolist() == [0]
    assert other.tolist() == [1]
    assert slots.find(one, None).tolist() == [0]
    assert slots.find(np.repeat(one, 20), None).tolist() == [0] * 20
    assert slots.find(np.repeat(one, 20), np.array([9, 11] * 10, np.uint64)).tolist() == [1, -1] * 10


def test_a_column_may_repeat_a_new_key() -> None:
    slots = SlotMap(8)
    assert slots.find_or_add(np.array([5, 6, 5, 6, 5], np.uint64), None).tolist() == [0, 1, 0, 1, 0]
    assert slots.used == 2


@given(st.integers(0, WORD), st.integers(0, WORD))
def test_one_key_hashes_as_a_column_does(a: int, b: int) -> None:
    lane0, lane1 = np.array([a], np.uint64), np.array([b], np.uint64)
    assert mix(lane0).item() == mix_one(a)
    assert key_hash(lane0, lane1).item() == mix_one(a ^ b)
    assert key_hash(lane0, np.zeros(1, np.uint64)).item() == key_hash(lane0, None).item()
    assert lane0.item() == a


def test_only_used_memory_is_counted() -> None:
    slots = SlotMap(1 << 20)
    before = slots.nbytes
    slots.find_or_add(np.arange(1_000, dtype=np.uint64), None)
    assert slots.nbytes - before == 8 * 1_000
