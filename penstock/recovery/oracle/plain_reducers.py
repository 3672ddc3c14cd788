"""The oracle's reducers: each result is computed from scratch over all values of a group.

Sums are exact fractions that are rounded once. The oracle has no retraction, so it can judge reducers that retract. It
shares only the names of `describe()` with the reducers of the engine. A user's own functions fold one value at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

from penstock.recovery.oracle.plain_values import Refused, rank, sort_place, value_of

_DIGITS = Context(prec=28, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999)
Described = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReducerInput:
    """One contribution as a reducer sees it: the value, its source, and the order value of `first` and `last`."""

    value: Any
    source: tuple[Any, int]  # the rank of the document's key, and the number of the value for the group
    by: Any = None
    key: Any = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """The function that computes a built-in reducer's result from the values that are not null."""

    over: Callable[[list[ReducerInput], Described], Any]
    numeric: bool = False
    bools: bool = False


def result_of(described: Described, user: Any, group: Any, given: Sequence[ReducerInput]) -> Any:
    """Compute a reducer's result over all contributions of a group; `user` has the user's functions, if any."""
    name = described["reducer"]
    if name == "count":
        return len(given) if described["field"] is None else sum(one.value is not None for one in given)
    if name == "function":
        return _called(user, group, sorted(given, key=by_value), described["keys"])
    nulls = described.get("nulls", False)
    taken = sorted((one for one in given if nulls or one.value is not None), key=by_value)
    if user is not None:
        return folded(user, [one.value for one in taken]) if taken else None
    return recipe_of(described).over(taken, described)


def check_value(described: Described, value: Any) -> None:
    """Raise Refused if the reducer needs a number and the value is none."""
    name = described["reducer"]
    if value is None or name not in RECIPES:
        return
    if RECIPES[name].bools and not isinstance(value, bool):
        raise Refused(f"{name} reads a value of type {type(value).__name__}, which is no bool")
    if not RECIPES[name].numeric:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Refused(f"{name} reads a value of type {type(value).__name__}, which is no number")


def recipe_of(described: Described) -> Recipe:
    """Return the recipe of a built-in reducer."""
    found = RECIPES.get(described["reducer"])
    if found is None:
        raise Refused(f"the oracle has no recipe for the reducer {described['reducer']!r}; add one")
    return found


def by_value(one: ReducerInput) -> Any:
    """Return the sort key of a contribution: its value, then its source."""
    return sort_place(one.value), one.source


def folded(user: Any, values: Sequence[Any]) -> Any:
    """Fold values with a user's own functions, and normalize each value and accumulator.

    Maps reach each function with their names in order, as in the engine.
    """
    total = value_of(user.zero() if callable(user.zero) else user.zero)
    for value in values:
        total = value_of(user.merge(total, value_of(user.lift(value_of(value)))))
    result = getattr(user, "result", None)
    return total if result is None else value_of(result(value_of(total)))


def _called(function: Callable[..., Any], group: Any, given: Sequence[ReducerInput], keys: bool) -> Any:
    """Call a user's reduce function with all values at once."""
    values = [value_of(one.value) for one in given]
    if keys:
        return value_of(function([[group, one.key] for one in given], values, False))
    return value_of(function(values, False))


# -- the values themselves


def _extreme(given: list[ReducerInput], described: Described) -> Any:
    if not given:
        return None
    return (given[-1] if described["reducer"] == "max" else given[0]).value


def _ranking(given: list[ReducerInput], described: Described) -> list[Any]:
    if "order" in described:
        return _ordered(given, described)
    values = [one.value for one in given]
    return (values[::-1] if described["reducer"] == "top" else values)[: described["n"]]


def _ordered(given: list[ReducerInput], described: Described) -> list[Any]:
    """Return the first values in the order of several fields; a field with a minus descends."""
    out = sorted(given, key=_source)
    for i, name in reversed(list(enumerate(described["order"]))):
        ranks = [rank(one.by[i]) for one in out]
        wanted = sorted(set(ranks), reverse=name.startswith("-"))
        out = [one for own in wanted for one, mine in zip(out, ranks, strict=True) if mine == own]
    return [one.value for one in out[: described["n"]]]


def _collect(given: list[ReducerInput], described: Described) -> list[Any]:
    return [one.value for one in sorted(given, key=_source)[: described["n"]]]


def _chosen(given: list[ReducerInput], described: Described) -> Any:
    ordered = sorted(given, key=lambda one: (rank(one.by), one.source))
    if not ordered:
        return None
    return (ordered[-1] if described["reducer"] == "last" else ordered[0]).value


def _peak(given: list[ReducerInput], described: Described) -> Any:
    by = [one for one in given if one.by is not None]
    if not by:
        return None
    wanted = (max if described["reducer"] == "argmax" else min)(rank(one.by) for one in by)
    return min((one for one in by if rank(one.by) == wanted), key=_source).value


def _only(given: list[ReducerInput], described: Described) -> Any:
    if len({rank(one.value) for one in given}) > 1:
        raise Refused("only reads different values")
    return given[0].value if given else None


def _truth(given: list[ReducerInput], described: Described) -> bool | None:
    values = [one.value for one in given]
    if not values:
        return None
    return True in values if described["reducer"] == "any" else False not in values


def _distinct(given: list[ReducerInput], described: Described) -> int:
    return len({rank(one.value) for one in given})


def _quantiles(given: list[ReducerInput], described: Described) -> list[Any] | None:
    if not given:
        return None
    shares = map(Fraction, described["shares"])
    return [given[max(0, math.ceil(share * len(given)) - 1)].value for share in shares]


def _source(one: ReducerInput) -> Any:
    return one.source


# -- numbers


def exact(numbers: Sequence[Any]) -> Fraction:
    """Return the exact sum of finite numbers."""
    return sum(map(Fraction, numbers), Fraction(0))


def _has(kind: type, numbers: Sequence[Any]) -> bool:
    return any(isinstance(number, kind) for number in numbers)


def _strange(numbers: Sequence[Any]) -> float | None:
    """Return the sum if a NaN or an infinity is among the numbers, else None."""
    found = [v for v in numbers if isinstance(v, float) and not math.isfinite(v)]
    if not found:
        return None
    return math.nan if any(map(math.isnan, found)) or len(set(found)) > 1 else found[0]


def to_float(value: Fraction) -> float:
    """Return the nearest float, or an infinity if the value is out of range."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def shortest(value: Fraction) -> Decimal:
    """Convert a decimal fraction to a Decimal without trailing zeros and without a positive exponent."""
    places, scaled = 0, value
    while scaled.denominator != 1:
        places, scaled = places + 1, scaled * 10
    return Decimal((int(scaled < 0), Decimal(abs(scaled.numerator)).as_tuple().digits, -places))


def rounded(value: Fraction, numbers: Sequence[Any]) -> float | Decimal:
    """Round to a float, or to a Decimal of 28 digits if there are Decimals and no floats."""
    if _has(Decimal, numbers) and not _has(float, numbers):
        return shortest(Fraction(_DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))))
    return to_float(value)


def _numbers(given: list[ReducerInput], described: Described | None = None) -> list[Any]:
    if described is None or not described.get("distinct"):
        return [one.value for one in given]
    return list({rank(one.value): one.value for one in reversed(given)}.values())  # the least of equal numbers


def _sum(given: list[ReducerInput], described: Described) -> Any:
    numbers = _numbers(given, described)
    if not numbers:
        return None
    strange = _strange(numbers)
    if strange is not None:
        return strange
    return to_sum(exact(numbers), numbers)


def to_sum(total: Fraction, numbers: Sequence[Any]) -> int | float | Decimal:
    """Convert an exact sum to the type of its numbers: a float, a Decimal or an int."""
    if _has(float, numbers):
        return to_float(total)
    return shortest(total) if _has(Decimal, numbers) else int(total)


def _mean(given: list[ReducerInput], described: Described) -> Any:
    numbers = _numbers(given, described)
    if not numbers:
        return None
    strange = _strange(numbers)
    return rounded(exact(numbers) / len(numbers), numbers) if strange is None else strange


def _spread(numbers: list[Any], ddof: int) -> Fraction | float | None:
    if len(numbers) <= ddof:
        return None
    if _strange(numbers) is not None:
        return math.nan
    mean = exact(numbers) / len(numbers)
    return sum(((Fraction(v) - mean) ** 2 for v in numbers), Fraction(0)) / (len(numbers) - ddof)


def _variance(given: list[ReducerInput], described: Described) -> Any:
    numbers = _numbers(given)
    spread = _spread(numbers, described["ddof"])
    return rounded(spread, numbers) if isinstance(spread, Fraction) else spread


def _stddev(given: list[ReducerInput], described: Described) -> Any:
    numbers = _numbers(given)
    spread = _spread(numbers, described["ddof"])
    return rounded(square_root(spread), numbers) if isinstance(spread, Fraction) else spread


def square_root(value: Fraction) -> Fraction:
    """Return a fraction that rounds as the exact root does: 120 digits, and one that marks a remainder."""
    scale = 10 ** (120 + len(str(Decimal(value.denominator))))
    whole = value.numerator * scale * scale // value.denominator
    root = math.isqrt(whole)
    if root * root * value.denominator == value.numerator * scale * scale:
        return Fraction(root, scale)
    return Fraction(2 * root + 1, 2 * scale)


def _histogram(given: list[ReducerInput], described: Described) -> list[int]:
    edges = [_edge(kind, text) for kind, text in described["edges"]]
    bins = [0] * (len(edges) + 1)
    for number in _numbers(given):
        bins[sum(rank(edge) <= rank(number) for edge in edges)] += 1
    return bins


def _edge(kind: str, text: str) -> Any:
    return Decimal(text) if kind == "decimal" else float.fromhex(text) if kind == "float" else int(text, 16)


RECIPES: dict[str, Recipe] = {
    "sum": Recipe(_sum, numeric=True),
    "mean": Recipe(_mean, numeric=True),
    "variance": Recipe(_variance, numeric=True),
    "stddev": Recipe(_stddev, numeric=True),
    "histogram": Recipe(_histogram, numeric=True),
    "min": Recipe(_extreme),
    "max": Recipe(_extreme),
    "top": Recipe(_ranking),
    "bottom": Recipe(_ranking),
    "collect": Recipe(_collect),
    "first": Recipe(_chosen),
    "last": Recipe(_chosen),
    "argmax": Recipe(_peak),
    "argmin": Recipe(_peak),
    "only": Recipe(_only),
    "any": Recipe(_truth, bools=True),
    "all": Recipe(_truth, bools=True),
    "distinct": Recipe(_distinct),
    "quantiles": Recipe(_quantiles, numeric=True),
}
