"""The order of values, in columns and one by one: reducers choose, sort and distinguish values by it.

Invariants:

- values are in the order of `order_key`, which is total: values that tie are identical;
- codes of floats are ints in that order: −0.0 comes right after 0.0, as its bytes do, and one NaN is last;
- `unified` maps values to one if and only if they are equal as groups, across all kinds of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isnan, nan
from typing import Any

import numpy as np

from penstock.cache import canonical, order_key
from penstock.mapreduce.columns.column import Ints
from penstock.mapreduce.reducers.rounding import plain

CODE_MIN, CODE_MAX = -(1 << 63), (1 << 63) - 1
"""No float has the least code, and only NaN has the greatest."""

_MAGNITUDE = np.int64(CODE_MAX)
_NAN = int(np.array([nan]).view(np.int64)[0])
_ALONE: frozenset[type] = frozenset({int, str, bytes, bool})
_NUMBERS: frozenset[type] = frozenset({int, float})


def float_codes(lane: Ints) -> Ints:
    """Return the codes of floats, given as their bits."""
    codes: Ints = np.where(lane < 0, lane ^ _MAGNITUDE, lane)
    zero = (codes == 0) | (codes == -1)
    if zero.any():
        codes[zero] = ~codes[zero]
    odd = np.isnan(lane.view(np.float64))
    if odd.any():
        codes[odd] = CODE_MAX
    return codes


def float_lanes(codes: Ints) -> Ints:
    """Return the bits of floats, given their codes."""
    zero = (codes == 0) | (codes == -1)
    plain: Ints = np.where(zero, ~codes, codes)
    lane: Ints = np.where(plain < 0, plain ^ _MAGNITUDE, plain)
    lane[codes == CODE_MAX] = _NAN
    return lane


def value_codes(lane: Ints) -> Ints:
    """Return codes of floats, given as their bits. 0.0 and −0.0, which are equal as groups, have the same code."""
    with np.errstate(invalid="ignore"):  # for signalling NaNs
        return float_codes((lane.view(np.float64) + 0.0).view(np.int64))


def sorted_values(values: Sequence[Any], greatest: bool) -> list[Any]:
    """Sort the values in ascending order, or descending if `greatest`."""
    return sorted(values, key=_key_of(values), reverse=greatest)


def chosen(values: Sequence[Any], greatest: bool) -> Any:
    """Return the least or the greatest of some values."""
    return (max if greatest else min)(values, key=_key_of(values))


def _key_of(values: Sequence[Any]) -> Callable[[Any], Any] | None:
    """Return the sort key of these values, or None if their type has this order itself."""
    types = set(map(type, values))
    if len(types) == 1 and types <= _ALONE:
        return None
    if not types <= _NUMBERS:
        return order_key
    plain = types == {float} and 0.0 not in values and not any(map(isnan, values))
    return None if plain else _number_key


def _number_key(value: int | float) -> tuple[bool, int | float, bytes]:
    """Return a key in the order of `order_key` for ints and floats. Python compares the two exactly."""
    return (False, value, canonical(value)) if value == value else (True, 0, b"")


def unified(value: Any) -> Any:
    """Return the one value that represents all values equal to this one as groups.

    >>> from decimal import Decimal
    >>> unified([1.0, Decimal("1.50"), -0.0, True, "1"])
    [1, 1.5, 0, True, '1']
    """
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if kind is Decimal:
        return _of_decimal(value)
    if kind is list or kind is tuple:
        return [unified(item) for item in value]
    if kind is dict:
        return {key: unified(item) for key, item in value.items()}
    return value


def _of_decimal(value: Decimal) -> int | float | Decimal:
    """Return an equal int or float if there is one, else the Decimal without trailing zeros."""
    short = plain(value)
    assert isinstance(short, Decimal), "a Decimal of a document is in range"
    if short == short.to_integral_value():
        return int(short)
    near = float(short)
    return near if Decimal.from_float(near) == short else short
