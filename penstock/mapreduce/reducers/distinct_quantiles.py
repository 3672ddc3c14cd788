"""Exact distinct counts and quantiles, from the sorted values of a group with their counts.

An entry of `DistinctCell` stands for all values that are equal as groups. So 1, 1.0 and Decimal("1") are one entry,
true is another, and NaN is one. An entry of `QuantilesCell` is one exact number. Numbers are in the order of values:
equal ones of different kinds are neighbours, in the order of their bytes. The state of both is [answer].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import inf
from typing import Any, ClassVar

import msgspec
import numpy as np
import xxhash

from penstock.cache import DefinitionError, canonical, order_key, unpack
from penstock.mapreduce.columns.column import LaneKind
from penstock.mapreduce.reducers.sums import Moments
from penstock.mapreduce.reducers.value_order import unified, value_codes
from penstock.views import Need, Path, State, Values

_FIRST_POWER = Moments(None, 1)
_TOP = np.uint64(1 << 63)
_SIMPLE = frozenset({str, int, bool, bytes, type(None)})
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Counted:
    """A cell that reads the group's values in order."""

    field: Path | None
    tallies: ClassVar[bool] = False

    @property
    def lanes(self) -> int:
        """Return 0: a state is only a spill."""
        return 0

    def tallied(self, values: Sequence[bytes]) -> Any:
        """Return no tally."""
        return None

    def added(self, tallies: Sequence[Any]) -> Any:
        """Return no tally."""
        return None


def _refused(reducer: str) -> DefinitionError:
    return DefinitionError(
        f"{reducer} of several groups together does not follow from theirs; define a view that is grouped by the "
        "shorter key, and read that one"
    )


@dataclass(frozen=True, slots=True)
class DistinctCell(_Counted):
    """The number of distinct values. Nulls are skipped."""

    @property
    def need(self) -> Need:
        """Require the value itself."""
        return Need.VALUE

    def entries(self, column: Values) -> list[tuple[int, bytes] | None]:
        """Return for each value the hash and the bytes that it shares with all equal values."""
        values = column.values()
        shared = _shared_bytes(values)
        return [None if v is None else (xxhash.xxh3_64_intdigest(data), data) for v, data in zip(values, shared)]

    def sort_key(self, data: bytes) -> Any:
        """Return the bytes: any order is good enough."""
        return data

    def asked(self, total: int) -> list[int]:
        """Return no place: the answer is the number of entries."""
        return []

    def answer(self, total: int, distinct: int, found: Sequence[Any]) -> list[Any] | None:
        """Return the number of entries."""
        return [distinct] if total else None

    def merge(self, a: State, b: State) -> State:
        """Refuse the merge: two groups may share values."""
        raise _refused("distinct()")


@dataclass(frozen=True, slots=True)
class DistinctMoments(_Counted):
    """The exact total of the distinct numbers. Nulls are skipped.

    1 and 1.0 are one number. The one that comes first in the order of values counts.
    A tally is a state of `Moments` as a list: [lanes, spill].
    """

    tallies: ClassVar[bool] = True

    @property
    def need(self) -> Need:
        """Require numbers."""
        return Need.NUMBER

    def entries(self, column: Values) -> list[tuple[int, bytes] | None]:
        """Return for each number the hash that it shares with all equal numbers, and its exact bytes."""
        values = column.values()
        codes = [None if v is None else xxhash.xxh3_64_intdigest(canonical(unified(v))) for v in values]
        return [None if code is None else (code, canonical(v)) for code, v in zip(codes, values, strict=True)]

    def sort_key(self, data: bytes) -> Any:
        """Return the exact order of values."""
        return order_key(unpack(data))

    def asked(self, total: int) -> list[int]:
        """Return no place: the answer is the tally."""
        return []

    def tallied(self, values: Sequence[bytes]) -> Any:
        """Return the total of these numbers. Of equal ones the least in the order of values counts."""
        least: dict[bytes, Any] = {}
        for value in sorted(map(unpack, values), key=order_key):
            least.setdefault(canonical(unified(value)), value)
        state: State = (0, 0), None
        for value in least.values():
            state = _FIRST_POWER.moved(state, value, 1)
        return [list(state[0]), state[1]]

    def added(self, tallies: Sequence[Any]) -> Any:
        """Return the total of all."""
        states: list[State] = [(tuple(lanes), spill) for lanes, spill in tallies]
        lanes, spill = reduce(_FIRST_POWER.merge, states)
        return [list(lanes), spill]

    def answer(self, total: int, distinct: int, found: Sequence[Any]) -> list[Any] | None:
        """Return the tally."""
        return list(found) if total else None

    def merge(self, a: State, b: State) -> State:
        """Refuse the merge: two groups may share values."""
        raise _refused("a sum or mean of distinct values")


def _shared_bytes(values: Sequence[Any]) -> list[bytes]:
    """Return the bytes that each value shares with all equal values. The bytes of a null have no meaning."""
    if _SIMPLE.issuperset(map(type, values)):
        try:
            return list(map(_encode, values))  # such a value has one form in MessagePack
        except OverflowError:  # an int beyond 64 bits
            pass
    return [canonical(unified(v)) for v in values]


@dataclass(frozen=True, slots=True)
class QuantilesCell(_Counted):
    """The quantiles of the numbers at `shares`. Nulls are skipped."""

    shares: tuple[Fraction, ...]

    @property
    def need(self) -> Need:
        """Require numbers."""
        return Need.NUMBER

    def entries(self, column: Values) -> list[tuple[int, bytes] | None]:
        """Return for each number the code of the nearest float, and the exact bytes of the number."""
        kinds = column.kind
        nearest = column.lane.astype(np.float64)
        if kinds is not None:
            nearest = np.where(kinds == LaneKind.FLOAT, column.lane.view(np.float64), nearest)
        for i, value in column.objs.items():
            nearest[i] = _nearest(value)
        codes = (value_codes(nearest.view(np.int64)).view(np.uint64) ^ _TOP).tolist()
        return [None if v is None else (code, canonical(v)) for code, v in zip(codes, column.values())]

    def sort_key(self, data: bytes) -> Any:
        """Return the exact order of values."""
        return order_key(unpack(data))

    def asked(self, total: int) -> list[int]:
        """Return for each share the least place at which that share of all numbers is at or before it."""
        if not total:
            return []
        return [max(0, -(-share.numerator * total // share.denominator) - 1) for share in self.shares]

    def answer(self, total: int, distinct: int, found: Sequence[Any]) -> list[Any] | None:
        """Return the numbers at the places that were asked for."""
        return [[unpack(data) for data in found]] if total else None

    def merge(self, a: State, b: State) -> State:
        """Refuse the merge: neither group knows the place of a number among those of both."""
        raise _refused("quantiles()")


def _nearest(value: int | Decimal) -> float:
    """Return the nearest float, or an infinity beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
