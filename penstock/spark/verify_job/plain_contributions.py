"""Map a block of documents to contributions to a view, as lists.

It gives the result of the oracle for documents with plain values. Other documents are listed and left to the oracle.
Invariants:

- A document is either left to the oracle, or all its contributions are here.
- A function gets its own copy of a document, because it may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from penstock.recovery import at, holds
from penstock.spark.verify_job.tallies import ViewTallies, distinct_groups
from penstock.views import FieldMap, FunctionMap, Path, View

__all__ = ["PlainContributions", "emitted"]

_SCALARS: frozenset[type] = frozenset({type(None), bool, int, float, str, Decimal})
_ORDERED: frozenset[type] = frozenset({str, int, tuple})
_DECIMALS = 6144
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class PlainContributions:
    """Contributions as lists: document in the block, group, encoded group, and by path the values that reducers read.

    `values` are the values that a function yielded. `rest` are the documents left to the oracle.
    """

    whose: list[int] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    columns: dict[Path | None, list[Any]] = field(default_factory=dict)
    values: list[Any] | None = None
    rest: set[int] = field(default_factory=set)

    def without(self, rows: set[int]) -> PlainContributions:
        """Return the contributions with these documents left to the oracle too."""
        if rows <= self.rest:
            return self
        rest = self.rest | rows
        left = [i for i, row in enumerate(self.whose) if row not in rest]
        return PlainContributions(
            [self.whose[i] for i in left],
            [self.groups[i] for i in left],
            [self.encoded[i] for i in left] if self.encoded else [],
            {path: [column[i] for i in left] for path, column in self.columns.items()},
            None if self.values is None else [self.values[i] for i in left],
            rest,
        )


def emitted(view: View, counting: ViewTallies, docs: Sequence[Any], without: set[int]) -> PlainContributions:
    """Return the contributions of documents to a view, except the documents `without`. A function may change `docs`."""
    if isinstance(view.map, FieldMap):
        out = _by_fields(view.map, docs, without)
        sources = docs if len(out.whose) == len(docs) else [docs[i] for i in out.whose]
        out.columns = {
            path: [None] * len(sources) if path is None else _column(sources, path) for path in counting.paths
        }
    else:
        assert isinstance(view.map, FunctionMap), "the map of a view is one of the two"
        out = _by_function(view.map.function, docs, without)
        values = out.values or []
        out.columns = {path: values if path is None else _column(values, path) for path in counting.paths}
    encoded = counting.encoded(out.groups)
    strange = counting.strange(out.columns) | {i for i, own in enumerate(encoded) if own is None}
    out.encoded = [own or b"" for own in encoded]
    return out.without({out.whose[i] for i in strange})


def _by_fields(fields: FieldMap, docs: Sequence[Any], without: set[int]) -> PlainContributions:
    whose = list(range(len(docs)))
    if without or fields.where is not None:
        condition: Mapping[str, Any] | None = None if fields.where is None else fields.where.describe()
        whose = [i for i in whose if i not in without and (condition is None or holds(condition, docs[i]))]
    sources = docs if len(whose) == len(docs) else [docs[i] for i in whose]
    parts = [distinct_groups(_column(sources, path)) for path in fields.key.paths]
    groups = parts[0] if fields.key.single else list(zip(*parts, strict=True)) if parts else [()] * len(sources)
    return PlainContributions(whose, groups, rest=set(without))


def _column(values: Sequence[Any], path: Path) -> list[Any]:
    """Return the value at a path of each document."""
    if len(path) == 1 and all(type(value) is dict for value in values):
        [name] = path
        return [value.get(name) for value in values]
    return [at(value, path) for value in values]


def _by_function(
    function: Callable[[Any], Iterable[Any] | None], docs: Sequence[Any], without: set[int]
) -> PlainContributions:
    out, rest = PlainContributions(), set(without)
    values: list[Any] = []
    for i, doc in enumerate(docs):
        if i in without:
            continue
        own = _yielded(function, doc)
        if own is None:
            rest.add(i)
            continue
        for group, value in own:
            out.whose.append(i)
            out.groups.append(group)
            values.append(value)
    out.values, out.groups = values, distinct_groups(out.groups)
    try:
        _encode(values)
    except (UnicodeEncodeError, OverflowError):  # invalid text or a long int: the oracle finds the document
        return PlainContributions(values=[], rest=rest | set(out.whose))
    return out.without(rest)


def _yielded(function: Callable[[Any], Iterable[Any] | None], doc: Any) -> list[tuple[Any, Any]] | None:
    """Return the sorted emission of a function for a document. None if it fails or yields a value that isn't plain."""
    own: list[tuple[Any, Any]] = []
    try:
        for item in function(doc) or ():
            group, value = (item, None) if type(item) is not tuple else item
            if type(value) not in _SCALARS:
                if type(value) is not dict or not _flat(value):
                    return None
                value = dict(value)  # the function may change it later
            elif type(value) is Decimal and not (value.is_finite() and abs(value.adjusted()) <= _DECIMALS):
                return None
            own.append((group, value))
        return _ordered(own)
    except Exception:
        return None


def _ordered(own: list[tuple[Any, Any]]) -> list[tuple[Any, Any]] | None:
    """Return the pairs sorted, if Python's order is that of stored groups. Otherwise return None."""
    if len(own) < 2:
        return own
    kinds = {type(group) for group, _ in own}
    if len(kinds) > 1 or not kinds <= _ORDERED:
        return None
    if len({group for group, _ in own}) == len(own):
        return sorted(own, key=_group)
    values = {type(value) for _, value in own}
    return sorted(own) if len(values) == 1 and values <= {int, type(None)} else None


def _group(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _flat(value: dict[Any, Any]) -> bool:
    return set(map(type, value)) <= {str} and set(map(type, value.values())) <= _SCALARS - {Decimal}
