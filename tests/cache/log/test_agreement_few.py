"""Compare the code for a few keys and lines with the code for columns, and joined small segments with single ones."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache.log import key_slots
from penstock.cache.log import segment as segments
from penstock.cache.log.key_cache import KeyCache
from penstock.cache.log.key_slots import Lane, SlotMap
from penstock.cache.log.log_reader import KeyRun
from penstock.cache.log.segment import Segment, build_segment

words = st.sampled_from([0, 1, 2, 1 << 63, (1 << 64) - 1])
keys = st.tuples(words, st.sampled_from([0, 0, 1, 3]))
several = st.lists(keys, min_size=1, max_size=8)
lines = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=6)


def _lanes(several: list[tuple[int, int]]) -> tuple[Lane, Lane | None]:
    second = [b for _, b in several]
    return np.array([a for a, _ in several], np.uint64), np.array(second, np.uint64) if any(second) else None


@given(st.lists(several, max_size=12))
def test_a_few_keys_get_the_same_slots_as_a_column(calls: list[list[tuple[int, int]]]) -> None:
    one, other = SlotMap(1 << 12), SlotMap(1 << 12)
    for call in calls:
        few = one.find_or_add(*_lanes(call)).tolist()
        with patch.object(key_slots, "_FEW", 0):
            assert other.find_or_add(*_lanes(call)).tolist() == few
    assert one.used == other.used


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=16), st.data())
def test_a_small_segment_has_the_same_bytes_in_both_forms(raw: list[bytes], data: st.DataObject) -> None:
    k0 = np.arange(len(raw), dtype=np.uint64)
    segment = Segment.parse(7, build_segment(7, raw, k0, None, None), "log:1")
    at = np.array(data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=20)), np.int64)
    own = segment.lines(at)
    more = [*raw, *[b""] * segments.FEW]
    large = Segment.parse(7, build_segment(7, more, np.arange(len(more), dtype=np.uint64), None, None), "log:1")
    assert own == large.lines(at)


def _segments(parts: list[list[tuple[int, bool]]]) -> Iterator[Segment]:
    base = 3
    for part in parts:
        k0 = np.array([key for key, _ in part], np.uint64)
        gone = np.array([gone for _, gone in part]) if any(gone for _, gone in part) else None
        k1 = k0 | np.uint64(1) if len(part) % 2 else None
        raw = build_segment(base, [b"line"] * len(part), k0, k1, gone)
        yield Segment.parse(base, raw, "log:1")
        base += len(part)


def _known(cache: KeyCache) -> dict[tuple[int, int], tuple[int, int]]:
    used = cache.map.used
    k0, k1 = cache.map.lanes(np.arange(used))
    seconds = [0] * used if k1 is None else k1.tolist()
    said = zip(cache.record[:used].tolist(), cache.state[:used].tolist(), strict=True)
    return dict(zip(zip(k0.tolist(), seconds, strict=True), said, strict=True))


@given(st.lists(lines, min_size=1, max_size=5))
def test_joined_segments_overlay_like_single_ones(parts: list[list[tuple[int, bool]]]) -> None:
    each, together = KeyCache(1 << 8), KeyCache(1 << 8)
    for segment in _segments(parts):
        each.overlay(segment.k0, segment.k1, segment.base, segment.gone)
    run = KeyRun.of(list(_segments(parts)))
    together.overlay(run.k0, run.k1, run.base, run.gone)
    assert _known(each) == _known(together)
    assert sorted(each.take_dirty().tolist()) == sorted(together.take_dirty().tolist())
