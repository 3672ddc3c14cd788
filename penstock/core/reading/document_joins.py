"""The joins that a document takes part in: its side, its condition value, and its matches on the other side.

A join of more than two sides is a chain of joins of two. The matches are those of the step that connects the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from penstock.cache import Reader, decode_key, encode_key, normal_key, stored_key
from penstock.core.schema import Schema
from penstock.join import Conditions, Entries, StoredJoin
from penstock.mapreduce import SourceKeys, ViewNode
from penstock.views import FieldMap, Join, SideView, reach, shown_join, side_views

__all__ = ["DocumentJoin", "document_joins"]


class _Snapshot(Protocol):
    """The parts of a snapshot that are needed here."""

    @property
    def schema(self) -> Schema: ...

    def reader(self) -> Reader: ...

    def stored_joins(self, name: str) -> Iterator[tuple[StoredJoin, Reader]]: ...


@dataclass(frozen=True, slots=True)
class DocumentJoin:
    """A join with a document as one side.

    `matches` counts the documents with its condition value on the side `other`. Without a condition value it is 0.
    `held` is the reason why the join holds the document or its condition value.
    """

    join: str
    how: str
    side: str
    on: str
    value: Any
    other: str
    matches: int
    views: tuple[str, ...]
    filtered: bool = False  # the filter of the side leaves the document out
    held: str | None = None


def document_joins(snap: _Snapshot, table: str, key: Any, document: dict[str, Any]) -> Iterator[DocumentJoin]:
    """Yield the joins that the current document of a key takes part in, once for each of its sides."""
    for node in snap.schema.sides:
        side = node.view
        assert isinstance(side, SideView), "it is one of the sides"
        if side.source.name == table:
            yield _document_join(snap, node, side, encode_key(key), document)


def _document_join(
    snap: _Snapshot, node: ViewNode, side: SideView, key: bytes, document: dict[str, Any]
) -> DocumentJoin:
    join, fields = snap.schema.joins[side.join], side.map
    assert isinstance(fields, FieldMap), "a side has no function"
    name = shown_join(join.name)
    views = tuple(view.name for view in snap.schema.app.views() if view.source.name == name)
    stored = stored_key(key)
    held = node.remembered(snap.reader()).held([stored]).get(stored)
    reason = None if held is None else held.hold.reason
    if held is not None:
        filtered, value = False, next((decode_key(group) for group, _ in held.pairs), None)
    else:
        filtered = fields.where is not None and not fields.where.evaluate(lambda path: reach(document, path))
        parts = tuple(reach(document, path) for path in fields.key.paths)
        value = normal_key(parts[0] if fields.key.single else parts)
    null = value is None or (not fields.key.single and isinstance(value, tuple) and None in value)
    matches, limit = (0, None) if filtered or null else _matches(snap, side, encode_key(value))
    (other,) = (own.side for own in side_views(join) if own.name != side.name)
    return DocumentJoin(name, join.how, side.side, _on(join), value, other, matches, views, filtered, reason or limit)


def _on(join: Join) -> str:
    """Return the pairs of paths that connect the last side of a join."""
    step = join.steps()[1][-1]
    pairs = ((one, (join.sides[step.side].name, *other)) for one, other in step.pairs)
    return " and ".join(f"{'.'.join(one)} = {'.'.join(other)}" for one, other in pairs)


def _matches(snap: _Snapshot, side: SideView, value: bytes) -> tuple[int, str | None]:
    """Return the entries with a condition value on the other side, and the reason if the value is held."""
    key = SourceKeys.of_encoded([value])
    conditions, _ = Conditions.of([Entries.of(key, key, [])])
    matches, reason = 0, None
    for join, reader in snap.stored_joins(side.join):
        (other,) = (own for own in join.sides if own.view.name != side.name)
        matches += int(np.sum(other.kept(reader).counts(conditions)))
        if any(own.value == value for own in join.limited(reader)):
            reason = f"its condition value has more than {join.join.limit:,} rows, the limit of the join"
    return matches, reason
