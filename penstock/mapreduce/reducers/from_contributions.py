"""The reducers without an inverse, as named in a view's definition, and how each reads its result.

All of them skip null, except functions, which are given every value. Over nulls only, distinct is 0, top, bottom and
collect are empty, and the others are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from penstock.cache import DefinitionError, key_text, repr_by_fields
from penstock.mapreduce.reducers.base import BaseReducer, Condition, field_of, nulls_of, where_of
from penstock.mapreduce.reducers.distinct_quantiles import DistinctCell, QuantilesCell
from penstock.mapreduce.reducers.extremes import Extreme, Ranking
from penstock.mapreduce.reducers.first_last import Collected, Order, Ordered
from penstock.mapreduce.reducers.single_values import SINGLE_MAKERS
from penstock.mapreduce.reducers.user_monoid import MonoidFunctions, Rereduced, UserMonoid
from penstock.views import Cell, FieldForm, Path, ReduceFunction, Reducer, State, parse_path

Share = int | float | Decimal | Fraction
_FINEST = 10**1_000


def _spilt(states: Sequence[State], otherwise: Any) -> Any:
    """Return the first entry of the single cell's spill."""
    spill = states[0][1]
    return otherwise if spill is None else spill[0]


@dataclass(frozen=True, slots=True)
class Max(BaseReducer):
    """The greatest value."""

    name: ClassVar[str] = "max"
    greatest: ClassVar[bool] = True

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the value."""
        return (Extreme(self.reads, self.greatest),)

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the value."""
        return _spilt(states, None)


@dataclass(frozen=True, slots=True)
class Min(Max):
    """The least value."""

    name: ClassVar[str] = "min"
    greatest: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Top(BaseReducer):
    """The n greatest values."""

    name: ClassVar[str] = "top"
    greatest: ClassVar[bool] = True
    n: int
    order: Order = ()
    __repr__ = repr_by_fields

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the ranked list."""
        if self.order:
            return (Ordered(self.reads, self.n, self.order),)
        return (Ranking(self.reads, self.n, self.greatest),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        order: list[object] = [f"-{'.'.join(path)}" if down else ".".join(path) for path, down in self.order]
        return {**BaseReducer.describe(self), "n": self.n, **({"order": order} if order else {})}

    def result(self, n: int, states: Sequence[State]) -> list[Any]:
        """Return the values, best first."""
        return [item[-1] for item in _spilt(states, ())] if self.order else list(_spilt(states, ()))


@dataclass(frozen=True, slots=True, repr=False)
class Bottom(Top):
    """The n least values."""

    name: ClassVar[str] = "bottom"
    greatest: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Collect(BaseReducer):
    """The values of the first n sources."""

    name: ClassVar[str] = "collect"
    n: int
    nulls: bool = False
    __repr__ = repr_by_fields

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the values with their sources."""
        return (Collected(self.reads, self.n),)

    @property
    def form(self) -> FieldForm:
        """Return the form in which the cell reads values: null counts in a list of its own."""
        return FieldForm.BOXED if self.nulls else FieldForm.VALUE

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), "n": self.n, **({"nulls": True} if self.nulls else {})}

    def result(self, n: int, states: Sequence[State]) -> list[Any]:
        """Return the values, in the order of their sources."""
        return [value[0] if self.nulls else value for _, _, value in _spilt(states, ())]


@dataclass(frozen=True, slots=True)
class Monoid(BaseReducer):
    """A user-defined monoid."""

    name: ClassVar[str] = "monoid"
    functions: MonoidFunctions | None

    @property
    def code(self) -> object:
        """Return the user's object."""
        return None if self.functions is None else self.functions.group

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the user's accumulator."""
        return (UserMonoid(self.reads, self.functions),)

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the output of the user's `result` for the last accumulator."""
        spill = states[0][1]
        return None if spill is None else spill[1]


@dataclass(frozen=True, slots=True)
class Function(BaseReducer):
    """A user-defined reduce function, as in CouchDB."""

    name: ClassVar[str] = "function"
    function: ReduceFunction | None
    called: str
    keys: bool

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the function's output."""
        return (Rereduced(self.field, self.function),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), "function": self.called, "keys": self.keys}

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the function's output."""
        return _spilt(states, [None])[0]


@dataclass(frozen=True, slots=True)
class Distinct(BaseReducer):
    """The number of distinct values."""

    name: ClassVar[str] = "distinct"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the values, with equal ones as one entry."""
        return (DistinctCell(self.reads),)

    def result(self, n: int, states: Sequence[State]) -> int:
        """Return the count."""
        return int(_spilt(states, 0))


@dataclass(frozen=True, slots=True)
class Quantiles(BaseReducer):
    """Quantiles of the numbers."""

    name: ClassVar[str] = "quantiles"
    shares: tuple[Fraction, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the numbers in order."""
        return (QuantilesCell(self.reads, self.shares),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), "shares": [str(share) for share in self.shares]}

    def result(self, n: int, states: Sequence[State]) -> list[Any] | None:
        """Return the numbers, in the order of the shares."""
        numbers = _spilt(states, None)
        return None if numbers is None else list(numbers)


def max(f: str | None = None, *, where: Condition | None = None) -> Max:
    """Compute the greatest value, of any kind, in the order of groups: null < false < true < numbers < text < …

    >>> import penstock as ps
    >>> ps.max().over([3, 10.5, None, 7]), ps.max("name").over([{"name": "Sue"}, {"name": "Joe"}])
    (10.5, 'Sue')
    """
    return Max(field_of(f, "max"), where=where_of(where))


def min(f: str | None = None, *, where: Condition | None = None) -> Min:
    """Compute the least value, of any kind, in the order of groups. Nulls are skipped.

    >>> import penstock as ps
    >>> ps.min().over([3, None, "x"]), ps.min("age").over([{}])
    (3, None)
    """
    return Min(field_of(f, "min"), where=where_of(where))


def top(n: int, f: str | None = None, by: str | Sequence[str] | None = None, *, where: Condition | None = None) -> Top:
    """Compute the n greatest values, greatest first, or with `by` the first n values in the order of other fields.

    Equal values count separately. `by` is a field or a list of fields of the same value, "-amount" is descending.
    Null sorts before everything, and last where a field descends. Ties go to the first source.

    >>> import penstock as ps
    >>> ps.top(3).over([1, 8, 8, None, 5])
    [8, 8, 5]
    >>> ps.top(2, "name", by=["-age", "name"]).over([{"name": "Al"}, {"name": "Bo", "age": 7}])
    ['Bo', 'Al']
    """
    return Top(field_of(f, "top"), _number(n, "top"), () if by is None else order_of(by), where=where_of(where))


def order_of(by: object) -> Order:
    """Parse the fields that order the values of `top`."""
    names = [by] if isinstance(by, str) else by
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise DefinitionError(
            f"by= of top() is {key_text(by)}; name a field, or a list of fields, such as ['-amount', 'name']"
        )
    return tuple((parse_path(name.removeprefix("-"), "by= of top()"), name.startswith("-")) for name in names)


def bottom(n: int, f: str | None = None, *, where: Condition | None = None) -> Bottom:
    """Compute the n least values, least first. Equal values count separately.

    >>> import penstock as ps
    >>> ps.bottom(2, "age").over([{"age": 30}, {"age": 7}, {}, {"age": 12.5}])
    [7, 12.5]
    """
    return Bottom(field_of(f, "bottom"), _number(n, "bottom"), where=where_of(where))


def collect(n: int, f: str | None = None, *, nulls: bool = False, where: Condition | None = None) -> Collect:
    """Collect the values of the first n sources, ordered by document key and then by rank within the document.

    Nulls are skipped, unless `nulls=True`.

    >>> import penstock as ps
    >>> ps.collect(2).over(["c", None, "a", "b"])
    ['c', 'a']
    """
    return Collect(field_of(f, "collect"), _number(n, "collect"), nulls_of(nulls, "collect"), where=where_of(where))


def monoid(m: object, f: str | None = None, *, where: Condition | None = None) -> Monoid:
    """Fold values by your own monoid, whose accumulator supports merge.

    `m` has `zero` (a value, or a function without arguments), `lift(value)`, `merge(a, b)`, and may have `result(a)`.
    `merge` must be commutative and associative, with `zero` as its identity. The document keys determine the tree along
    which values are merged. Accumulators and results are document values: a tuple becomes a list, and a set is refused.
    Functions receive maps with sorted names. If values can be removed from an accumulator, a `group` is faster.

    >>> import penstock as ps
    >>> class Longest:
    ...     zero = ""
    ...     def lift(self, value): return value
    ...     def merge(self, a, b): return sorted([a, b], key=lambda text: (len(text), text))[1]
    ...     def result(self, a): return a.upper()
    >>> ps.monoid(Longest(), "name").over([{"name": "Sue"}, {"name": "Annabel"}, {}])
    'ANNABEL'
    """
    return Monoid(field_of(f, "monoid"), MonoidFunctions(m), where=where_of(where))


def distinct(f: str | None = None, *, where: Condition | None = None) -> Distinct:
    """Count distinct values exactly: 1 and 1.0 count as one, true counts separately, and nulls are skipped.

    >>> import penstock as ps
    >>> ps.distinct().over([1, 1.0, True, "1", None]), ps.distinct("city").over([{}])
    (3, 0)
    """
    return Distinct(field_of(f, "distinct"), where=where_of(where))


def quantiles(qs: Iterable[Share], f: str | None = None, *, where: Condition | None = None) -> Quantiles:
    """Compute exact quantiles of the numbers at these shares: 0 is the least number, 1 the greatest.

    Each quantile is the least stored number with this share of all numbers at or before it. A float share is taken as
    written: 0.1 is a tenth.

    >>> import penstock as ps
    >>> ps.quantiles([0, 0.5, 0.9, 1]).over([5, 1, 4, 2.5, None])
    [1, 2.5, 5, 5]
    """
    if isinstance(qs, str | bytes | Mapping) or not isinstance(qs, Iterable):
        raise DefinitionError(
            f"the shares of quantiles() are {key_text(qs)}; give a list of numbers, such as [0.5, 0.99]"
        )
    shares = tuple(_share(q) for q in qs)
    if not shares:
        raise DefinitionError("quantiles() has no shares; give at least one number from 0 to 1, such as [0.5]")
    return Quantiles(field_of(f, "quantiles"), shares, where=where_of(where))


def resolved(reducers: Iterable[Reducer | ReduceFunction]) -> tuple[Reducer, ...]:
    """Return the reducers of a view. A user's function becomes the reducer that runs it."""
    return tuple(_by_function(r) if isinstance(r, ReduceFunction) else r for r in reducers)


def _by_function(function: ReduceFunction) -> Function:
    return Function(None, function, str(function.describe()["function"]), function.keys)


TREE_MAKERS: dict[str, Callable[[Path | None, Mapping[str, Any]], BaseReducer]] = {
    Max.name: lambda field, _: Max(field),
    Min.name: lambda field, _: Min(field),
    Top.name: lambda field, d: Top(field, d["n"], order_of(d["order"]) if "order" in d else ()),
    Bottom.name: lambda field, d: Bottom(field, d["n"]),
    Collect.name: lambda field, d: Collect(field, d["n"], d.get("nulls", False)),
    **SINGLE_MAKERS,
    Monoid.name: lambda field, _: Monoid(field, None),
    Function.name: lambda field, d: Function(field, None, d["function"], d["keys"]),
    Distinct.name: lambda field, _: Distinct(field),
    Quantiles.name: lambda field, d: Quantiles(field, tuple(map(Fraction, d["shares"]))),
}


def _number(n: object, reducer: str) -> int:
    if type(n) is not int or n < 1:
        raise DefinitionError(f"{reducer}() is told to keep {key_text(n)} values; give a number of 1 or more")
    return n


def _share(q: object) -> Fraction:
    if isinstance(q, int | float | Decimal | Fraction) and not isinstance(q, bool):
        try:
            share = Fraction(float.__repr__(q)) if isinstance(q, float) else Fraction(q)
        except (ValueError, OverflowError):  # NaN or an infinity
            share = Fraction(-1)
        if 0 <= share <= 1 and share.denominator < _FINEST:
            return share
    raise DefinitionError(
        f"a share of quantiles() is {key_text(q)}; give numbers from 0 to 1 of at most 1,000 digits, such as 0.5"
    )
