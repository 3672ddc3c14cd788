"""Change the totals of groups: the sums of a batch by group, which can be added to any totals of these groups.

A delta has the form of totals, but its counts may be negative. The cells compute it from zero and add it to totals. A
cell's state must be linear in its values, else the view has no deltas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.reducers.exact_group_sums import LANE_MIN
from penstock.mapreduce.reducers.sums import Moments, SpillLayout
from penstock.views import Accumulator, GroupTotals, State

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Delta:
    """The additional number of contributions and the totals of each cell, by group code."""

    codes: Ints
    n: Ints
    totals: list[GroupTotals]

    def take(self, at: Ints) -> Delta:
        """Return the delta of the groups at these places."""
        totals = [
            GroupTotals(t.lanes[:, at], {i: t.spill[g] for i, g in enumerate(at.tolist()) if g in t.spill})
            for t in self.totals
        ]
        return Delta(self.codes[at], self.n[at], totals)

    def data(self) -> list[Any]:
        """Return the delta as plain data, without the codes."""
        cells = [[t.lanes.astype("<i8").tobytes(), [[g, row] for g, row in t.spill.items()]] for t in self.totals]
        return [self.n.astype("<i8").tobytes(), cells]

    @classmethod
    def of_data(cls, codes: Ints, data: Sequence[Any]) -> Delta:
        """Restore the delta of these groups from its data."""
        n, cells = data
        totals = [
            GroupTotals(np.frombuffer(lanes, "<i8").reshape(-1, codes.size), dict(map(tuple, spill)))
            for lanes, spill in cells
        ]
        return cls(codes, np.frombuffer(n, "<i8"), totals)


def added(cell: Accumulator, totals: GroupTotals, delta: GroupTotals, at: Ints) -> GroupTotals:
    """Add a delta to the totals of the groups at these places. Each place occurs once."""
    lanes, spill = totals.lanes.copy(), dict(totals.spill)
    before = lanes[:, at]
    after = before + delta.lanes
    wraps = ((before ^ after) & (delta.lanes ^ after)) < 0
    lanes[:, at] = after
    odd = set(np.flatnonzero(wraps.any(axis=0)).tolist()) | delta.spill.keys()
    odd.update(i for i, place in enumerate(at.tolist()) if place in spill) if spill else None
    for i in odd:
        place = int(at[i])
        own, row = cell.merge(totals.state(place), delta.state(i))
        lanes[:, place] = own
        if row is None:
            spill.pop(place, None)
        else:
            spill[place] = row
    return GroupTotals(lanes, spill, dict(totals.errors))


def negated(cells: Sequence[Accumulator], delta: Delta) -> Delta:
    """Return the delta that undoes a delta of these cells."""
    totals: list[GroupTotals] = []
    for cell, own in zip(cells, delta.totals, strict=True):
        lanes, spill = -own.lanes, dict[int, list[Any]]()
        for i in own.spill.keys() | set(np.flatnonzero((own.lanes == LANE_MIN).any(axis=0)).tolist()):
            assert isinstance(cell, Moments), "counts are lanes alone"
            column, row = _negated(cell, own.state(i))
            lanes[:, i] = column
            if row is not None:
                spill[i] = row
        totals.append(GroupTotals(lanes, spill))
    return Delta(delta.codes, -delta.n, totals)


def _negated(cell: Moments, state: State) -> State:
    lanes, row = state
    layout = SpillLayout(cell.degree)
    exponents = {at + 2 + 2 * d for at in (0, layout.decimals) for d in range(cell.degree)}
    turned = [x if i in exponents else -x for i, x in enumerate(layout.wide(row))]
    own, left = layout.merged([-x for x in lanes], turned, None)
    return tuple(own), left
