"""The invertible reducers, as named in a view's definition, and how each reads its result from exact totals.

All but `count()` skip null. Over nulls only, counts are 0 and every other result is null. This module also rebuilds
every reducer from its description, including those without an inverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from penstock.cache import DefinitionError, ValueKind, key_text, normalise, repr_by_fields
from penstock.mapreduce.columns.column import Ints
from penstock.mapreduce.reducers.base import BaseReducer, Condition, field_of, where_of
from penstock.mapreduce.reducers.counts import Bins, Number, Present
from penstock.mapreduce.reducers.distinct_quantiles import DistinctMoments
from penstock.mapreduce.reducers.from_contributions import TREE_MAKERS
from penstock.mapreduce.reducers.rounding import decimal_of, root_decimal, root_float, to_decimal, to_float
from penstock.mapreduce.reducers.sums import Exact, Moments
from penstock.mapreduce.reducers.user_group import Functions, UserGroup
from penstock.views import Cell, FieldForm, FilteredField, Path, State, where_from


@dataclass(frozen=True, slots=True)
class Count(BaseReducer):
    """The number of contributions, or of values that are not null."""

    name: ClassVar[str] = "count"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return no cell for `count()`: a group's row has the number of contributions."""
        if self.field is None and self.where is not None:
            return (Present(FilteredField(None, self.where, FieldForm.ONE).path),)
        return () if self.field is None else (Present(self.reads),)

    def result(self, n: int, states: Sequence[State]) -> int:
        """Return the count."""
        return states[0][0][0] if states else n

    def results(self, n: Ints, lanes: Sequence[Ints]) -> list[Any]:
        """Return the counts."""
        counts: list[Any] = (lanes[0][:, 0] if lanes else n).tolist()
        return counts


@dataclass(frozen=True, slots=True)
class Sum(BaseReducer):
    """The exact total."""

    name: ClassVar[str] = "sum"
    distinct: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of totals of the first power."""
        return (DistinctMoments(self.reads) if self.distinct else Moments(self.reads, 1),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), **({"distinct": True} if self.distinct else {})}

    def result(self, n: int, states: Sequence[State]) -> int | float | Decimal | None:
        """Return an int over ints, a Decimal over ints and Decimals, else a float, rounded once."""
        state = _totals(states[0])
        lanes, spill = state
        if not lanes[0]:
            return None
        if not spill:
            return lanes[1]
        exact = Exact.of(state)
        if exact.stray is not None:
            return exact.stray
        if exact.floats:
            return to_float(*exact.totals[0])
        numerator, _ = exact.totals[0]
        return decimal_of(numerator, -exact.places) if exact.decimals else numerator

    def results(self, n: Ints, lanes: Sequence[Ints]) -> list[Any]:
        """Return the totals of groups without spills, which are ints."""
        if self.distinct:
            return [None] * len(n)
        totals: list[Any] = lanes[0][:, 1].tolist()
        counted = lanes[0][:, 0]
        if counted.all():
            return totals
        return [own if some else None for own, some in zip(totals, counted.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Mean(BaseReducer):
    """The exact total divided by the number of values, rounded once."""

    name: ClassVar[str] = "mean"
    distinct: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of totals of the first power."""
        return (DistinctMoments(self.reads) if self.distinct else Moments(self.reads, 1),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), **({"distinct": True} if self.distinct else {})}

    def result(self, n: int, states: Sequence[State]) -> float | Decimal | None:
        """Return a float, or 28 digits over Decimals without floats."""
        exact = Exact.of(_totals(states[0]))
        if not exact.m:
            return None
        if exact.stray is not None:
            return exact.stray
        numerator, denominator = exact.totals[0]
        return (to_decimal if exact.digits else to_float)(numerator, denominator * exact.m)


@dataclass(frozen=True, slots=True)
class Variance(BaseReducer):
    """The variance: computed exactly and rounded once."""

    name: ClassVar[str] = "variance"
    ddof: int = 1

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of totals up to the second power."""
        return (Moments(self.reads, 2),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), "ddof": self.ddof}

    def result(self, n: int, states: Sequence[State]) -> float | Decimal | None:
        """Return a float, or 28 digits over Decimals without floats, or None for too few values."""
        exact = Exact.of(states[0])
        if exact.m <= self.ddof:
            return None
        if exact.stray is not None:
            return math.nan
        return self._divided(*_spread(exact, self.ddof), exact.digits)

    def _divided(self, numerator: int, denominator: int, digits: bool) -> float | Decimal:
        return (to_decimal if digits else to_float)(numerator, denominator)


@dataclass(frozen=True, slots=True)
class Stddev(Variance):
    """The square root of the exact variance, rounded once."""

    name: ClassVar[str] = "stddev"

    def _divided(self, numerator: int, denominator: int, digits: bool) -> float | Decimal:
        return (root_decimal if digits else root_float)(numerator, denominator)


@dataclass(frozen=True, slots=True)
class Histogram(BaseReducer):
    """Counts of numbers between edges."""

    name: ClassVar[str] = "histogram"
    edges: tuple[Number, ...]
    __repr__ = repr_by_fields

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell with one count per bin."""
        return (Bins(self.reads, self.edges),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), "edges": [_edge_text(edge) for edge in self.edges]}

    def result(self, n: int, states: Sequence[State]) -> list[int]:
        """Return the counts, lowest bin first."""
        return list(states[0][0])


@dataclass(frozen=True, slots=True)
class Group(BaseReducer):
    """A user-defined invertible reducer."""

    name: ClassVar[str] = "group"
    functions: Functions | None

    @property
    def code(self) -> object:
        """Return the user's object."""
        return None if self.functions is None else self.functions.group

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the user's accumulator."""
        return (UserGroup(self.reads, self.functions),)

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the output of the user's `result` for the last accumulator."""
        spill = states[0][1]
        return None if spill is None else spill[1]


def count(f: str | None = None, *, where: Condition | None = None) -> Count:
    """Count contributions. `count("f")` counts those whose `f` is not null, and `where` those that a condition keeps.

    Every reducer takes `where`, a condition on the value. It skips the values that the condition leaves out.

    >>> import penstock as ps
    >>> ps.count(where=ps.field("n") > 1).over([{"n": 1}, {"n": 2}])
    1
    >>> ps.count().over([5, None]), ps.count("paid").over([{"paid": True}, {"paid": None}])
    (2, 1)
    """
    return Count(field_of(f, "count"), where=where_of(where))


def sum(f: str | None = None, *, distinct: bool = False, where: Condition | None = None) -> Sum:
    """Add numbers exactly: an int over ints, a Decimal over ints and Decimals, else a float, rounded once.

    A float sum equals `math.fsum` over the current values, in any order and after any retraction. A NaN, or both
    infinities, make it NaN. One infinity makes it that infinity. A retraction undoes this.

    >>> import penstock as ps
    >>> ps.sum().over([0.1] * 10), ps.sum("amount").over([{"amount": 1 << 64}, {"amount": None}])
    (1.0, 18446744073709551616)
    """
    return Sum(field_of(f, "sum"), distinct_of(distinct, "sum"), where=where_of(where))


def mean(f: str | None = None, *, distinct: bool = False, where: Condition | None = None) -> Mean:
    """Compute the mean of numbers: exact, then rounded once to a float, or to 28 digits over Decimals without floats.

    >>> import penstock as ps
    >>> from decimal import Decimal
    >>> ps.mean().over([1, 2]), ps.mean().over([Decimal("0.10"), Decimal("0.30")]), ps.mean().over([])
    (1.5, Decimal('0.2'), None)
    """
    return Mean(field_of(f, "mean"), distinct_of(distinct, "mean"), where=where_of(where))


def variance(f: str | None = None, ddof: int = 1, *, where: Condition | None = None) -> Variance:
    """Compute the variance of numbers: exact, then rounded once. The result is None for `ddof` values or fewer.

    >>> import penstock as ps
    >>> ps.variance().over([1e9 + 1, 1e9 + 2, 1e9 + 4]), ps.variance(ddof=0).over([7]), ps.variance().over([7])
    (2.3333333333333335, 0.0, None)
    """
    return Variance(field_of(f, "variance"), _ddof(ddof, "variance"), where=where_of(where))


def stddev(f: str | None = None, ddof: int = 1, *, where: Condition | None = None) -> Stddev:
    """Compute the standard deviation of numbers: the root of the exact variance, rounded once.

    >>> import penstock as ps
    >>> ps.stddev().over([1, 2, 3, 4]), ps.stddev(ddof=0).over([1, 3])
    (1.2909944487358056, 1.0)
    """
    return Stddev(field_of(f, "stddev"), _ddof(ddof, "stddev"), where=where_of(where))


def histogram(edges: Sequence[Number], f: str | None = None, *, where: Condition | None = None) -> Histogram:
    """Count numbers by bin: below the first edge, from each edge up to the next, and from the last edge on.

    >>> import penstock as ps
    >>> ps.histogram([0, 10, 100]).over([-5, 0, 9.99, 10, 1000])
    [1, 2, 1, 1]
    """
    if isinstance(edges, str | bytes | Mapping) or not isinstance(edges, Iterable):
        raise DefinitionError(
            f"the edges of a histogram are {key_text(edges)}; give a list of numbers, such as [0, 10, 100]"
        )
    checked = tuple(_edge(edge) for edge in edges)
    if not checked:
        raise DefinitionError("a histogram has no edges; give at least one number, such as [0]")
    for low, high in pairwise(checked):
        if Fraction(low) >= Fraction(high):
            raise DefinitionError(
                f"the edges of a histogram must ascend, but {key_text(high)} follows {key_text(low)}; sort them"
            )
    return Histogram(field_of(f, "histogram"), checked, where=where_of(where))


def group(g: object, f: str | None = None, *, where: Condition | None = None) -> Group:
    """Fold values by your own invertible reducer, whose accumulator supports merge and unmerge.

    `g` has `zero` (a value, or a function without arguments), `lift(value)`, `merge(a, b)`, `unmerge(a, b)`, and may
    have `result(a)`. `merge` must be commutative and associative, and `unmerge` must undo it. Accumulators and results
    are document values: a tuple becomes a list, and a set is refused. Functions receive maps with sorted names.

    >>> import penstock as ps
    >>> class Product:
    ...     zero = 1
    ...     def lift(self, value): return value
    ...     def merge(self, a, b): return a * b
    ...     def unmerge(self, a, b): return a // b
    >>> ps.group(Product()).over([2, 3, 7])
    42
    """
    return Group(field_of(f, "group"), Functions(g), where=where_of(where))


def reducer_from(description: Mapping[str, Any]) -> BaseReducer:
    """Rebuild a reducer from its description. Without its user functions it can be read but not updated.

    >>> import penstock as ps
    >>> reducer_from(ps.variance("a.b").describe()) == ps.variance("a.b")
    True
    """
    make = _MAKERS.get(description["reducer"])
    if make is None:
        raise DefinitionError(
            f"unknown reducer {description['reducer']!r}; open this store with the version of penstock that wrote it"
        )
    field, where = description["field"], description.get("where")
    made = make(None if field is None else tuple(field), description)
    return made if where is None else replace(made, where=where_from(where))


_MAKERS: dict[str, Callable[[Path | None, Mapping[str, Any]], BaseReducer]] = {
    Count.name: lambda field, _: Count(field),
    Sum.name: lambda field, d: Sum(field, d.get("distinct", False)),
    Mean.name: lambda field, d: Mean(field, d.get("distinct", False)),
    Variance.name: lambda field, d: Variance(field, d["ddof"]),
    Stddev.name: lambda field, d: Stddev(field, d["ddof"]),
    Histogram.name: lambda field, d: Histogram(field, tuple(_edge_from(*pair) for pair in d["edges"])),
    Group.name: lambda field, _: Group(field, None),
    **TREE_MAKERS,
}


def _totals(state: State) -> State:
    """Return the totals in a state: of `Moments`, or those that a cell of distinct values tallied."""
    lanes, spill = state
    if lanes:
        return state
    return ((0, 0), None) if spill is None else (tuple(spill[0][0]), spill[0][1])


def distinct_of(distinct: object, reducer: str) -> bool:
    """Check the option that counts each value once."""
    if not isinstance(distinct, bool):
        raise DefinitionError(
            f"distinct= of {reducer}() is {key_text(distinct)}; write True to count each value once, or leave it out"
        )
    return distinct


def _ddof(ddof: object, reducer: str) -> int:
    if type(ddof) is not int or ddof < 0:
        raise DefinitionError(f"ddof of {reducer}() is {key_text(ddof)}; give 1 for a sample or 0 for everything")
    return ddof


def _edge(edge: object) -> Number:
    try:
        value = normalise(edge)
    except ValueKind:
        value = None
    if isinstance(value, bool | None) or not isinstance(value, int | float | Decimal):
        raise DefinitionError(f"an edge of a histogram is {key_text(edge)}; give finite ints, floats or Decimals")
    if isinstance(value, float) and not math.isfinite(value):
        raise DefinitionError(
            f"an edge of a histogram is {key_text(edge)}; leave it out, the outer bins are open anyway"
        )
    return value


def _edge_text(edge: Number) -> list[str]:
    """Return an edge as text from which it can be restored exactly."""
    if isinstance(edge, Decimal):
        return ["decimal", str(edge)]
    return ["float", edge.hex()] if isinstance(edge, float) else ["int", hex(edge)]


def _edge_from(kind: str, text: str) -> Number:
    return Decimal(text) if kind == "decimal" else float.fromhex(text) if kind == "float" else int(text, 16)


def _spread(exact: Exact, ddof: int) -> tuple[int, int]:
    """Return (m·Σv² − (Σv)²) / (m·(m − ddof)) as one ratio."""
    (s, p), (q, r) = exact.totals
    m = exact.m
    return m * q * p * p - s * s * r, r * p * p * m * (m - ddof)
