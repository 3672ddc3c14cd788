"""Views recomputed from scratch over documents, in plain Python: small and slow on purpose.

The oracle shares no code with the engine except the app's definitions and the user's functions. It calls each map again
for every document, and folds every group again. A document that a view can't map counts nothing here and is reported.
The engine keeps that document's last good emission, which no recomputation can know.
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
from penstock.recovery.oracle.plain_reducers import ReducerInput, check_value, result_of
from penstock.recovery.oracle.plain_values import Rank, Refused, at, group_of, rank, sort_place, value_of
from penstock.views import FieldMap, Path, ReduceFunction, Reducer, Row, View

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
class ExpectedRow:
    """An expected row of a view: its group, its result, and its contributions by document."""

    group: Any
    result: Any = None
    refused: str = ""  # why the reducer has no result
    by: list[tuple[Any, Any]] = field(default_factory=list)  # (key of the document, value)


@dataclass(slots=True)
class RecomputedView:
    """A recomputed view: its rows by rank, and the documents that it can't map, by the rank of their keys."""

    rows: dict[Rank, ExpectedRow] = field(default_factory=dict)
    held: dict[Rank, tuple[Any, str]] = field(default_factory=dict)

    def sorted(self) -> list[tuple[Any, Any]]:
        """Return groups and results in group order."""
        return [(self.rows[where].group, self.rows[where].result) for where in sorted(self.rows)]


def recomputed(
    view: View, source: Iterable[tuple[Any, Any]], moments: Mapping[Rank, Moment] | None = None
) -> RecomputedView:
    """Recompute a view over documents or rows by key; `moments` has the ts of documents that have one."""
    out = RecomputedView()
    given: dict[Rank, list[_Contribution]] = {}
    for key, doc in source:
        where = rank(key)
        try:
            pairs = emission(view, key, doc)
        except Exception as error:
            out.held[where] = key, f"{type(error).__name__}: {error}"
            continue
        numbers: dict[Rank, int] = {}
        for group, value in pairs:
            at_group = rank(group)
            number = numbers[at_group] = numbers.get(at_group, -1) + 1
            if view.index:
                group = (group, key, number)
                at_group = rank(group)
            out.rows.setdefault(at_group, ExpectedRow(group)).by.append((key, value))
            moment = (moments or {}).get(where)
            given.setdefault(at_group, []).append(_Contribution(key, where, number, value, moment))
    for at_group, row in out.rows.items():
        try:
            row.result = _result(view, row.group, given[at_group])
        except Exception as error:
            row.refused = f"{type(error).__name__}: {error}"
    return out


def recomputed_large(view: View, group: Any, source: Iterable[Sequence[tuple[Any, ...]]]) -> dict[int, Any]:
    """Recompute one large group, for each reducer that can fold it part by part; results by reducer number.

    `source` has all documents or rows that may contribute to the group, in parts. Each is a key, a document and, if it
    has one, a ts. One part at a time is in memory.
    """
    described = [reducer.describe() for reducer in view.reducers]
    made = [large(form, user_of(reducer)) for form, reducer in zip(described, view.reducers, strict=True)]
    wanted = rank(group)
    for part in source:
        own: list[_Contribution] = []
        for key, doc, *moment in part:
            try:
                values = [value for at_group, value in emission(view, key, doc) if rank(at_group) == wanted]
            except Exception:  # it counts nothing here, as when a whole view is recomputed
                continue
            ts = moment[0] if moment else None
            own += [_Contribution(key, rank(key), number, value, ts) for number, value in enumerate(values)]
        for form, reducer, one in zip(described, view.reducers, made, strict=True):
            if one is not None:
                one.add(_reducer_inputs(view, form, reducer, own))
    return {i: one.result() for i, one in enumerate(made) if one is not None}


def refolded(view: View, group: Any, given: Iterable[tuple[Any, int, Any, Moment | None]]) -> Any:
    """Recompute one group's result from its contributions: key, number within the key, value, ts."""
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
    """Compute the sorted emission of a view for one document; raise if it can't be mapped.

    A caller that maps many documents passes the reducers' descriptions as `described`.
    """
    chained = isinstance(view.source, View)
    if isinstance(view.map, FieldMap):
        pairs = [
            (group_of(g), value) for g, value in _by_fields(view.map, {"key": key, "value": doc} if chained else doc)
        ]
    else:
        yielded = view.map.function(Row(key, value_of(doc)) if chained else deepcopy(doc))
        pairs = [(group_of(group), value_of(value)) for group, value in map(_pair, yielded or ())]
    descriptions = [reducer.describe() for reducer in view.reducers] if described is None else described
    for _, value in pairs:
        for own, reducer in zip(descriptions, view.reducers, strict=True):
            if _filtered_in(view, own, value):
                check_value(own, read_by(view, reducer, value))
    return pairs if len(pairs) < 2 else sorted(pairs, key=lambda pair: (rank(pair[0]), sort_place(pair[1])))


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
    """Return the value that a reducer reads of a contribution; for a field view that is a field of the document."""
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
        given = _reducer_inputs(view, described, reducer, contributions)
        results.append(result_of(described, user_of(reducer), group, given))
    return results[0] if view.fields is None else dict(zip(view.fields, results, strict=True))


def _reducer_inputs(
    view: View, described: Mapping[str, Any], reducer: Reducing, contributions: Sequence[_Contribution]
) -> list[ReducerInput]:
    """Convert contributions to the form that a reducer sees."""
    return [
        ReducerInput(read_by(view, reducer, c.value), (c.where, c.number), _beside(view, described, c), c.key)
        for c in contributions
        if _filtered_in(view, described, c.value)
    ]


def _filtered_in(view: View, described: Mapping[str, Any], value: Any) -> bool:
    """Return True if a reducer's own condition keeps a contribution. It reads fields of the view's value."""
    if "where" not in described:
        return True
    base = at(value, view.map.value or ()) if isinstance(view.map, FieldMap) else value
    return holds(described["where"], base)


def _indexed(view: View, value: Any) -> Any:
    """Return the result of an index row: the value, if the definition has one."""
    if isinstance(view.map, FieldMap):
        return None if view.map.value is None else at(value, view.map.value)
    return value


def _beside(view: View, described: Mapping[str, Any], one: _Contribution) -> Any:
    """Return the order value of a contribution: the field that the reducer names, else the ts."""
    if "order" in described:
        return tuple(_at(view, tuple(name.removeprefix("-").split(".")), one.value) for name in described["order"])
    if described["reducer"] not in ("first", "last", "argmax", "argmin"):
        return None
    return one.moment if described["by"] is None else _at(view, tuple(described["by"]), one.value)


def user_of(reducer: Reducing) -> Any:
    """Return the object with the user's functions, or the user's reduce function, if the reducer has one."""
    if isinstance(reducer, ReduceFunction):
        return reducer.function
    return getattr(getattr(reducer, "functions", None), "group", None)


def holds(condition: Mapping[str, Any], doc: Any) -> bool:
    """Return True if a described condition holds for a document."""
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
