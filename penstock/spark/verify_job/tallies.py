"""Tally contributions by group, many at a time, for documents with plain values.

It uses lists, dicts, Python's ints and fractions, not the engine's columns or reducers. Tallies are folded as the
oracle folds contributions. Invariants:

- Values of one type that are equal in Python count as one value. The types are text, int, null, finite float and
  Decimal.
- A value that isn't plain is reported instead of tallied, so that the oracle examines its document.
- Tallies can be added: the division of contributions into parts has no effect.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from penstock.cache import PenstockError, encode_key
from penstock.recovery import RECIPES, Numbers, ReducerInput, result_of
from penstock.views import FieldMap, Path, View

__all__ = ["Tally", "ViewTallies", "distinct_groups", "folded"]

_NULL = type(None)
_FLAGS: dict[bool, object] = {True: object(), False: object()}
_MEANT = {token: flag for flag, token in _FLAGS.items()}
_GROUPS: frozenset[type] = frozenset({str, int, _NULL, object})
_NUMBERS: frozenset[type] = frozenset({int, float, Decimal, _NULL})
_VALUES: frozenset[type] = frozenset({str, int, float, _NULL})
_ROUGH: frozenset[type] = frozenset({float, Decimal})  # may be infinite or NaN
_SUMMED = ("sum", "mean", "variance", "stddev")
_SQUARED = ("variance", "stddev")
_VALUED = ("min", "max", "top", "bottom", "distinct", "quantiles", "histogram")
_SINGLE = {"where", "order", "distinct"}  # options that need single contributions
Described = Mapping[str, Any]
Kind = list[Any]  # count, sums by denominator, sums of squares, count of each value
Tally = tuple[int, list[dict[str, Kind]]]  # count of contributions, and for each path the kinds


def read_at(view: View, described: Described) -> Path | None:
    """Return the path that a reducer reads in a contribution. None means the value itself, or no value."""
    field: Any = described["field"]
    own = None if field is None else tuple(field)
    return view.map.path_of(own) if isinstance(view.map, FieldMap) else own


def _counts_all(described: Described) -> bool:
    return described["reducer"] == "count" and described["field"] is None


def _paths(view: View, described: Sequence[Described]) -> tuple[Path | None, ...]:
    """Return the paths that reducers read, without repetition."""
    return tuple(dict.fromkeys(read_at(view, own) for own in described if not _counts_all(own)))


def distinct_groups(groups: list[Any]) -> list[Any]:
    """Return the groups with bools replaced by objects that equal no number."""
    if bool not in set(map(type, groups)):
        return groups
    return [_FLAGS[group] if type(group) is bool else group for group in groups]


def _meant(group: Any) -> Any:
    if type(group) is tuple:
        return tuple(map(_meant, group))
    return _MEANT[group] if type(group) is object else group


class _ColumnTally:
    """The tallies of one path: the count of each kind of value, and the sums that reducers need."""

    def __init__(self, described: Sequence[Described]) -> None:
        names = {own["reducer"] for own in described}
        self._summed, self._squared = bool(names & set(_SUMMED)), bool(names & set(_SQUARED))
        self._valued = bool(names & set(_VALUED))
        self._times: defaultdict[type, Counter[Any]] = defaultdict(Counter)
        self._sums: defaultdict[type, defaultdict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._squares: defaultdict[type, defaultdict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._values: defaultdict[type, Counter[Any]] = defaultdict(Counter)
        self._plain: frozenset[type] | None = None
        if self._summed:
            self._plain = _NUMBERS
        if self._valued:
            self._plain = _VALUES if self._plain is None else self._plain & _VALUES
        if self._plain is not None and any(name in RECIPES and RECIPES[name].numeric for name in names):
            self._plain = self._plain & _NUMBERS

    def strange(self, values: Sequence[Any]) -> list[int]:
        """Return the places of values that are not plain."""
        plain = self._plain
        if plain is None or (kinds := set(map(type, values))) <= plain - _ROUGH:
            return []
        if kinds <= plain and not self._valued and all(map(isfinite, [v for v in values if type(v) in _ROUGH])):
            return []
        return [i for i, value in enumerate(values) if not self._takes(value, plain)]

    def _takes(self, value: Any, plain: frozenset[type]) -> bool:
        if type(value) not in _ROUGH:
            return type(value) in plain
        return type(value) in plain and isfinite(value) and bool(value or not self._valued)  # zeros have two signs

    def add(self, groups: Sequence[Any], values: Sequence[Any]) -> None:
        """Add plain values, each with its group."""
        kinds = set(map(type, values))
        for kind in kinds - {_NULL}:
            own_groups, own = groups, values
            if len(kinds) > 1:
                at = [i for i, value in enumerate(values) if type(value) is kind]
                own_groups, own = [groups[i] for i in at], [values[i] for i in at]
            self._times[kind].update(own_groups)
            if self._summed:
                self._sum(kind, own_groups, own)
            if self._valued:
                self._values[kind].update(zip(own_groups, own, strict=True))

    def _sum(self, kind: type, groups: Sequence[Any], values: Sequence[Any]) -> None:
        sums, squares = self._sums[kind], self._squares[kind]
        if kind is int and not self._squared:
            for group, value in zip(groups, values, strict=True):
                sums[group, 1] += value
            return
        for group, value in zip(groups, values, strict=True):
            numerator, denominator = value.as_integer_ratio()
            sums[group, denominator] += numerator
            if self._squared:
                squares[group, denominator] += numerator * numerator

    def give(self, out: Mapping[Any, Tally], i: int) -> None:
        """Add these tallies to those of groups, as path number `i`."""
        for kind, times in self._times.items():
            for group, n in times.items():
                out[group][1][i][kind.__name__] = [n, {}, {}, {}]
        for place, tallied in ((1, self._sums), (2, self._squares), (3, self._values)):
            for kind, by_group in tallied.items():
                for (group, what), n in by_group.items():
                    out[group][1][i][kind.__name__][place][what] = n


class ViewTallies:
    """The tallies of one view."""

    def __init__(self, view: View, described: Sequence[Described]) -> None:
        self._view = view
        self._described = described
        self._paths = _paths(view, described)
        self._begin()

    def _begin(self) -> None:
        self._n: Counter[Any] = Counter()
        self._columns = {
            path: _ColumnTally(
                [own for own in self._described if not _counts_all(own) and read_at(self._view, own) == path]
            )
            for path in self._paths
        }
        self._encoded: dict[Any, bytes | None] = {}

    @classmethod
    def of(cls, view: View, described: Sequence[Described]) -> ViewTallies | None:
        """Return the tallies of a view, or None if a reducer needs single contributions."""
        names = {own["reducer"] for own in described}
        tallied = not view.index and names <= {"count", *_SUMMED, *_VALUED}
        tallied = tallied and not any(own.keys() & _SINGLE for own in described)
        return cls(view, described) if tallied else None

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """Return the paths that reducers read."""
        return self._paths

    @property
    def size(self) -> int:
        """Return the number of groups."""
        return len(self._n)

    def encoded(self, groups: Sequence[Any]) -> list[bytes | None]:
        """Return groups in their stored form. None stands for a group that isn't plain or isn't allowed."""
        kinds = set(map(type, groups))
        if kinds <= _GROUPS or (kinds == {tuple} and all(set(map(type, group)) <= _GROUPS for group in groups)):
            return list(map(self._encoding, groups))
        return [self._encoding(group) if _plain_group(group) else None for group in groups]

    def _encoding(self, group: Any) -> bytes | None:
        known = self._encoded.get(group)
        if known is None and group not in self._encoded:
            try:
                known = encode_key(_meant(group))
            except (PenstockError, ValueError):
                known = None
            self._encoded[group] = known
        return known

    def strange(self, columns: Mapping[Path | None, Sequence[Any]]) -> set[int]:
        """Return the places of contributions with a value that isn't plain."""
        return {i for path in self._paths for i in self._columns[path].strange(columns[path])}

    def add(self, groups: Sequence[Any], columns: Mapping[Path | None, Sequence[Any]]) -> None:
        """Add plain contributions: their groups, and by path the values that reducers read."""
        self._n.update(groups)
        for path in self._paths:
            self._columns[path].add(groups, columns[path])

    def tallies(self) -> Iterator[tuple[bytes, Tally]]:
        """Yield the encoded group and the tally of each group, and clear them."""
        out: dict[Any, Tally] = {group: (n, [{} for _ in self._paths]) for group, n in self._n.items()}
        for i, path in enumerate(self._paths):
            self._columns[path].give(out, i)
        encoded = self._encoded
        self._begin()
        for group, tally in out.items():
            data = encoded[group]
            assert data is not None, "every tallied group can be encoded"
            yield data, tally


def _plain_group(group: Any) -> bool:
    if type(group) is tuple:
        return set(map(type, group)) <= _GROUPS
    return type(group) in _GROUPS


def folded(
    view: View, described: Sequence[Described], tallies: Sequence[Tally], given: Sequence[Sequence[ReducerInput]]
) -> Any:
    """Return the result of a group from its tallies and from the contributions that were not tallied."""
    paths = _paths(view, described)
    results = []
    for own, more in zip(described, given, strict=True):
        path = read_at(view, own)
        if _counts_all(own):
            results.append(sum(n for n, _ in tallies) + len(more))
            continue
        kinds = [(name, *kind) for _, by_path in tallies for name, kind in by_path[paths.index(path)].items()]
        results.append(_result(own, kinds, more))
    return results[0] if view.fields is None else dict(zip(view.fields, results, strict=True))


_KINDS: dict[str, type] = {kind.__name__: kind for kind in (str, int, float, Decimal)}


def _result(described: Described, kinds: Sequence[tuple[Any, ...]], given: Sequence[ReducerInput]) -> Any:
    name = described["reducer"]
    if name == "count":
        return sum(n for _, n, *_ in kinds) + result_of(described, None, None, given)
    if name in _SUMMED:
        numbers = Numbers(described)
        numbers.add(given)
        for kind, n, sums, squares, _ in kinds:
            numbers.more(_KINDS[kind], n, _total(sums, 1), _total(squares, 2))
        return numbers.result()
    more = [ReducerInput(value, ((), 0)) for *_, values in kinds for value, n in values.items() for _ in range(n)]
    return result_of(described, None, None, [*more, *given])


def _total(sums: Mapping[int, int], power: int) -> Fraction:
    return sum((Fraction(n, denominator**power) for denominator, n in sums.items()), Fraction(0))
