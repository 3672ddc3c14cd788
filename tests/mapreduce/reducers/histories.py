"""Histories of values that are added and retracted in random batches, and the totals that a cell computes.

Every oracle test of a cell uses them. It draws values of every kind, and a history of additions and retractions in any
order and batching. The totals after it are compared, as bytes, with totals of the remaining values computed at once.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from penstock.cache import pack
from penstock.mapreduce.columns.column import Column
from penstock.views import Cell, GroupTotals, State

EDGES = [
    0,
    1,
    -1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 53) + 1,
    (1 << 62) - 1,
    (1 << 63) - 1,
    -(1 << 63),
    -(1 << 62),
]
BEYOND = [1 << 63, -(1 << 63) - 1, 1 << 64, 10**30, -(10**30)]
FAR = [5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 1e16, 0.1, -0.0]

small_ints = st.integers(-1000, 1000)
ints = st.one_of(small_ints, st.sampled_from(EDGES), st.integers(-(1 << 63), (1 << 63) - 1))
all_ints = st.one_of(ints, st.sampled_from(BEYOND), st.integers(-(10**40), 10**40))
money = st.integers(-100_000, 100_000).map(lambda cents: cents / 100)
finite = st.one_of(money, st.sampled_from(FAR), st.floats(allow_nan=False, allow_infinity=False))
floats = st.one_of(finite, st.sampled_from([float("nan"), float("inf"), float("-inf")]))
decimals = st.one_of(
    st.decimals(-1000, 1000, places=2),
    st.builds(lambda m, e: Decimal(m).scaleb(e), st.integers(-(10**20), 10**20), st.integers(-40, 40)),
    st.sampled_from([Decimal("1E+6000"), Decimal("-1E+6000"), Decimal("1E-6000"), Decimal("0E+5"), Decimal("-0.00")]),
)
nulls = st.none()
columns_of = st.sampled_from(
    [
        small_ints,
        ints,
        all_ints,
        money,
        finite,
        floats,
        decimals,
        ints | nulls,
        finite | nulls,
        all_ints | decimals,
        ints | finite,
        st.one_of(all_ints, floats, decimals, nulls),
    ]
)
seeds = st.integers(0, 1 << 32).map(Random)


@dataclass
class Event:
    """One value that is added to a group or retracted from it."""

    group: int
    value: Any
    sign: int


@dataclass
class History:
    """Batches of events. A value is retracted only in or after the batch that added it."""

    batches: list[list[Event]]

    @property
    def left(self) -> list[tuple[int, Any]]:
        """Return the (group, value) pairs that were added and not retracted."""
        events = [e for batch in self.batches for e in batch]
        gone = Counter((e.group, key_of(e.value)) for e in events if e.sign < 0)
        out = []
        for e in events:
            key = (e.group, key_of(e.value))
            if e.sign > 0:
                if gone[key]:
                    gone[key] -= 1
                else:
                    out.append((e.group, e.value))
        return out


def key_of(value: Any) -> Any:
    """Return a hashable key that differs as the value's bytes do. All NaNs share one key."""
    if isinstance(value, float):
        return "float", "nan" if value != value else struct.pack(">d", value)
    return type(value).__name__, repr(value)


@st.composite
def histories(draw: st.DrawFn, values: st.SearchStrategy[Any], groups: int = 3, most: int = 40) -> History:
    """Draw a history over a few groups: some added values are retracted, in any order, with cuts anywhere."""
    drawn = draw(st.lists(st.tuples(st.integers(0, groups - 1), values, st.booleans()), max_size=most))
    random = draw(seeds)
    timed = []
    for g, v, goes in drawn:
        born = random.random()
        timed.append((born, Event(g, v, 1)))
        if goes:
            timed.append((born + (1.2 - born) * random.random(), Event(g, v, -1)))
    timed.sort(key=lambda pair: pair[0])
    events = [event for _, event in timed]
    batches = []
    while events:
        size = random.randint(1, len(events))
        batches.append(events[:size])
        events = events[size:]
    return History(batches)


def side_of(cell: Cell, events: Sequence[tuple[int, Any]], m: int) -> Any:
    """Return one side of a batch, from (local group, value) pairs."""
    loc = np.array([g for g, _ in events], np.int32)
    return cell.batch(loc, m, Column.of([v for _, v in events]))


def played(cell: Cell, history: History) -> dict[int, State]:
    """Return the states by group after a history. Each update gets only the groups that it changes."""
    states: dict[int, State] = {}
    for batch in history.batches:
        touched = list(dict.fromkeys(e.group for e in batch))
        local = {g: i for i, g in enumerate(touched)}
        m = len(touched)
        old = GroupTotals.none(cell.lanes, m)
        for g, i in local.items():
            if g in states:
                lanes, spill = states[g]
                old.lanes[:, i] = lanes
                if spill is not None:
                    old.spill[i] = spill
        before = packed(old, m)
        totals = cell.update(
            old,
            side_of(cell, [(local[e.group], e.value) for e in batch if e.sign > 0], m),
            side_of(cell, [(local[e.group], e.value) for e in batch if e.sign < 0], m),
        )
        assert packed(old, m) == before, "update changed what it was given"
        assert totals.lanes.shape == (cell.lanes, m)
        assert totals.lanes.dtype == np.int64
        for g, i in local.items():
            states[g] = totals.state(i)
    return states


def at_once(cell: Cell, values: Sequence[Any]) -> State:
    """Return the state of one group after these values came in a single batch."""
    none = side_of(cell, [], 1)
    return cell.update(GroupTotals.none(cell.lanes, 1), side_of(cell, [(0, v) for v in values], 1), none).state(0)


def packed(totals: GroupTotals, m: int) -> list[bytes]:
    """Return the states of all groups, as bytes."""
    return [packed_state(totals.state(g)) for g in range(m)]


def packed_state(state: State) -> bytes:
    """Return a state as bytes that are equal for equal states only."""
    lanes, spill = state
    return pack([list(lanes), spill])


def empty(cell: Cell) -> bytes:
    """Return the state without contributions, as bytes."""
    return packed_state(((0,) * cell.lanes, None))
