"""The contributions of one document to each view of its table, as the views count them now.

For a function view they are the remembered emission. For a field view they follow from the document and the definition.
For a held document they are in the held row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cache import Reader, decode_key, encode_key, normal_key, record_key, stored_key
from penstock.gateway import TableReader, document_of, unwrap
from penstock.mapreduce import (
    FieldMapper,
    Groups,
    Pairs,
    ViewNode,
)
from penstock.views import FieldMap, FilteredField, reach


@dataclass(frozen=True, slots=True)
class ViewState:
    """The contributions that one view counts for a document: (group, value) pairs; `held` is the reason for a hold."""

    view: str
    pairs: tuple[tuple[Any, Any], ...]
    held: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """A stored key: its line, its document (None: deleted), its separate ts, and the contributions by view.

    `ts` is the ts of a deletion, or of a document whose ts is not one of its fields.
    """

    key: Any
    line: bytes
    document: dict[str, Any] | None
    ts: Any
    told: tuple[ViewState, ...]


def document_facts(views: Sequence[ViewNode], reader: Reader, table: TableReader, key: Any) -> DocumentFacts | None:
    """Return the stored line of a key and its contributions to these views; None if the key was never stored."""
    place = table.place(key)
    if place is None:
        return None
    base, at, line = place
    found = unwrap(line)
    document = None if found.absent else document_of(line)
    states: list[ViewState] = []
    stored, segment = stored_key(encode_key(key)), record_key(base)
    for view in views:
        remembered = view.remembered(reader, Groups())
        held = remembered.held([stored]).get(stored)
        if held is not None:
            states.append(ViewState(view.name, emissions_text(view, held.pairs), held.hold.reason))
        elif document is not None and isinstance(view.mapper, FieldMapper):
            states.append(ViewState(view.name, _by_fields(view, view.mapper, document)))
        elif document is not None:
            states.append(ViewState(view.name, emissions_text(view, remembered.yielded(segment, at) or [])))
    ts = found.patched.floor if found.absent and found.patched is not None else found.ts
    return DocumentFacts(normal_key(key), line, document, ts, tuple(states))


def emissions_text(view: ViewNode, pairs: Pairs) -> tuple[tuple[Any, Any], ...]:
    """Return remembered contributions with decoded groups."""
    fields = isinstance(view.view.map, FieldMap)
    return tuple((decode_key(group), _shaped(_reads(view), value) if fields else value) for group, value in pairs)


def _by_fields(view: ViewNode, mapper: FieldMapper, document: dict[str, Any]) -> tuple[tuple[Any, Any], ...]:
    """Return the contributions that follow from a document by the definition."""
    fields = mapper.fields
    if fields.where is not None and not fields.where.evaluate(lambda path: reach(document, path)):
        return ()
    parts = tuple(reach(document, path) for path in fields.key.paths)
    group = normal_key(parts[0] if fields.key.single else parts)
    reads = _reads(view)
    return ((group, _shaped(reads, [own.of(document) for own in reads])),)


def _reads(view: ViewNode) -> list[FilteredField]:
    """Return the fields of the document that a field view's cells read, in the order of the values in held rows."""
    mapper = view.mapper
    assert isinstance(mapper, FieldMapper), "asked of field views"
    return [
        FilteredField(mapper.inputs[field], None) if field in mapper.inputs else mapper.filtered[field or ()]
        for field in view.reduce.fields
    ]


def _shaped(reads: Sequence[FilteredField], values: Sequence[Any]) -> Any:
    """Return the values that cells read: none, the only one, or each by its path and condition."""
    plain = {own.field for own in reads if own.is_plain}
    left = [
        (str(own), own.shown(value))
        for own, value in zip(reads, values, strict=True)
        if own.is_plain or not plain.issuperset(own.fields)  # others follow from the plain ones
    ]
    if len(left) < 2:
        return left[0][1] if left else None
    return dict(left)
