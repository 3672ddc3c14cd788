"""Lanes in the feed: they have the least width that holds them, and are read back by it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import MemoryStore, pack, seal
from penstock.mapreduce import FEED, FeedChanges, RowState, feed_key, feed_row, read_feed
from penstock.mapreduce.fold.feed_rows import FeedChange, packed_columns, packed_lanes
from penstock.mapreduce.fold.row_format import RowCodec
from tests.harness.planting import Edit

LEAST, MOST = -(1 << 63), (1 << 63) - 1
NEAR = {sign * (1 << bits) + more for bits in (7, 15, 31, 63) for sign in (1, -1) for more in (-1, 0, 1)}
EDGES = sorted(edge for edge in NEAR if LEAST <= edge <= MOST)
LANE = st.sampled_from(EDGES) | st.integers(-9, 9) | st.integers(LEAST, MOST)
CODEC = RowCodec([ps.sum("v")], None)  # n, the number of values, and their total
GROUPS = st.lists(st.lists(LANE, min_size=6, max_size=6), min_size=1, max_size=4)


def _state(side: list[int]) -> RowState | None:
    return RowState(side[0], side[1:]) if side[0] else None


def _states(rows: list[list[int]]) -> list[tuple[RowState | None, RowState | None]]:
    return [(_state(row[:3]), _state(row[3:])) for row in rows]


def _read(row: bytes) -> list[FeedChange]:
    store = MemoryStore()
    with store.write() as writer:
        writer.put_many(FEED, [(feed_key(1), row)])
    with store.read() as reader:
        return [change for _, change in read_feed(reader, 0, {7: CODEC})]


def run(rows: list[list[int]]) -> None:
    names = [b"\x05%d" % i for i in range(len(rows))]
    lanes, width = packed_lanes([lane for row in rows for lane in row])
    assert (lanes, width) == packed_columns(np.array(rows, np.int64).T)
    numbers = [number for row in rows for number in row]
    least = next(size for size in (1, 2, 4, 8) if all(-1 << 8 * size - 1 <= x < 1 << 8 * size - 1 for x in numbers))
    assert width == least
    row, changes, _ = feed_row(feed_key(1), [FeedChanges(7, names, lanes, [], width)], 0, 0)
    assert changes == len(rows)
    found = _read(row)
    assert [change.group for change in found] == names
    assert [(change.old, change.new) for change in found] == _states(rows)


@given(GROUPS)
def test_lanes_of_every_width_are_read_back(rows: list[list[int]]) -> None:
    run(rows)


@given(GROUPS)
def test_parts_without_a_width_have_ints_of_eight_bytes(rows: list[list[int]]) -> None:
    names, lanes = [b"\x05%d" % i for i in range(len(rows))], np.array(rows, "<i8").tobytes()
    found = _read(seal(feed_key(1), pack([0, 0, [[7, names, lanes, []]]])))
    assert [(change.old, change.new) for change in found] == _states(rows)


BUGS = {
    "the sign counts for no bit of the width": ("lane_width", "1 if size < 8 else", "1 if size < 9 else"),
    "lanes are read without their sign": ("_lanes_of", 'f"<i{part.width}"', 'f"<u{part.width}"'),
    "lanes are wider than they need to be": ("lane_width", "4 if size < 32", "4 if size < 31"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, good, bad = BUGS[bug]
    Edit(f"mapreduce.fold.feed_rows:{name}", good, bad).plant(monkeypatch)
    with pytest.raises((AssertionError, struct.error)):
        _search()


def test_no_bug_is_found_where_none_was_planted() -> None:
    _search()


def _search() -> None:
    for edge in EDGES:
        run([[1, 1, edge, 1, 1, 2]])
