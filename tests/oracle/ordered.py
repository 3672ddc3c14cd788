"""Reducers without an inverse, each from scratch: they sort all contributions of a group each time.

Values have one total order (`place`). Contributions have the order of their sources: (document key, number of the value
in that document).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .reducers import Given, Numeric, Reducer
from .values import at, normalise, place, rank


@dataclass(frozen=True)
class Max(Reducer):
    """The greatest value."""

    def result(self, values: Sequence[Any]) -> Any:
        ordered = in_order(values)
        return ordered[-1] if ordered else None


@dataclass(frozen=True)
class Min(Reducer):
    """The least value."""

    def result(self, values: Sequence[Any]) -> Any:
        ordered = in_order(values)
        return ordered[0] if ordered else None


@dataclass(frozen=True)
class Top(Reducer):
    """The n greatest values, the greatest first."""

    n: int = 3

    def result(self, values: Sequence[Any]) -> Any:
        return in_order(values)[::-1][: self.n]


@dataclass(frozen=True)
class Bottom(Reducer):
    """The n least values, the least first."""

    n: int = 3

    def result(self, values: Sequence[Any]) -> Any:
        return in_order(values)[: self.n]


@dataclass(frozen=True)
class Collect(Reducer):
    """The values of the first n sources."""

    n: int = 3

    def fold(self, told: Sequence[Given]) -> Any:
        values = [self.read(one.value) for one in by_source(told)]
        return [value for value in values if value is not None][: self.n]


@dataclass(frozen=True)
class Last(Reducer):
    """The value with the greatest ts or field beside it. Of equal ones the last source wins."""

    by: str | None = None

    def fold(self, told: Sequence[Given]) -> Any:
        marked = self.marked(told)
        return marked[-1][1] if marked else None

    def marked(self, told: Sequence[Given]) -> list[tuple[Any, Any]]:
        """Return the values with their marks, in order."""
        given = [one for one in by_source(told) if self.read(one.value) is not None]
        marked = [(rank(at(one.value, self.by)) if self.by else one.ts, self.read(one.value)) for one in given]
        return sorted(marked, key=lambda pair: pair[0])


@dataclass(frozen=True)
class First(Last):
    """The value with the least ts or field beside it. Of equal ones the first source wins."""

    def fold(self, told: Sequence[Given]) -> Any:
        marked = self.marked(told)
        return marked[0][1] if marked else None


@dataclass(frozen=True)
class Monoid(Reducer):
    """A user's monoid, folded value by value. An error holds the group."""

    user: Any = None

    def result(self, values: Sequence[Any]) -> Any:
        living = [deepcopy(value) for value in values if value is not None]
        if not living:
            return None
        total = self.user.zero() if callable(self.user.zero) else self.user.zero
        for value in living:
            total = self.user.merge(total, self.user.lift(value))
        return normalise(self.user.result(total) if hasattr(self.user, "result") else total)


@dataclass(frozen=True)
class Function(Reducer):
    """A CouchDB reduce function, called once with all values."""

    call: Callable[..., Any] | None = None
    keys: bool = False

    def fold(self, told: Sequence[Given]) -> Any:
        assert self.call is not None
        given = by_source(told)
        values = [deepcopy(one.value) for one in given]
        if self.keys:
            return normalise(self.call([[one.group, one.key] for one in given], values, False))
        return normalise(self.call(values, False))


@dataclass(frozen=True)
class Distinct(Reducer):
    """The number of values that differ as groups do."""

    def result(self, values: Sequence[Any]) -> Any:
        return len({rank(value) for value in values if value is not None})


@dataclass(frozen=True)
class Quantiles(Numeric):
    """For each share, the first number at which the cumulative count reaches that share."""

    qs: tuple[Any, ...] = (0.5,)

    def over(self, numbers: list[Any]) -> Any:
        ordered, n = in_order(numbers), len(numbers)
        shares = [Fraction(str(q)) for q in self.qs]
        return [next(v for i, v in enumerate(ordered, 1) if Fraction(i, n) >= q) for q in shares] if n else None


def in_order(values: Sequence[Any]) -> list[Any]:
    """Return the values that are not null, in their total order."""
    return sorted((value for value in values if value is not None), key=place)


def by_source(told: Sequence[Given]) -> list[Given]:
    """Return the contributions in the order of their sources.

    Within a source that has several groups, order them by value.
    """
    return sorted(told, key=lambda one: (one.where, one.number, place(one.value)))
