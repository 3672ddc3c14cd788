"""The entries of quarantine as one list: rejected records, held documents, held groups.

The list is read lazily from one snapshot, a few hundred entries at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.cache import PenstockError, Reader, decode_key, read_lines, received_document, stored_key, unpack, unseal
from penstock.core import MOST_BYTES, emissions_text
from penstock.gateway import Form, ReceivedRecord, RejectedRecord, document_of, key_value, read_rejects, rejects_from
from penstock.mapreduce import Hold, IndexReduce, Pairs, RowState, ViewNode, held_db, resting_db
from penstock.recovery.quarantine.entries import (
    EntryFilter,
    Quarantined,
    QuarantineKind,
    document_id,
    group_id,
    record_id,
)
from penstock.views import Join, SideView, Stream, Table, shown_join

if TYPE_CHECKING:
    from penstock.core import Snapshot

__all__ = ["HeldDocument", "held_documents", "held_groups", "key_of_reject", "listed", "rejected_records", "views_of"]

_CHUNK = 256
_REASONS = 64  # whose tracebacks a list remembers
_FIXED = (0x90, 0xDC)  # first bytes of rows without extra fields; rows of held groups start otherwise

HeldDocument = tuple[bytes, bytes, Hold, Pairs, bool]
"""The stored key, the whole key, the reason, the remembered emission, and True if the document rests."""


def listed(snap: Snapshot, wanted: EntryFilter) -> Iterator[Quarantined]:
    """Yield the selected entries: records in order of arrival, then documents by view, then groups."""
    return islice(_entries(snap, wanted), wanted.limit)


def _entries(snap: Snapshot, wanted: EntryFilter) -> Iterator[Quarantined]:
    if wanted.table is not None:
        snap.schema.input(wanted.table)
    if wanted.view is not None and wanted.view not in snap.schema.joins:
        snap.schema.view(wanted.view, snap.reader())
    if wanted.of_kind(QuarantineKind.RECORD):
        alone = len(snap.parts) == 1
        for i, part in enumerate(snap.parts):
            for number, reject in rejected_records(part.reader(), wanted if alone else wanted.within(i)):
                visible = (snap.schema.tables | snap.schema.streams).get(reject.table)
                name = record_id(number, None if alone else i)
                yield _record(name, reject, None if visible is None else visible.table)
    views = views_of([*snap.schema.views.values(), *snap.schema.sides], wanted)
    if wanted.of_kind(QuarantineKind.DOCUMENT):
        for view in views:
            yield from _documents(snap, view, wanted)
    if wanted.of_kind(QuarantineKind.GROUP):
        for view in views:
            for key, whole, state in held_groups(snap.reader(), view, snap.state.held_groups.get(view.name, 0), wanted):
                yield _group(view, key, whole, state)
        for name, join in snap.schema.joins.items():
            if wanted.view in (None, shown_join(name)) and (
                wanted.table is None or wanted.table in {t.name for t in join.tables}
            ):
                yield from _above_limit(snap, name, wanted)


def views_of(views: Any, wanted: EntryFilter) -> list[ViewNode]:
    """Return the selected views."""
    own = (node for node in views if wanted.view in (None, shown_name(node)))
    return [node for node in own if wanted.table is None or wanted.table in {table.name for table in node.view.tables}]


def shown_name(view: ViewNode) -> str:
    """Return the name of a view, or of the join that a side belongs to."""
    return shown_join(view.view.join) if isinstance(view.view, SideView) else view.name


def table_names(view: ViewNode) -> str:
    """Return the names of the tables below a view."""
    return ", ".join(table.name for table in view.view.tables)


# -- records


def rejected_records(reader: Reader, wanted: EntryFilter) -> Iterator[tuple[int, RejectedRecord]]:
    """Yield the selected rejected records with their numbers."""
    if wanted.view is not None:
        return
    if wanted.ids is None:
        found: Any = rejects_from(reader)
    else:
        numbers = sorted(int(own[1:]) for own in wanted.ids if own[:1] == "r" and own[1:].isdecimal())
        found = read_rejects(reader, [n for n in numbers if n < 1 << 63]).items()
    for number, reject in found:
        if wanted.table in (None, reject.table):
            yield number, reject


def key_of_reject(reject: RejectedRecord, table: Table) -> Any:
    """Return the key of a rejected record, or None if it has none."""
    got = reject.received
    document = _document(got)
    if document is not None:
        return key_value(table, document)
    return unpack(got.data) if got.form is Form.KEY and got.whole else None


def _record(name: str, reject: RejectedRecord, table: Table | None) -> Quarantined:
    got = reject.received
    document = _document(got)
    if table is None:
        key = unpack(got.data) if got.form is Form.KEY and got.whole else None
    else:
        key = key_of_reject(reject, table)
    return Quarantined(
        name,
        QuarantineKind.RECORD,
        reject.table,
        reject.reason,
        key=key,
        source=reject.source,
        offset=reject.offset,
        place=reject.where,
        ts=got.ts,
        data=got.data,
        size=got.size,
        document=document,
    )


def _document(got: ReceivedRecord) -> dict[str, Any] | None:
    """Decode the received document. Return None if the bytes are no document."""
    if not got.whole or got.size > MOST_BYTES or got.form not in (Form.JSON, Form.PACKED):
        return None
    try:
        return received_document(got.data)
    except (PenstockError, ValueError, RecursionError):
        return None


# -- documents


def held_documents(reader: Reader, view: ViewNode, start: bytes = b"") -> Iterator[HeldDocument]:
    """Yield the held documents of a view, or the held rows of its parent view, from a stored key on."""
    remembered = view.remembered(reader)
    rows = reader.scan(held_db(view.number), start)
    while chunk := list(islice(rows, _CHUNK)):
        resting = reader.get_many(resting_db(view.number), [key for key, _ in chunk])
        for (key, row), rests in zip(chunk, resting, strict=True):
            if rests is not None:
                unseal(key, rests, resting_db(view.number))
            whole, hold, pairs = remembered.held_in(key, row)
            yield key, whole, hold, pairs, rests is not None


def _documents(snap: Snapshot, view: ViewNode, wanted: EntryFilter) -> Iterator[Quarantined]:
    found = (
        own
        for own in held_documents(snap.reader(), view)
        if wanted.has(document_id(view.name, own[0])) and (wanted.resting or not own[4])
    )
    traces = _Traces(snap, view)
    while chunk := list(islice(found, _CHUNK)):
        documents = _current(snap, view, [own[0] for own in chunk], [decode_key(own[1]) for own in chunk])
        for (key, whole, hold, pairs, rests), document in zip(chunk, documents, strict=True):
            yield Quarantined(
                document_id(view.name, key),
                QuarantineKind.DOCUMENT,
                table_names(view),
                hold.reason,
                view=shown_name(view),
                key=view.view.source.shown_key(decode_key(whole)),
                document=document,
                told=emissions_text(view, pairs),
                traceback=traces.of(hold),
                resting=rests,
            )


class _Traces:
    """The tracebacks of holds. Held rows of a join keep one for each batch and reason, which stands for the others."""

    def __init__(self, snap: Snapshot, view: ViewNode) -> None:
        self._snap = snap
        self._view = view
        self._shared: dict[str, str] = {}  # by reason, of a few reasons

    def of(self, hold: Hold) -> str:
        """Return the traceback of a hold, or that of another one with its reason."""
        if hold.trace or not isinstance(self._view.view.source, Join):
            return hold.trace
        if hold.reason not in self._shared:
            if len(self._shared) >= _REASONS:
                self._shared.clear()
            every = (own for _, _, own, _, _ in held_documents(self._snap.reader(), self._view))
            self._shared[hold.reason] = next((o.trace for o in every if o.trace and o.reason == hold.reason), "")
        return self._shared[hold.reason]


def _current(snap: Snapshot, view: ViewNode, stored: list[bytes], keys: list[Any]) -> list[Any]:
    """Return the documents with these keys; for a chained view, the parent rows in the form that maps see."""
    if isinstance(view.view.source, Join):
        joins = snap.stored_joins(view.view.source.name)
        found = {key: row for join, reader in joins for key, row in join.documents(reader, set(stored)).items()}
        return [found[key][1] if key in found else None for key in stored]
    if isinstance(view.view.source, Stream):
        return held_records(snap, view.view.source, keys)
    source = snap.schema.views.get(view.view.source.name)
    if source is None:
        return snap.table(view.view.source.name).get_many(keys)
    out: list[Any] = []
    codec, where = source.reduce.codec, f"view {source.name!r}"
    rows = snap.reader().get_many(source.reduce.db, stored)
    for key, group, row in zip(stored, keys, rows, strict=True):
        value = None if row is None else codec.result(codec.decode(key, row, where))
        out.append(None if row is None else {"key": group, "value": value})
    return out


def held_records(snap: Snapshot, stream: Stream, numbers: list[Any]) -> list[Any]:
    """Return the records of a stream with these numbers, which views hold."""
    number = snap.schema.streams[stream.name].number
    lines = read_lines(snap.reader(), number, np.array(numbers, np.int64))
    return [document_of(line) for line in lines]


# -- groups


def held_groups(
    reader: Reader, view: ViewNode, many: int, wanted: EntryFilter | None = None
) -> Iterator[tuple[bytes, bytes, RowState]]:
    """Yield the selected held groups of a view: stored key, whole key and row. `many` is the number of all."""
    reduce = view.reduce
    if many <= 0 or isinstance(reduce, IndexReduce):
        return
    for key, row in reader.scan(reduce.db):
        if row[0] & 0xF0 == _FIXED[0] or row[0] == _FIXED[1]:
            continue
        state = reduce.codec.decode(key, row, f"view {view.name!r}")
        if state.held is not None:
            if wanted is None or wanted.has(group_id(view.name, key)):
                yield key, key if state.whole is None else state.whole, state
            many -= 1
            if not many:
                return


def _above_limit(snap: Snapshot, name: str, wanted: EntryFilter) -> Iterator[Quarantined]:
    """Yield the condition values of a join that have more rows than its limit."""
    join = snap.schema.join(name)
    one, other = (side.view.side for side in join.sides)
    for own in join.limited(snap.reader()):
        entry = group_id(name, stored_key(own.value))
        if wanted.has(entry):
            has = f"{own.left:,} documents of side {one!r} and {own.right:,} of {other!r}"
            reason = (
                f"it has {has}, and limit= allows {join.join.limit:,} rows; it returns once it has fewer, or define "
                "the join with a greater limit= in a new store"
            )
            tables = ", ".join(table.name for table in join.join.tables)
            yield Quarantined(
                entry, QuarantineKind.GROUP, tables, reason, view=shown_join(name), key=decode_key(own.value)
            )


def _group(view: ViewNode, key: bytes, whole: bytes, state: RowState) -> Quarantined:
    assert state.held is not None, "asked of held groups"
    reason, result = state.held
    return Quarantined(
        group_id(view.name, key),
        QuarantineKind.GROUP,
        table_names(view),
        reason,
        view=view.name,
        key=decode_key(whole),
        result=result,
    )
