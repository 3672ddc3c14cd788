"""Results of groups that don't fit in memory, recomputed from contributions that arrive in parts.

It agrees with `plain_reducers`, for reducers that need only bounded state: counts, exact sums and sums of squares,
bins, the first few values in some order. It supports no reducer that must see all values at once. It shares no code
with the reducers of the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

from penstock.recovery.oracle.plain_reducers import (
    Described,
    ReducerInput,
    by_value,
    result_of,
    rounded,
    square_root,
    to_sum,
)
from penstock.recovery.oracle.plain_values import rank

__all__ = ["LargeGroup", "Numbers", "large"]


class LargeGroup(Protocol):
    """A fold of one large group, part by part."""

    def add(self, given: Sequence[ReducerInput]) -> None:
        """Add contributions."""
        ...

    def result(self) -> Any:
        """Return the result over all added contributions."""
        ...


def large(described: Described, user: Any) -> LargeGroup | None:
    """Return a fold for large groups, or None if the reducer must see all contributions at once."""
    name = described["reducer"]
    if user is not None or described.keys() & {"nulls", "order", "distinct"}:
        return None
    if name == "count":
        return _Count(described)
    if name in ("sum", "mean", "variance", "stddev"):
        return Numbers(described)
    if name == "histogram":
        return _Bins(described)
    order = _ORDERS.get(name)
    return None if order is None else _FirstInOrder(described, order)


class _Count:
    def __init__(self, described: Described) -> None:
        self._described = described
        self._n = 0

    def add(self, given: Sequence[ReducerInput]) -> None:
        self._n += result_of(self._described, None, None, given)

    def result(self) -> Any:
        return self._n


class _Bins:
    def __init__(self, described: Described) -> None:
        self._described = described
        self._bins: list[int] | None = None

    def add(self, given: Sequence[ReducerInput]) -> None:
        own: list[int] = result_of(self._described, None, None, given)
        self._bins = own if self._bins is None else [a + b for a, b in zip(self._bins, own, strict=True)]

    def result(self) -> Any:
        return self._bins


class _FirstInOrder:
    """The first values in an order; `order` has the sort key, and True to take values from the end."""

    def __init__(self, described: Described, order: tuple[Callable[[ReducerInput], Any], bool]) -> None:
        self._described = described
        self._order, self._last = order
        self._best: list[ReducerInput] = []

    def add(self, given: Sequence[ReducerInput]) -> None:
        n = self._described.get("n", 1)
        own = sorted([*self._best, *(one for one in given if one.value is not None)], key=self._order)
        self._best = own[max(0, len(own) - n) :] if self._last else own[:n]

    def result(self) -> Any:
        return result_of(self._described, None, None, self._best)


def _by(one: ReducerInput) -> Any:
    return rank(one.by), one.source


_ORDERS: dict[str, tuple[Callable[[ReducerInput], Any], bool]] = {
    "min": (by_value, False),
    "bottom": (by_value, False),
    "max": (by_value, True),
    "top": (by_value, True),
    "collect": (lambda one: one.source, False),
    "first": (_by, False),
    "last": (_by, True),
}


class Numbers:
    """Numbers by their count, their kinds, their exact sum and the sum of their squares."""

    def __init__(self, described: Described) -> None:
        self._described = described
        self._n = 0
        self._sum = self._squares = Fraction(0)
        self._kinds: set[type] = set()
        self._strange: set[str] = set()

    def add(self, given: Sequence[ReducerInput]) -> None:
        """Add contributions."""
        squares = self._described["reducer"] in ("variance", "stddev")
        for one in given:
            if one.value is None:
                continue
            self._n += 1
            self._kinds.add(type(one.value))
            if isinstance(one.value, float) and not math.isfinite(one.value):
                self._strange.add(repr(one.value))
                continue
            exact = Fraction(one.value)
            self._sum += exact
            if squares:
                self._squares += exact * exact

    def more(self, kind: type, n: int, total: Fraction, squares: Fraction) -> None:
        """Add `n` finite numbers of one kind, given by their sum and the sum of their squares."""
        self._n += n
        self._kinds.add(kind)
        self._sum += total
        self._squares += squares

    def result(self) -> Any:
        """Return the result over all added numbers."""
        name, kinds = self._described["reducer"], [kind() for kind in self._kinds]  # a value stands for its kind
        spread = name in ("variance", "stddev")
        if self._n <= (self._described["ddof"] if spread else 0):
            return None
        if self._strange:
            return math.nan if spread or len(self._strange) > 1 else float(next(iter(self._strange)))
        if name == "sum":
            return to_sum(self._sum, kinds)
        mean = self._sum / self._n
        if name == "mean":
            return rounded(mean, kinds)
        value = (self._squares - mean * self._sum) / (self._n - self._described["ddof"])
        return rounded(square_root(value) if name == "stddev" else value, kinds)
