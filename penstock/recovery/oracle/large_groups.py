"""The result of a group that is too large for memory, from scratch: its contributions come in parts, and are let go.

It says what `plain_reducers` says of all contributions at once, for reducers whose result follows from a bounded rest:
counts, exact sums and their squares, bins, the first few in some order. The others, which must see all values at once,
it gives no result for. Nothing here is shared with the reducers of the engine either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

from penstock.recovery.oracle.plain_reducers import Described, Given, by_value, result_of, rounded, square_root, to_sum
from penstock.recovery.oracle.plain_values import rank

__all__ = ["Large", "Numbers", "large"]


class Large(Protocol):
    """What is kept of the contributions that came."""

    def add(self, given: Sequence[Given]) -> None:
        """These came as well."""
        ...

    def result(self) -> Any:
        """The result over all that came."""
        ...


def large(described: Described, user: Any) -> Large | None:
    """What folds the contributions of a large group for a reducer; None where that must see all of them at once."""
    name = described["reducer"]
    if user is not None:
        return None
    if name == "count":
        return _Count(described)
    if name in ("sum", "mean", "variance", "stddev"):
        return Numbers(described)
    if name == "histogram":
        return _Bins(described)
    order = _ORDERS.get(name)
    return None if order is None else _Few(described, order)


class _Count:
    def __init__(self, described: Described) -> None:
        self._described = described
        self._n = 0

    def add(self, given: Sequence[Given]) -> None:
        self._n += result_of(self._described, None, None, given)

    def result(self) -> Any:
        return self._n


class _Bins:
    def __init__(self, described: Described) -> None:
        self._described = described
        self._bins: list[int] | None = None

    def add(self, given: Sequence[Given]) -> None:
        own: list[int] = result_of(self._described, None, None, given)
        self._bins = own if self._bins is None else [a + b for a, b in zip(self._bins, own, strict=True)]

    def result(self) -> Any:
        return self._bins


class _Few:
    """The first of all in an order; `order` sorts them, and says from which end they are taken."""

    def __init__(self, described: Described, order: tuple[Callable[[Given], Any], bool]) -> None:
        self._described = described
        self._order, self._last = order
        self._kept: list[Given] = []

    def add(self, given: Sequence[Given]) -> None:
        n = self._described.get("n", 1)
        own = sorted([*self._kept, *(one for one in given if one.value is not None)], key=self._order)
        self._kept = own[max(0, len(own) - n) :] if self._last else own[:n]

    def result(self) -> Any:
        return result_of(self._described, None, None, self._kept)


def _by(one: Given) -> Any:
    return rank(one.by), one.source


_ORDERS: dict[str, tuple[Callable[[Given], Any], bool]] = {
    "min": (by_value, False),
    "bottom": (by_value, False),
    "max": (by_value, True),
    "top": (by_value, True),
    "collect": (lambda one: one.source, False),
    "first": (_by, False),
    "last": (_by, True),
}


class Numbers:
    """How many numbers, of which kinds, their exact sum, and that of their squares."""

    def __init__(self, described: Described) -> None:
        self._described = described
        self._n = 0
        self._sum = self._squares = Fraction(0)
        self._kinds: set[type] = set()
        self._strange: set[str] = set()

    def add(self, given: Sequence[Given]) -> None:
        """These came as well."""
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
        """So many numbers of a kind came as well, all finite, with this sum and this one of their squares."""
        self._n += n
        self._kinds.add(kind)
        self._sum += total
        self._squares += squares

    def result(self) -> Any:
        """The result over all that came."""
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
