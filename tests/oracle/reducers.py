"""Fold the values of a group, each time from scratch: exactly in fractions, rounded once.

A reducer skips null. It refuses a value of the wrong type, which holds the document. It returns a result over all
values of a group at once. It never retracts a value, so it can judge code that does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from .values import Refused, at, normalise, rank

_DIGITS = Context(prec=28, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999)


class Given(NamedTuple):
    """A contribution: its group and value, its document's key and rank, its number in the document, and its ts."""

    group: Any
    value: Any
    key: Any = None
    where: Any = ()
    number: int = 0
    ts: Any = None


@dataclass(frozen=True)
class Reducer:
    """The base of all reducers: the field that they read from a contribution's value."""

    field: str | None = None

    def read(self, value: Any) -> Any:
        """Return the part of a value that this reducer reads. Raise Refused if its type is wrong."""
        seen = at(value, self.field)
        if seen is not None:
            self.check(seen)
        return seen

    def check(self, seen: Any) -> None:
        """Raise Refused if a value that is not null has the wrong type."""

    def fold(self, told: Sequence[Given]) -> Any:
        """Return the result over all contributions of a group."""
        return self.result([self.read(one.value) for one in told])

    def result(self, values: Sequence[Any]) -> Any:
        """Return the result over the values that `read` returned for the contributions of a group."""
        raise NotImplementedError


@dataclass(frozen=True)
class Count(Reducer):
    """The number of contributions, or of non-nulls of a field."""

    def result(self, values: Sequence[Any]) -> Any:
        return len(values) if self.field is None else sum(v is not None for v in values)


@dataclass(frozen=True)
class Numeric(Reducer):
    """The base of reducers that accept only numbers."""

    def check(self, seen: Any) -> None:
        if isinstance(seen, bool) or not isinstance(seen, (int, float, Decimal)):
            raise Refused(f"no number: {seen!r}")

    def result(self, values: Sequence[Any]) -> Any:
        return self.over([v for v in values if v is not None])

    def over(self, numbers: list[Any]) -> Any:
        """Return the result over the values that are not null."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sum(Numeric):
    """An int over ints, a Decimal over ints and Decimals, else a float."""

    def over(self, numbers: list[Any]) -> Any:
        if not numbers:
            return None
        strange = strange_sum(numbers)
        if strange is not None:
            return strange
        total = exact(numbers)
        if any(isinstance(v, float) for v in numbers):
            return to_float(total)
        if any(isinstance(v, Decimal) for v in numbers):
            return shortest(total)
        return int(total)


@dataclass(frozen=True)
class Mean(Numeric):
    """The exact mean, rounded once."""

    def over(self, numbers: list[Any]) -> Any:
        if not numbers:
            return None
        strange = strange_sum(numbers)
        return rounded(exact(numbers) / len(numbers), numbers) if strange is None else strange


@dataclass(frozen=True)
class Variance(Numeric):
    """The exact variance, rounded once; null if there are too few values."""

    ddof: int = 1

    def over(self, numbers: list[Any]) -> Any:
        if len(numbers) <= self.ddof:
            return None
        if strange_sum(numbers) is not None:
            return math.nan
        return rounded(self.exact_variance(numbers), numbers)

    def exact_variance(self, numbers: list[Any]) -> Fraction:
        """Return the sum of squared deviations, divided by the number of values less ddof, as a fraction."""
        mean = exact(numbers) / len(numbers)
        return sum(((Fraction(v) - mean) ** 2 for v in numbers), Fraction(0)) / (len(numbers) - self.ddof)


@dataclass(frozen=True)
class Stddev(Variance):
    """The root of the exact variance, rounded once."""

    def over(self, numbers: list[Any]) -> Any:
        if len(numbers) <= self.ddof:
            return None
        if strange_sum(numbers) is not None:
            return math.nan
        return rounded(near_root(self.exact_variance(numbers)), numbers)


@dataclass(frozen=True)
class Histogram(Numeric):
    """The number of values in each bin. Bins are closed below; the first and the last have no outer bound."""

    edges: tuple[Any, ...] = ()

    def over(self, numbers: list[Any]) -> Any:
        bins = [0] * (len(self.edges) + 1)
        for number in numbers:
            bins[sum(rank(edge) <= rank(number) for edge in self.edges)] += 1
        return bins


@dataclass(frozen=True)
class Group(Reducer):
    """A user's invertible reducer. An error holds the group."""

    user: Any = None

    def result(self, values: Sequence[Any]) -> Any:
        living = [v for v in values if v is not None]
        if not living:
            return None
        total = self.user.zero() if callable(self.user.zero) else self.user.zero
        for value in living:
            total = self.user.merge(total, self.user.lift(value))
        return normalise(self.user.result(total) if hasattr(self.user, "result") else total)


def exact(numbers: Sequence[Any]) -> Fraction:
    """Return the sum of finite numbers as a fraction."""
    return sum(map(Fraction, numbers), Fraction(0))


def strange_sum(numbers: Sequence[Any]) -> float | None:
    """Return the sum if NaN or an infinity is among the numbers, else None."""
    strange = [v for v in numbers if isinstance(v, float) and not math.isfinite(v)]
    if not strange:
        return None
    if any(map(math.isnan, strange)) or len(set(strange)) > 1:
        return math.nan
    return strange[0]


def to_float(value: Fraction) -> float:
    """Return the nearest float, or an infinity beyond the range of floats."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def rounded(value: Fraction, numbers: Sequence[Any]) -> float | Decimal:
    """Return a float, or 28 digits if there are Decimals and no floats."""
    if any(isinstance(v, Decimal) for v in numbers) and not any(isinstance(v, float) for v in numbers):
        return shortest(Fraction(_DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))))
    return to_float(value)


def shortest(value: Fraction) -> Decimal:
    """Return a decimal fraction as a Decimal, without trailing zeros and without a positive exponent."""
    places, scaled = 0, value
    while scaled.denominator != 1:
        places, scaled = places + 1, scaled * 10
    sign = 1 if scaled < 0 else 0
    return Decimal((sign, tuple(map(int, str(abs(scaled.numerator)))), -places))


def near_root(value: Fraction) -> Fraction:
    """Return a fraction that rounds as the root does: over 120 of its digits, and one more if others follow."""
    scale = 10 ** (120 + len(str(value.denominator)))
    whole = value.numerator * scale * scale // value.denominator
    root = math.isqrt(whole)
    if root * root * value.denominator == value.numerator * scale * scale:
        return Fraction(root, scale)
    return Fraction(2 * root + 1, 2 * scale)
