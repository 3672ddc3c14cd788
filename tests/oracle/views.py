"""The content of a view: the emission of a document, the rows over all emissions, and the rows that a reader gets.

An emission is a multiset of (group, value). A document that can't be mapped is *held*, and has none. Rows are folded
from all remembered emissions each time, without knowledge of former rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from .ordered import Last
from .reducers import Count, Given, Reducer
from .values import Refused, at, group_of, normalise, place, rank

Emission = list[tuple[Any, Any]]
Docs = Mapping[Any, tuple[Any, Any]]
Stamps = Mapping[Any, Fraction]


class Said(NamedTuple):
    """The remembered emission of one document, with its key and its ts."""

    key: Any
    emission: Emission
    ts: Fraction | None = None


class Row(NamedTuple):
    """A row of the parent view, as the function of a chained view gets it."""

    key: Any
    value: Any


@dataclass(frozen=True)
class Is:
    """A comparison of a field with a constant. Without an operator the field must be exactly true.

    A comparison with None by `==` or `!=` tests for null.
    """

    field: str
    op: str = "true"
    constant: Any = None

    def holds(self, doc: Any) -> bool:
        """Return whether the condition is true for a document.

        For null it is false; for two types only `!=` is true.
        """
        seen = at(doc, self.field)
        if self.op == "true":
            return seen is True
        if self.constant is None and self.op in ("==", "!="):
            return (seen is None) == (self.op == "==")
        if seen is None or self.constant is None:
            return False
        if _kind(seen) != _kind(self.constant) or _kind(seen) is None:
            return self.op == "!="
        one, other = rank(seen), rank(self.constant)
        return {
            "==": one == other,
            "!=": one != other,
            "<": one < other,
            "<=": one <= other,
            ">": one > other,
            ">=": one >= other,
        }[self.op]


def _kind(value: Any) -> str | None:
    for kind, types in {"bool": bool, "number": (int, float, Decimal), "text": str, "bytes": bytes}.items():
        if isinstance(value, types):
            return kind
    return None


@dataclass(frozen=True)
class Where:
    """A condition of `and`, `or` or `not` over others, in two-valued logic."""

    op: str
    parts: tuple[Any, ...]

    def holds(self, doc: Any) -> bool:
        """Return whether the condition is true for a document."""
        found = [part.holds(doc) for part in self.parts]
        return not found[0] if self.op == "not" else all(found) if self.op == "and" else any(found)


@dataclass(frozen=True)
class View:
    """A view of a table or of a view: by fields (`key`) or by a function (`fn`). Without reducers it is an index."""

    name: str
    source: str
    reduce: Reducer | dict[str, Reducer] | None
    key: str | tuple[str, ...] | None = None
    value: str | None = None
    where: Is | Where | None = None
    fn: Callable[[Any], Iterable[Any]] | None = None
    sources: bool = False

    @property
    def reducers(self) -> list[Reducer]:
        """The reducers of a row, in order."""
        if self.reduce is None:
            return []
        return list(self.reduce.values()) if isinstance(self.reduce, dict) else [self.reduce]

    def emission(self, doc: Any) -> Emission:
        """Return the emission of a document. Any error means that the view holds the document."""
        if self.fn:
            pairs = [self._pair(item) for item in self.fn(doc)]
        elif self.where is None or self.where.holds(doc):
            paths = self.key if isinstance(self.key, tuple) else (self.key,)
            found = tuple(at(doc, path) for path in paths)
            pairs = [(found if isinstance(self.key, tuple) else found[0], at(doc, self.value))]
        else:
            pairs = []
        told = [(group_of(group), normalise(value)) for group, value in pairs]
        for _, value in told:
            for reducer in self.reducers:
                reducer.read(value)
        return told

    @staticmethod
    def _pair(item: Any) -> tuple[Any, Any]:
        if not isinstance(item, tuple):
            return item, None
        if len(item) != 2:
            raise Refused("a tuple that is no (group, value)")
        return item[0], item[1]

    def result(self, told: Sequence[Given]) -> Any:
        """Return the result over the contributions of one group."""
        results = [reducer.fold(told) for reducer in self.reducers]
        return dict(zip(self.reduce, results, strict=True)) if isinstance(self.reduce, dict) else results[0]


@dataclass(frozen=True)
class Shown:
    """A row of a view: its group and its result. `held` is set if its reducer fails, or a counted document is held."""

    group: Any
    result: Any
    held: bool = False


Rows = dict[Any, Shown]


def fold(view: View, told: Mapping[Any, Said], good: Rows, held: Set[Any] = frozenset()) -> Rows:
    """Fold all emissions into rows, in group order. A group whose reducer raises keeps its last good result.

    A group is also held if it counts the earlier emission of a document in `held` (ranks of keys).
    """
    rows: Rows = {}
    old = {rank(group) for where in held & told.keys() for group, _ in told[where].emission}
    for at_group, (group, given) in sorted(grouped(told).items()):
        if view.reduce is None:
            for one in given:
                entry = (group, one.key, one.number)
                shown = one.value if view.fn or view.value else None
                rows[rank(entry)] = Shown(entry, shown, one.where in held)
            continue
        try:
            rows[at_group] = Shown(group, view.result(given), at_group in old)
        except Exception:
            last = good[at_group].result if at_group in good else None
            rows[at_group] = Shown(group, last, held=True)
    return dict(sorted(rows.items()))


def grouped(told: Mapping[Any, Said], level: int | None = None) -> dict[Any, tuple[Any, list[Given]]]:
    """Return the contributions to each group, or to each prefix of `level` parts, in the order of their values."""
    groups: dict[Any, tuple[Any, list[Given]]] = {}
    for where, said in told.items():
        ranked = [(rank(group), group, value) for group, value in said.emission]
        if len(ranked) > 1:
            ranked.sort(key=lambda pair: (pair[0], place(pair[2])))
        seen: Counter[Any] = Counter()
        for at_group, group, value in ranked:
            name = group if level is None else group[:level] if level else ()
            one = Given(name, value, said.key, where, seen[at_group], said.ts)
            seen[at_group] += 1
            groups.setdefault(at_group if level is None else rank(name), (name, []))[1].append(one)
    for _, given in groups.values():
        if len(given) > 1:
            given.sort(key=lambda one: (place(one.value), one.where, one.number))
    return groups


def documents_of(rows: Rows) -> dict[Any, tuple[Any, Any]]:
    """Return the rows of a view as documents, for the map of a chained view."""
    return {where: (shown.group, shown.result) for where, shown in rows.items()}


def as_seen(view: View, chained: bool, key: Any, doc: Any) -> Any:
    """Return the input of a view's map: the document itself, or the row of a view."""
    if not chained:
        return doc
    return Row(key, doc) if view.fn else {"key": key, "value": doc}


def recompute(view: View, docs: Docs, chained: bool = False, stamps: Stamps | None = None) -> tuple[Rows, set[Any]]:
    """Compute the rows of a view from its source alone. Return them with the keys that it can't map and skips."""
    told, held = {}, set()
    for where, (key, doc) in docs.items():
        try:
            told[where] = Said(key, view.emission(as_seen(view, chained, key, doc)), (stamps or {}).get(where))
        except Exception:
            held.add(where)
    return fold(view, told, {}), held


def rollup(view: View, told: Mapping[Any, Said], level: int) -> list[tuple[Any, Any]]:
    """Return the results over every prefix of `level` parts of a tuple group. Level 0 is all groups together."""
    return [(prefix, view.result(given)) for _, (prefix, given) in sorted(grouped(told, level).items())]


def select(
    rows: Iterable[tuple[Any, Any]],
    start: Any = None,
    stop: Any = None,
    prefix: Any = None,
    reverse: bool = False,
    limit: int | None = None,
) -> list[tuple[Any, Any]]:
    """Return the rows of a range read: from start (inclusive) to stop (exclusive), with a prefix, up to a limit."""
    found = sorted(rows, key=lambda row: rank(row[0]), reverse=reverse)
    if start is not None:
        found = [row for row in found if rank(row[0]) >= rank(group_of(start))]
    if stop is not None:
        found = [row for row in found if rank(row[0]) < rank(group_of(stop))]
    if prefix is not None:
        found = [row for row in found if begins(row[0], prefix)]
    return found if limit is None else found[:limit]


def begins(group: Any, prefix: Any) -> bool:
    """Return whether a group begins with this text, or with these parts of a tuple."""
    if isinstance(prefix, str):
        return isinstance(group, str) and group.startswith(prefix)
    parts = group_of(prefix)
    return isinstance(group, tuple) and rank(group[: len(parts)]) == rank(parts)


def check_definition(view: View, stamped: bool = True) -> None:
    """Refuse a reducer without a field in a view by fields without `value=`, and order by ts without a ts.

    `count()` needs no field.
    """
    for reducer in view.reducers:
        if not view.fn and view.value is None and reducer.field is None and type(reducer) is not Count:
            raise Refused(f"{view.name}: {type(reducer).__name__} needs a field")
        if isinstance(reducer, Last) and reducer.by is None and not stamped:
            raise Refused(f"{view.name}: {type(reducer).__name__} goes by a ts that its documents don't have")
