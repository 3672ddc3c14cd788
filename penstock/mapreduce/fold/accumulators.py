"""The accumulators of a view's groups in memory: counts, lanes and spills by group code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.views import GroupTotals

Ints = NDArray[np.int64]


class Accumulators:
    """The accumulators of a view's groups in memory, by group code.

    `rows` has one column per group: n, then the lanes of each cell. `n` and `lanes` are parts of it.
    """

    __slots__ = ("_cells", "complete", "have", "held", "lanes", "n", "rows", "spills")

    def __init__(self, lanes: Sequence[int], complete: bool) -> None:
        self._cells = tuple(lanes)
        self._take(np.zeros((1 + sum(lanes), 256), np.int64))
        self.have: NDArray[np.bool_] = np.zeros(256, bool)
        self.spills: list[dict[int, list[Any]]] = [{} for _ in lanes]
        self.held: dict[int, list[Any]] = {}
        self.complete = complete

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        spilt = sum(len(s) for s in self.spills)
        return self.rows.nbytes + self.have.nbytes + 400 * (spilt + len(self.held))

    def reach(self, size: int) -> None:
        """Allocate space for this number of groups."""
        if size <= self.n.size:
            return
        size = max(size, 2 * self.n.size)
        self._take(_grown(self.rows, size))
        self.have = _grown(self.have, size)

    def _take(self, rows: Ints) -> None:
        self.rows = rows
        self.n: Ints = rows[0]
        ends = list(accumulate(self._cells, initial=1))
        self.lanes: list[Ints] = [rows[a:b] for a, b in pairwise(ends)]

    def totals(self, cell: int, codes: NDArray[np.int64]) -> GroupTotals:
        """Return the totals of one cell for these groups."""
        spills = self.spills[cell]
        spill: dict[int, list[Any]] = {}
        if spills:
            spill = {i: spills[c] for i, c in enumerate(codes.tolist()) if c in spills}
        return GroupTotals(self.lanes[cell][:, codes], spill)


def _grown(a: NDArray[Any], size: int) -> NDArray[Any]:
    out = np.zeros((*a.shape[:-1], size), a.dtype)
    out[..., : a.shape[-1]] = a
    return out
