"""A user-defined invertible reducer as a cell: zero, lift, merge, unmerge and optional result, value by value.

The user's functions run inside a batch, so their effects must not reach beyond their group. A state is one lane (the
number of values that are not null) and the spill [accumulator, result, owed]. Invariants:

- every argument is a private copy: no function sees an object of another group, document or batch;
- after each step an accumulator is a document value with sorted maps. So storing it does not change it;
- `update` raises no user error: a value that failed is `owed`, as [how many more times, value]. Each later update of
  the group tries it again. Equal values that are added and removed cancel out;
- [0, None] in `owed` means that the accumulator is right and `result` failed on it;
- while anything is owed the result is the last good one, else the spill is a function of the values;
- without values there is no spill: an emptied group is at zero again, even if values were owed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.cache import DefinitionError, ValueKind, canonical, normalise, unpack
from penstock.mapreduce.columns.column import LaneKind
from penstock.mapreduce.reducers.exact_group_sums import count_of
from penstock.views import GroupTotals, Ints, Locals, Need, Path, SideTotals, State, Values

_FIXED = frozenset((type(None), bool, int, float))
_ELSEWHERE = "the functions of this group are in the app that defined it; open the store with that app"
_FOREIGN = "a side is made by the `batch` of the cell that is to be updated"

Owed = dict[bytes, list[Any]]


def own(value: Any) -> Any:
    """Return the value as a private copy, in the canonical form of equal values."""
    value = normalise(value)
    return value if type(value) in _FIXED else unpack(canonical(value))


class Functions:
    """The user's functions, checked. Two are equal if they belong to the same object."""

    __slots__ = ("_result", "_zero", "group")
    word: ClassVar[str] = "group"
    needed: ClassVar[Mapping[str, str]] = {"lift": "(value)", "merge": "(a, b)", "unmerge": "(a, b)"}

    def __init__(self, group: Any) -> None:
        name = f"{self.word} {type(group).__name__}"
        for method in self.needed:
            if not callable(getattr(group, method, None)):
                whole = ", ".join(method + parameters for method, parameters in self.needed.items())
                raise DefinitionError(f"the {name} has no method {method}; give it zero, {whole}")
        if not hasattr(group, "zero"):
            raise DefinitionError(f"the {name} has no zero; give it the accumulator of no values")
        self.group = group
        self._result = getattr(group, "result", None)
        if self._result is not None and not callable(self._result):
            raise DefinitionError(f"the {name} has a result that cannot be called; make it result(accumulator)")
        zero = group.zero() if callable(group.zero) else group.zero
        try:
            self._zero = canonical(normalise(zero))
        except ValueKind as error:
            raise DefinitionError(
                f"the zero of the {name} cannot be stored; make it a document value: {error}"
            ) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Functions) and self.group is other.group

    def __hash__(self) -> int:
        return id(self.group)

    @property
    def zero(self) -> bytes:
        """Return the accumulator of no values, packed as accumulators are between two steps."""
        return self._zero

    def step(self, accumulator: bytes, value: Any, add: bool) -> bytes:
        """Return the accumulator with one value added or removed."""
        lifted = own(self.group.lift(own(value)))
        return canonical(normalise((self.group.merge if add else self.group.unmerge)(unpack(accumulator), lifted)))

    def merged(self, a: bytes, b: bytes) -> bytes:
        """Merge two accumulators."""
        return canonical(normalise(self.group.merge(unpack(a), unpack(b))))

    def result(self, accumulator: bytes) -> Any:
        """Return the result of an accumulator."""
        whole = unpack(accumulator)
        return whole if self._result is None else own(self._result(whole))


@dataclass(frozen=True, slots=True)
class UserSide:
    """The values of one side of a batch, by group."""

    count: Ints
    values: dict[int, list[Any]]

    @property
    def m(self) -> int:
        """Return the number of groups."""
        return self.count.size


@dataclass(frozen=True, slots=True)
class UserGroup:
    """A user's accumulator. Without the functions its results can be read but not updated."""

    field: Path | None
    functions: Functions | None

    @property
    def need(self) -> Need:
        """Require the value itself, for the user's functions."""
        return Need.VALUE

    @property
    def lanes(self) -> int:
        """Return 1, for the number of values."""
        return 1

    def batch(self, loc: Locals, m: int, column: Values) -> UserSide:
        """Collect the values by group. Nulls are skipped."""
        taken = column.values()
        values: dict[int, list[Any]] = {}
        present = None if column.kind is None else (column.kind != LaneKind.NULL)
        for i, g in enumerate(loc.tolist()):
            if present is None or present[i]:
                values.setdefault(g, []).append(taken[i])
        return UserSide(count_of(loc.astype(np.intp) if present is None else loc[present].astype(np.intp), m), values)

    def update(self, old: GroupTotals, plus: SideTotals, minus: SideTotals) -> GroupTotals:
        """Return the accumulators with one side added and the other removed."""
        assert isinstance(plus, UserSide), _FOREIGN
        assert isinstance(minus, UserSide), _FOREIGN
        if self.functions is None:
            raise DefinitionError(_ELSEWHERE)
        lanes = old.lanes + (plus.count - minus.count)
        totals = GroupTotals(lanes, dict(old.spill))
        counts = lanes[0].tolist()
        for g in {*plus.values, *minus.values, *(g for g, row in old.spill.items() if row[2])}:
            if not counts[g]:
                totals.spill.pop(g, None)
                continue
            owed = _owed(old.spill.get(g), plus.values.get(g, ()), minus.values.get(g, ()))
            totals.spill[g], error = self._settled(self.functions, old.spill.get(g), owed)
            if error is not None:
                totals.errors[g] = error
        return totals

    def merge(self, a: State, b: State) -> State:
        """Merge the accumulators of two groups, and join their owed values. Errors of user functions are raised."""
        (one, left), (two, right) = a, b
        lanes = (one[0] + two[0],)
        if left is None or right is None:
            return lanes, left if right is None else right
        if self.functions is None:
            raise DefinitionError(_ELSEWHERE)
        accumulator = self.functions.merged(canonical(left[0]), canonical(right[0]))
        return lanes, [unpack(accumulator), self.functions.result(accumulator), [*left[2], *right[2]]]

    @staticmethod
    def _settled(run: Functions, old: list[Any] | None, owed: Owed) -> tuple[list[Any], Exception | None]:
        """Try all owed values, additions first. Return the spill and the first error."""
        accumulator, result = (canonical(old[0]), old[1]) if old else (run.zero, None)
        still: list[list[Any]] = []
        first: Exception | None = None
        for _, (times, value) in sorted(owed.items(), key=lambda item: (item[1][0] < 0, item[0])):
            left = abs(times)
            try:
                while left:
                    accumulator = run.step(accumulator, value, times > 0)
                    left -= 1
            except Exception as error:
                first = first or error
                still.append([left if times > 0 else -left, value])
        if first is None:
            try:
                result = run.result(accumulator)
            except Exception as error:
                first = error
                still.append([0, None])
        return [unpack(accumulator), result, still], first


def _owed(old: list[Any] | None, plus: Sequence[Any], minus: Sequence[Any]) -> Owed:
    """Return the values still to be applied, with equal values combined."""
    owed: Owed = {}
    entries = [*((times, value) for times, value in (old[2] if old else ()) if times)]
    for times, value in (*entries, *((1, v) for v in plus), *((-1, v) for v in minus)):
        key = canonical(value)
        if key in owed:
            owed[key][0] += times
        else:
            owed[key] = [times, value]
    return {key: [times, own(value)] for key, (times, value) in owed.items() if times}
