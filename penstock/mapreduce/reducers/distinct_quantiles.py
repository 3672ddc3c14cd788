"""What is read from a group's values in order, each with how often it occurs: distinct and quantiles, both exact.

An entry of `Distinct` is a value as all values equal to it as groups are: 1, 1.0 and Decimal("1") are one entry, true
another, and NaN one. An entry of `Quantiles` is a number as it is; numbers stand in the order of values, so that equal
ones of different kinds stand next to each other, in the order of their bytes. The state of both is [answer].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import xxhash

from penstock.cache import DefinitionError, canonical, order_key, unpack
from penstock.mapreduce.columns.column import Kind
from penstock.mapreduce.reducers.value_order import unified, value_codes
from penstock.views import Need, Path, State, Values

_TOP = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class _Counted:
    """A cell that is read from the group's values in order."""

    field: Path | None

    @property
    def lanes(self) -> int:
        """None: a state is its spill."""
        return 0


def _refused(reducer: str) -> DefinitionError:
    return DefinitionError(
        f"{reducer}() of several groups together does not follow from theirs; define a view that is grouped by the "
        "shorter key, and read that one"
    )


@dataclass(frozen=True, slots=True)
class Distinct(_Counted):
    """How many different values there are; nulls are skipped."""

    @property
    def need(self) -> Need:
        """The value itself."""
        return Need.VALUE

    def entries(self, column: Values) -> list[tuple[int, bytes] | None]:
        """What all equal values share, and its hash."""
        shared = [None if v is None else canonical(unified(v)) for v in column.values()]
        return [None if data is None else (xxhash.xxh3_64_intdigest(data), data) for data in shared]

    def sort_key(self, data: bytes) -> Any:
        """The bytes themselves: any order will do."""
        return data

    def asked(self, total: int) -> list[int]:
        """No place: the number of entries is the answer."""
        return []

    def answer(self, total: int, distinct: int, found: Sequence[bytes]) -> list[Any] | None:
        """The number of entries."""
        return [distinct] if total else None

    def merge(self, a: State, b: State) -> State:
        """Refused: groups may share values."""
        raise _refused("distinct")


@dataclass(frozen=True, slots=True)
class Quantiles(_Counted):
    """The numbers at some shares of the way through all of them in order; nulls are skipped."""

    shares: tuple[Fraction, ...]

    @property
    def need(self) -> Need:
        """Numbers only."""
        return Need.NUMBER

    def entries(self, column: Values) -> list[tuple[int, bytes] | None]:
        """The nearest float as a code, and the number as it is."""
        kinds = column.kind
        nearest = column.lane.astype(np.float64)
        if kinds is not None:
            nearest = np.where(kinds == Kind.FLOAT, column.lane.view(np.float64), nearest)
        for i, value in column.objs.items():
            nearest[i] = _nearest(value)
        codes = (value_codes(nearest.view(np.int64)).view(np.uint64) ^ _TOP).tolist()
        return [None if v is None else (code, canonical(v)) for code, v in zip(codes, column.values())]

    def sort_key(self, data: bytes) -> Any:
        """The order of values, which is exact."""
        return order_key(unpack(data))

    def asked(self, total: int) -> list[int]:
        """For each share the place of the first number that, with all before it, is that share of them."""
        if not total:
            return []
        return [max(0, -(-share.numerator * total // share.denominator) - 1) for share in self.shares]

    def answer(self, total: int, distinct: int, found: Sequence[bytes]) -> list[Any] | None:
        """The numbers there."""
        return [[unpack(data) for data in found]] if total else None

    def merge(self, a: State, b: State) -> State:
        """Refused: where a number stands among those of both is in neither."""
        raise _refused("quantiles")


def _nearest(value: int | Decimal) -> float:
    """The nearest float, beyond its range an infinity."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
