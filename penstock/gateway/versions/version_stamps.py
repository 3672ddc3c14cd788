"""Columns of ts: numbers or instants that order the versions of documents, exactly.

A ts is an int, a finite float, or RFC 3339 text, which counts as its nanoseconds since 1970. If all are 64-bit ints, a
column is one lane. Otherwise each ts is a pair: the nearest float, and the exact rest as an int. Pairs sort like their
numbers, since rounding keeps order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import parse_rfc3339, value_text
from penstock.mapreduce import Column

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
NUMBER, TEXT = "number", "text"
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_EDGE = float(1 << 63)


@dataclass(slots=True)
class Stamps:
    """A column of ts."""

    lo: Ints
    hi: Floats | None = None

    def __len__(self) -> int:
        return int(self.lo.size)

    def take(self, index: NDArray[Any]) -> Stamps:
        """Return the ts at these indexes, or at the places that a mask marks."""
        return Stamps(self.lo[index], None if self.hi is None else self.hi[index])

    def column(self) -> Column:
        """Return the ts as values: ints, or floats if they are not whole."""
        if self.hi is None:
            return Column(self.lo)
        pairs = zip(self.hi.tolist(), self.lo.tolist(), strict=True)
        return Column.of([int(hi) + lo if hi.is_integer() else hi for hi, lo in pairs])

    def paired(self) -> Stamps:
        """Return the column with pairs."""
        if self.hi is not None:
            return self
        hi = self.lo.astype(np.float64)
        edge = hi >= _EDGE
        lo = self.lo - np.where(edge, 0.0, hi).astype(np.int64)
        lo[edge] = (self.lo[edge] - _INT_MAX) - 1
        return Stamps(lo, hi)

    def less(self, other: Stamps) -> Mask:
        """Mark the places with a ts less than that of `other`."""
        if self.hi is None and other.hi is None:
            return np.less(self.lo, other.lo)
        a, b = self.paired(), other.paired()
        assert a.hi is not None
        assert b.hi is not None
        return np.less(a.hi, b.hi) | (np.equal(a.hi, b.hi) & np.less(a.lo, b.lo))

    def same(self, other: Stamps) -> Mask:
        """Mark the places with equal ts."""
        if self.hi is None and other.hi is None:
            return np.equal(self.lo, other.lo)
        a, b = self.paired(), other.paired()
        assert a.hi is not None
        assert b.hi is not None
        return np.equal(a.lo, b.lo) & np.equal(a.hi, b.hi)

    def ascends(self) -> bool:
        """Return True if no ts is less than the one before it."""
        hi = self.hi
        after = Stamps(self.lo[1:], None if hi is None else hi[1:])
        return not bool(after.less(Stamps(self.lo[:-1], None if hi is None else hi[:-1])).any())

    def ranks(self) -> Ints:
        """Return dense ranks: equal ts have equal ranks."""
        order = np.argsort(self.lo, kind="stable") if self.hi is None else np.lexsort((self.lo, self.hi))
        ordered = self.take(order)
        steps = np.zeros(len(self), np.int64)
        if steps.size:
            n = steps.size
            steps[1:] = ~ordered.take(np.arange(1, n)).same(ordered.take(np.arange(n - 1)))
        out = np.empty(steps.size, np.int64)
        out[order] = np.cumsum(steps)
        return out

    @staticmethod
    def join(parts: Sequence[Stamps]) -> Stamps:
        """Concatenate columns."""
        if all(p.hi is None for p in parts):
            return Stamps(np.concatenate([p.lo for p in parts]))
        pairs = [p.paired() for p in parts]
        return Stamps(np.concatenate([p.lo for p in pairs]), np.concatenate([p.hi for p in pairs if p.hi is not None]))


def number_of(value: Any, kind: str | None) -> tuple[int | float, str]:
    """Return the number that orders a ts, and its kind; ValueError with the reason if it is invalid."""
    if type(value) is str:
        if kind == NUMBER:
            raise ValueError(f"its ts is {value_text(value)}, and the ts of this table are numbers")
        return parse_rfc3339(value), TEXT
    if value is None:
        raise ValueError("it has no ts")
    if type(value) not in (int, float) or value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"its ts is {value_text(value)}, which is no int, finite float or RFC 3339 text")
    if kind == TEXT:
        raise ValueError(f"its ts is {value_text(value)}, and the ts of this table are RFC 3339 texts")
    return value, NUMBER


def pair_of(number: int | float) -> tuple[float, int]:
    """Split a number into a pair; ValueError if it is too large."""
    if isinstance(number, float):
        return number + 0.0, 0  # −0.0 is 0
    try:
        hi = float(number)
    except OverflowError:
        raise ValueError("its ts is beyond what can be ordered") from None
    lo = number - int(hi)
    if not _INT_MIN <= lo <= _INT_MAX:
        raise ValueError("its ts is beyond what can be ordered")
    return hi, lo


def unpaired(hi: float, lo: int) -> int | float:
    """Return the number of a pair, as an int if it is whole."""
    return int(hi) + lo if hi.is_integer() else hi


def plain_ts(number: Any) -> Any:
    """Return the number of a ts as it is stored and read: an int if it is whole, None without one."""
    return None if number is None else unpaired(*pair_of(number))


def is_lane(number: int | float) -> bool:
    """Return True if one lane holds a number."""
    return type(number) is int and _INT_MIN <= number <= _INT_MAX


def kind_of(value: Any) -> str | None:
    """Return the kind of a ts, or None if it is invalid."""
    try:
        number, kind = number_of(value, None)
        pair_of(number)
    except ValueError:
        return None
    return kind


def stamps_of(
    values: Sequence[Any] | Ints, kind: str | None, skip: set[int]
) -> tuple[Stamps, str | None, dict[int, str]]:
    """Return the column of these ts, their kind, and the reasons of rejections by index.

    `kind` is that of the table so far; otherwise the first valid ts decides it. `skip` are rejected already.
    """
    n = len(values)
    if isinstance(values, np.ndarray):
        if kind == TEXT:
            return stamps_of(values.tolist(), kind, skip)
        return Stamps(values), NUMBER if n > len(skip) else kind, {}
    bad: dict[int, str] = {}
    if kind != TEXT and set(map(type, values)) == {float} and not skip:
        hi = np.fromiter(values, np.float64, n)
        if bool(np.isfinite(hi).all()):
            return Stamps(np.zeros(n, np.int64), hi + 0.0), NUMBER, bad
    numbers: list[int | float] = []
    for i, value in enumerate(values):
        number: int | float = 0
        if i not in skip:
            try:
                number, found = number_of(value, kind)
                pair_of(number)
                kind = found
            except ValueError as error:
                bad[i] = str(error)
        numbers.append(number)
    if all(map(is_lane, numbers)):
        return Stamps(np.fromiter(numbers, np.int64, n)), kind, bad
    pairs = [pair_of(x) if i not in bad else (0.0, 0) for i, x in enumerate(numbers)]
    lo = np.fromiter((lo for _, lo in pairs), np.int64, n)
    return Stamps(lo, np.fromiter((hi for hi, _ in pairs), np.float64, n)), kind, bad
