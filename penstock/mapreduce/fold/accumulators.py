"""The accumulators of a view's groups in memory: counts, lanes and spills by group code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.views import GroupTotals

Ints = NDArray[np.int64]


class Accumulators:
    """The accumulators of a view's groups in memory, by group code."""

    __slots__ = ("complete", "have", "held", "lanes", "n", "spills")

    def __init__(self, lanes: Sequence[int], complete: bool) -> None:
        self.n: Ints = np.zeros(256, np.int64)
        self.have: NDArray[np.bool_] = np.zeros(256, bool)
        self.lanes: list[Ints] = [np.zeros((k, 256), np.int64) for k in lanes]
        self.spills: list[dict[int, list[Any]]] = [{} for _ in lanes]
        self.held: dict[int, list[Any]] = {}
        self.complete = complete

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        spilt = sum(len(s) for s in self.spills)
        return self.n.nbytes + self.have.nbytes + sum(a.nbytes for a in self.lanes) + 400 * (spilt + len(self.held))

    def reach(self, size: int) -> None:
        """Allocate space for this number of groups."""
        if size <= self.n.size:
            return
        size = max(size, 2 * self.n.size)
        self.n = _grown(self.n, size)
        self.have = _grown(self.have, size)
        self.lanes = [_grown(a, size) for a in self.lanes]

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
