"""What a block of documents contributes to a view, as lists: the groups, what is read of each, and of which document.

It says what the oracle says of each document, where all it meets is plain; documents of which something isn't are named
and left to the oracle. Invariants:

- a document is either left to the oracle, or all that it contributes is here;
- a function is given documents of its own, which it may spoil.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from penstock.recovery import at, holds
from penstock.spark.verify_job.tallies import Counting, told_apart
from penstock.views import FieldMap, FunctionMap, Path, View

__all__ = ["Emitted", "emitted"]

_SCALARS: frozenset[type] = frozenset({type(None), bool, int, float, str, Decimal})
_ORDERED: frozenset[type] = frozenset({str, int, tuple})
_DECIMALS = 6144
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Emitted:
    """Contributions: of which document of the block, the group, that as it is stored, what is read of it, by path.

    `values` are there of what a function yielded. `rest` are the documents that are left.
    """

    whose: list[int] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    columns: dict[Path | None, list[Any]] = field(default_factory=dict)
    values: list[Any] | None = None
    rest: set[int] = field(default_factory=set)

    def without(self, rows: set[int]) -> Emitted:
        """The same, with these documents left too."""
        if rows <= self.rest:
            return self
        rest = self.rest | rows
        kept = [i for i, row in enumerate(self.whose) if row not in rest]
        return Emitted(
            [self.whose[i] for i in kept],
            [self.groups[i] for i in kept],
            [self.encoded[i] for i in kept] if self.encoded else [],
            {path: [column[i] for i in kept] for path, column in self.columns.items()},
            None if self.values is None else [self.values[i] for i in kept],
            rest,
        )


def emitted(view: View, counting: Counting, docs: Sequence[Any], without: set[int]) -> Emitted:
    """What documents contribute to a view, but these; a function may spoil them."""
    if isinstance(view.map, FieldMap):
        out = _by_fields(view.map, docs, without)
        kept = docs if len(out.whose) == len(docs) else [docs[i] for i in out.whose]
        out.columns = {path: [None] * len(kept) if path is None else _column(kept, path) for path in counting.paths}
    else:
        assert isinstance(view.map, FunctionMap), "the map of a view is one of the two"
        out = _by_function(view.map.function, docs, without)
        values = out.values or []
        out.columns = {path: values if path is None else _column(values, path) for path in counting.paths}
    encoded = counting.encoded(out.groups)
    strange = counting.strange(out.columns) | {i for i, own in enumerate(encoded) if own is None}
    out.encoded = [own or b"" for own in encoded]
    return out.without({out.whose[i] for i in strange})


def _by_fields(fields: FieldMap, docs: Sequence[Any], without: set[int]) -> Emitted:
    whose = list(range(len(docs)))
    if without or fields.where is not None:
        condition: Mapping[str, Any] | None = None if fields.where is None else fields.where.describe()
        whose = [i for i in whose if i not in without and (condition is None or holds(condition, docs[i]))]
    kept = docs if len(whose) == len(docs) else [docs[i] for i in whose]
    parts = [told_apart(_column(kept, path)) for path in fields.key.paths]
    groups = parts[0] if fields.key.single else list(zip(*parts, strict=True)) if parts else [()] * len(kept)
    return Emitted(whose, groups, rest=set(without))


def _column(values: Sequence[Any], path: Path) -> list[Any]:
    """What stands at a path in each of these."""
    if len(path) == 1 and all(type(value) is dict for value in values):
        [name] = path
        return [value.get(name) for value in values]
    return [at(value, path) for value in values]


def _by_function(function: Callable[[Any], Iterable[Any] | None], docs: Sequence[Any], without: set[int]) -> Emitted:
    out, rest = Emitted(), set(without)
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
    out.values, out.groups = values, told_apart(out.groups)
    try:
        _encode(values)
    except (UnicodeEncodeError, OverflowError):  # some text is none, or an int has many digits: which, the oracle says
        return Emitted(values=[], rest=rest | set(out.whose))
    return out.without(rest)


def _yielded(function: Callable[[Any], Iterable[Any] | None], doc: Any) -> list[tuple[Any, Any]] | None:
    """What a function yields for a document, in one order; None where it fails, or something of it isn't plain."""
    own: list[tuple[Any, Any]] = []
    try:
        for item in function(doc) or ():
            group, value = (item, None) if type(item) is not tuple else item
            if type(value) not in _SCALARS:
                if type(value) is not dict or not _flat(value):
                    return None
                value = dict(value)  # it may go on changing it
            elif type(value) is Decimal and not (value.is_finite() and abs(value.adjusted()) <= _DECIMALS):
                return None
            own.append((group, value))
        return _ordered(own)
    except Exception:
        return None


def _ordered(own: list[tuple[Any, Any]]) -> list[tuple[Any, Any]] | None:
    """The same in their order, where Python's is theirs; None where it may not be."""
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
