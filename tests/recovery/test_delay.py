"""Contributions that wait until an early set is saved: their order, and several rows of one position."""

from __future__ import annotations

from penstock.cache import MemoryStore
from penstock.recovery import DELAYED, DelayedContributions, delay, delayed, drop_delayed, first_delayed


def test_rows_come_in_the_order_of_positions_and_those_of_one_position_are_joined() -> None:
    store = MemoryStore()
    with store.write() as writer:
        assert first_delayed(writer) is None
        delay(writer, 7, {2: [["a"]]})
        delay(writer, 7, {2: [["b"]], 0: [["c"]]})  # steps of a build have the same position
        delay(writer, 300, {0: [["d"]]})
    with store.read() as reader:
        assert first_delayed(reader) == 7
        early = [DelayedContributions(7, 0, [["c"]]), DelayedContributions(7, 2, [["a"], ["b"]])]
        assert list(delayed(reader, 6)) == []
        assert list(delayed(reader, 299)) == early
        assert list(delayed(reader)) == [*early, DelayedContributions(300, 0, [["d"]])]
    with store.write() as writer:
        drop_delayed(writer, early)
        assert (first_delayed(writer), writer.count(DELAYED)) == (300, 1)
