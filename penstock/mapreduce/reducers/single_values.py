"""The reducers with one value of a group: chosen by ts, by another field or by truth, or the only one.

`any` and `all` count true and false. `only` holds a group with different values. The others choose a contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.cache import PenstockError
from penstock.mapreduce.reducers.base import BaseReducer, Condition, by_of, field_of, nulls_of, where_of
from penstock.mapreduce.reducers.counts import Bins
from penstock.mapreduce.reducers.extremes import Single
from penstock.mapreduce.reducers.first_last import Choice, Peak
from penstock.views import TS, Cell, FieldForm, Path, State, parse_path


@dataclass(frozen=True, slots=True)
class Last(BaseReducer):
    """The value with the greatest ts, or with the greatest value of another field."""

    name: ClassVar[str] = "last"
    last: ClassVar[bool] = True
    by: Path | None
    nulls: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the value with its order and source."""
        return (Choice(self.reads, self.by or TS, self.last),)

    @property
    def form(self) -> FieldForm:
        """Return the form in which the cell reads values: null counts in a list of its own."""
        return FieldForm.BOXED if self.nulls else FieldForm.VALUE

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        nulls: dict[str, object] = {"nulls": True} if self.nulls else {}
        return {**BaseReducer.describe(self), "by": None if self.by is None else list(self.by), **nulls}

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the value."""
        spill = states[0][1]
        if spill is None:
            return None
        return spill[0][-1][0] if self.nulls else spill[0][-1]


@dataclass(frozen=True, slots=True)
class First(Last):
    """The value with the least ts, or with the least value of another field."""

    name: ClassVar[str] = "first"
    last: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class ArgMax(BaseReducer):
    """The value with the greatest value of another field; of equal ones that of the least document key."""

    name: ClassVar[str] = "argmax"
    greatest: ClassVar[bool] = True
    by: Path

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the value with its order and source."""
        return (Peak(self.reads, self.by, self.greatest),)

    def describe(self) -> dict[str, object]:
        """Return the reducer as plain data, for `reducer_from`."""
        return {**BaseReducer.describe(self), "by": list(self.by)}

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the value."""
        spill = states[0][1]
        return None if spill is None else spill[0][-1]


@dataclass(frozen=True, slots=True)
class ArgMin(ArgMax):
    """The value with the least value of another field; of equal ones that of the least document key."""

    name: ClassVar[str] = "argmin"
    greatest: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Only(BaseReducer):
    """The one value of all contributions. A group with different values is held."""

    name: ClassVar[str] = "only"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the least and the greatest value, which must be equal."""
        return (Single(self.reads),)

    def result(self, n: int, states: Sequence[State]) -> Any:
        """Return the value. Several groups together may have different ones."""
        spill = states[0][1]
        if spill is None:
            return None
        error = Single(self.reads).failed(spill[0])
        if error is not None:
            raise PenstockError(error)
        return spill[0][0]


@dataclass(frozen=True, slots=True)
class AllTrue(BaseReducer):
    """True if no value is false."""

    name: ClassVar[str] = "all"

    @property
    def form(self) -> FieldForm:
        """Return the form in which the cell reads values: 1 for true and 0 for false."""
        return FieldForm.FLAG

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of two counts: false, and true."""
        return (Bins(self.reads, (1,)),)

    def result(self, n: int, states: Sequence[State]) -> bool | None:
        """Return null if there is no value."""
        false, true = states[0][0]
        return self._of(false, true) if false or true else None

    def _of(self, false: int, true: int) -> bool:
        return not false


@dataclass(frozen=True, slots=True)
class AnyTrue(AllTrue):
    """True if a value is true."""

    name: ClassVar[str] = "any"

    def _of(self, false: int, true: int) -> bool:
        return bool(true)


def first(f: str | None = None, by: str | None = None, *, nulls: bool = False, where: Condition | None = None) -> First:
    """Choose the value with the least ts, or with the least `by` if given. Ties go to the first source.

    `by` and `f` are fields of the same value. In `by` null sorts before everything. Values that are null are skipped,
    unless `nulls=True`.

    >>> import penstock as ps
    >>> ps.first("name", by="at").over([{"name": "Joe", "at": 5}, {"name": "Sue", "at": 3}, {"at": 1}])
    'Sue'
    """
    return First(field_of(f, "first"), by_of(by, "first"), nulls_of(nulls, "first"), where=where_of(where))


def last(f: str | None = None, by: str | None = None, *, nulls: bool = False, where: Condition | None = None) -> Last:
    """Choose the value with the greatest ts, or with the greatest `by` if given. Ties go to the last source.

    `by` and `f` are fields of the same value. In `by` null sorts before everything. Values that are null are skipped,
    unless `nulls=True`.

    >>> import penstock as ps
    >>> ps.last("name", by="at").over([{"name": "Joe", "at": 5}, {"name": "Sue", "at": 3}, {"name": "Bob", "at": 5}])
    'Bob'
    """
    return Last(field_of(f, "last"), by_of(by, "last"), nulls_of(nulls, "last"), where=where_of(where))


def argmax(f: str | None, by: str, *, where: Condition | None = None) -> ArgMax:
    """Choose the value of `f` with the greatest `by`. Ties go to the least document key.

    `by` and `f` are fields of the same value. Values without `by` are skipped, and so are nulls, as in SQL.

    >>> import penstock as ps
    >>> ps.argmax("name", by="age").over([{"name": "Joe", "age": 30}, {"name": "Sue", "age": 41}, {"name": "Bob"}])
    'Sue'
    """
    return ArgMax(field_of(f, "argmax"), parse_path(by, "by= of argmax()"), where=where_of(where))


def argmin(f: str | None, by: str, *, where: Condition | None = None) -> ArgMin:
    """Choose the value of `f` with the least `by`. Ties go to the least document key.

    `by` and `f` are fields of the same value. Values without `by` are skipped, and so are nulls, as in SQL.

    >>> import penstock as ps
    >>> ps.argmin("name", by="age").over([{"name": "Joe", "age": 30}, {"name": "Sue", "age": 30}, {"name": "Bob"}])
    'Joe'
    """
    return ArgMin(field_of(f, "argmin"), parse_path(by, "by= of argmin()"), where=where_of(where))


def only(f: str | None = None, *, where: Condition | None = None) -> Only:
    """Show the one value of a group. Nulls are skipped. Different values hold the group at its last good result.

    >>> import penstock as ps
    >>> ps.only("country").over([{"country": "NO"}, {"country": "NO"}, {}]), ps.only().over([])
    ('NO', None)
    """
    return Only(field_of(f, "only"), where=where_of(where))


def all(f: str | None = None, *, where: Condition | None = None) -> AllTrue:
    """Test whether all values are true. Nulls are skipped. Values other than true, false and null are refused.

    >>> import penstock as ps
    >>> ps.all().over([True, None]), ps.all("paid").over([{"paid": True}, {"paid": False}]), ps.all().over([None])
    (True, False, None)
    """
    return AllTrue(field_of(f, "all"), where=where_of(where))


def any(f: str | None = None, *, where: Condition | None = None) -> AnyTrue:
    """Test whether a value is true. Nulls are skipped. Values other than true, false and null are refused.

    >>> import penstock as ps
    >>> ps.any().over([False, True]), ps.any("paid").over([{"paid": False}]), ps.any().over([])
    (True, False, None)
    """
    return AnyTrue(field_of(f, "any"), where=where_of(where))


def _by(d: Mapping[str, Any]) -> Path | None:
    return None if d["by"] is None else tuple(d["by"])


SINGLE_MAKERS: dict[str, Callable[[Path | None, Mapping[str, Any]], BaseReducer]] = {
    First.name: lambda field, d: First(field, _by(d), d.get("nulls", False)),
    Last.name: lambda field, d: Last(field, _by(d), d.get("nulls", False)),
    ArgMax.name: lambda field, d: ArgMax(field, _by(d) or ()),
    ArgMin.name: lambda field, d: ArgMin(field, _by(d) or ()),
    Only.name: lambda field, _: Only(field),
    AllTrue.name: lambda field, _: AllTrue(field),
    AnyTrue.name: lambda field, _: AnyTrue(field),
}
