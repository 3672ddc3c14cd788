"""A view recomputed from scratch over documents, in plain Python: small and slow on purpose.

It shares no code with what keeps views but the app's definitions and the functions in them: a map is asked for every
document anew, and every group is folded anew. A document that a view can't map counts nothing here and is named; the
engine keeps what that view was last told of it, which no recompute can know.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from penstock.recovery.oracle.large_groups import large
from penstock.recovery.oracle.plain_reducers import Given, check_value, result_of
from penstock.recovery.oracle.plain_values import Rank, Refused, at, group_of, place, rank, value_of
from penstock.views import FieldMap, Path, ReduceFunction, Reducer, Row, Table, View

Moment = int | float | Fraction
Reducing = Reducer | ReduceFunction
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(slots=True)
class Shown:
    """A row that a view should show: its group and result, and the contributions that make it, by document."""

    group: Any
    result: Any = None
    refused: str = ""  # why the reducer has no result
    by: list[tuple[Any, Any]] = field(default_factory=list)  # (key of the document, value)


@dataclass(slots=True)
class Recomputed:
    """A view from scratch: its rows by their rank, and by the rank of its key each document that it can't map."""

    rows: dict[Rank, Shown] = field(default_factory=dict)
    held: dict[Rank, tuple[Any, str]] = field(default_factory=dict)

    def sorted(self) -> list[tuple[Any, Any]]:
        """Groups and results in group order."""
        return [(self.rows[where].group, self.rows[where].result) for where in sorted(self.rows)]


def recomputed(
    view: View, source: Iterable[tuple[Any, Any]], moments: Mapping[Rank, Moment] | None = None
) -> Recomputed:
    """A view over documents or rows by their keys; `moments` has the ts of each, where there is one."""
    out = Recomputed()
    given: dict[Rank, list[_Contribution]] = {}
    for key, doc in source:
        where = rank(key)
        try:
            pairs = emission(view, key, doc)
        except Exception as why:
            out.held[where] = key, f"{type(why).__name__}: {why}"
            continue
        numbers: dict[Rank, int] = {}
        for group, value in pairs:
            at_group = rank(group)
            number = numbers[at_group] = numbers.get(at_group, -1) + 1
            if view.index:
                group = (group, key, number)
                at_group = rank(group)
            out.rows.setdefault(at_group, Shown(group)).by.append((key, value))
            moment = (moments or {}).get(where)
            given.setdefault(at_group, []).append(_Contribution(key, where, number, value, moment))
    for at_group, shown in out.rows.items():
        try:
            shown.result = _result(view, shown.group, given[at_group])
        except Exception as why:
            shown.refused = f"{type(why).__name__}: {why}"
    return out


def recomputed_large(view: View, group: Any, source: Iterable[Sequence[tuple[Any, ...]]]) -> dict[int, Any]:
    """The result of one group by the number of each reducer, of those that can be folded part by part.

    `source` are all documents or rows that may contribute to it: the key and the document of each, and its ts where
    there is one, in parts of which one is in memory.
    """
    described = [reducer.describe() for reducer in view.reducers]
    made = [large(said, user_of(reducer)) for said, reducer in zip(described, view.reducers, strict=True)]
    wanted = rank(group)
    for part in source:
        own: list[_Contribution] = []
        for key, doc, *moment in part:
            try:
                values = [value for at_group, value in emission(view, key, doc) if rank(at_group) == wanted]
            except Exception:  # it counts nothing here, as in a recompute of a whole view
                continue
            ts = moment[0] if moment else None
            own += [_Contribution(key, rank(key), number, value, ts) for number, value in enumerate(values)]
        for said, reducer, one in zip(described, view.reducers, made, strict=True):
            if one is not None:
                one.add(_given(view, said, reducer, own))
    return {i: one.result() for i, one in enumerate(made) if one is not None}


def refolded(view: View, group: Any, given: Iterable[tuple[Any, int, Any, Moment | None]]) -> Any:
    """The result of one group over all that counts for it: keys, numbers among their keys', values, and moments."""
    own = [_Contribution(key, rank(key), number, value, moment) for key, number, value, moment in given]
    return _result(view, group, own)


@dataclass(frozen=True, slots=True)
class _Contribution:
    key: Any
    where: Rank
    number: int
    value: Any
    moment: Moment | None


def emission(
    view: View, key: Any, doc: Any, described: Sequence[Mapping[str, Any]] | None = None
) -> list[tuple[Any, Any]]:
    """What a view is told of one document, in one order; raises where the document can't be mapped.

    `described` is what its reducers say of themselves, for who asks of many documents.
    """
    chained = not isinstance(view.source, Table)
    if isinstance(view.map, FieldMap):
        told = [
            (group_of(g), value) for g, value in _by_fields(view.map, {"key": key, "value": doc} if chained else doc)
        ]
    else:
        yielded = view.map.function(Row(key, value_of(doc)) if chained else deepcopy(doc))
        told = [(group_of(group), value_of(value)) for group, value in map(_pair, yielded or ())]
    said = [reducer.describe() for reducer in view.reducers] if described is None else described
    for _, value in told:
        for own, reducer in zip(said, view.reducers, strict=True):
            check_value(own, read_by(view, reducer, value))
    return told if len(told) < 2 else sorted(told, key=lambda pair: (rank(pair[0]), place(pair[1])))


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple):
        return item, None
    if len(item) != 2:
        raise Refused(f"a tuple of {len(item)} was yielded")
    return item[0], item[1]


def _by_fields(fields: FieldMap, doc: Any) -> list[tuple[Any, Any]]:
    if fields.where is not None and not holds(fields.where.describe(), doc):
        return []
    parts = tuple(at(doc, path) for path in fields.key.paths)
    return [(parts[0] if fields.key.single else parts, doc)]


def read_by(view: View, reducer: Reducing, value: Any) -> Any:
    """What a reducer reads of a contribution: of fields the value is the whole document."""
    return _at(view, reducer.field, value)


def _at(view: View, field: Path | None, value: Any) -> Any:
    if isinstance(view.map, FieldMap):
        path = view.map.path_of(field)
        return None if path is None else at(value, path)
    return value if field is None else at(value, field)


def _result(view: View, group: Any, contributions: Sequence[_Contribution]) -> Any:
    if view.index:
        return _indexed(view, contributions[0].value)
    results = []
    for reducer in view.reducers:
        described = reducer.describe()
        given = _given(view, described, reducer, contributions)
        results.append(result_of(described, user_of(reducer), group, given))
    return results[0] if view.fields is None else dict(zip(view.fields, results, strict=True))


def _given(
    view: View, described: Mapping[str, Any], reducer: Reducing, contributions: Sequence[_Contribution]
) -> list[Given]:
    """Contributions as a reducer sees them."""
    return [
        Given(read_by(view, reducer, c.value), (c.where, c.number), _beside(view, described, c), c.key)
        for c in contributions
    ]


def _indexed(view: View, value: Any) -> Any:
    """What a plain index shows of a contribution: the value, where the definition names one."""
    if isinstance(view.map, FieldMap):
        return None if view.map.value is None else at(value, view.map.value)
    return value


def _beside(view: View, described: Mapping[str, Any], one: _Contribution) -> Any:
    """What a reducer goes by: the field that it names, else the ts."""
    if described["reducer"] not in ("first", "last"):
        return None
    return one.moment if described["by"] is None else _at(view, tuple(described["by"]), one.value)


def user_of(reducer: Reducing) -> Any:
    """The object with the user's functions, or the function, where a reducer is made of one."""
    if isinstance(reducer, ReduceFunction):
        return reducer.function
    return getattr(getattr(reducer, "functions", None), "group", None)


def holds(condition: Mapping[str, Any], doc: Any) -> bool:
    """Whether a described condition holds for a document."""
    form: str = condition["is"]
    if form == "and":
        return holds(condition["left"], doc) and holds(condition["right"], doc)
    if form == "or":
        return holds(condition["left"], doc) or holds(condition["right"], doc)
    if form == "not":
        return not holds(condition["inner"], doc)
    found = at(doc, condition["path"])
    if form == "true":
        return found is True
    if form == "null":
        return found is None
    wanted = _literal(condition["value"])
    if found is None or wanted is None:
        return False
    if _family(found) != _family(wanted):
        return form == "!="
    return bool(_COMPARE[form](rank(found), rank(wanted)))


def _literal(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return Decimal(value[1]) if value[0] == "decimal" else int(value[1], 16)
    return value


def _family(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float | Decimal):
        return "number"
    return "text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "other"
