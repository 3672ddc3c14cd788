"""Records that each name their own table: by table, reposts apart.

Records of a spout have the wire form. A record that has no such form, or names no table, is refused in the name of the
table of its source. Records of `ingest` name their tables themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.cache import ArgumentKind, PenstockError, RecordError, normalise
from penstock.core import Batch, line_of
from penstock.gateway import ReceivedRecord
from penstock.recovery import PostedValue, posted, wire_record
from penstock.spout import Record
from penstock.views import App, Counts

__all__ = ["Envelopes", "envelopes_of", "ingested", "reposts_of"]


@dataclass(slots=True)
class Envelopes:
    """The batches of tables, and the values that were posted to them."""

    tables: dict[str, list[Batch]] = field(default_factory=dict)
    values: dict[str, list[PostedValue]] = field(default_factory=dict)
    reposts: int = 0


def envelopes_of(app: App, table: str, batch: Batch) -> Envelopes:
    """Sort the records of a batch by the tables that they name; `table` is the table of its source."""
    out = Envelopes()
    taken: dict[str, dict[int, tuple[bytes, Any]]] = {table: {}}
    refused, received = dict(batch.refused), dict(batch.received)
    for place, line in zip(batch.places(range(batch.records.n)), batch.records.lines, strict=True):
        try:
            record = wire_record(app, line)
            if record.repost:
                own = posted(app.table_of(record.table), record.doc)
                out.values.setdefault(record.table, []).append(own)
                out.reposts += 1
            else:
                taken.setdefault(record.table, {})[place] = line_of(record.doc), normalise(record.ts)
        except PenstockError as error:
            refused[place], received[place] = str(getattr(error, "reason", error)), ReceivedRecord.of_wire(line)
    places = range(batch.records.n + len(batch.skips))
    for name, lines in taken.items():
        part = Batch(unit=batch.unit, first=batch.first, origin=batch.origin, run=batch.run)
        part.records.lines = [line for line, _ in lines.values()]
        part.records.stamps.update({i: ts for i, (_, ts) in enumerate(lines.values()) if ts is not None})
        part.skips = [place for place in places if place not in lines]
        if name == table:
            part.refused, part.received = refused, received
            part.records.refused = len(refused)
        out.tables[name] = [part]
    return out


def redelivered(record: Record, done: int, resume: int) -> bool:
    """Return True if the source's committed offset `done` covers a record, or all records before `resume`."""
    return 0 < done >= resume or (record.offset is not None and record.offset < done)


def ingested(
    app: App, records: Iterable[Record], source: str, done: int, resume: int, only_reposts: bool = False
) -> tuple[dict[str, list[Batch]], Counts]:
    """Sort records of a source by table; the counts are those of redeliveries and of reposts.

    With `only_reposts` other redelivered records are kept: each partition drops those that it has. A redelivered
    record counts as late, also if the app no longer has its table.
    """
    known = {table.name for table in app.inputs()}
    tables: dict[str, list[Batch]] = {}
    late = equal = 0
    for record in records:
        if redelivered(record, done, resume) and (record.repost or not only_reposts or record.table not in known):
            late += 1
            continue
        app.input_of(record.table)
        own = tables.setdefault(record.table, [Batch(unit="record", origin=source)])[0]
        if record.offset is not None:
            own.offsets[own.size] = record.offset
        if record.repost:
            equal += own.posted(posted_or_not(app, record), record)
        elif record.doc is None:
            own.delete(record.key, record.ts)
        else:
            own.add(record.doc, record.ts)
    return tables, Counts(late=late, equal=equal)


def reposts_of(app: App, records: Iterable[Record], done: int, resume: int) -> dict[str, list[PostedValue]]:
    """Return the values of reposts that are no redeliveries; a later step refuses invalid ones."""
    known: dict[str, list[PostedValue]] = {}
    for record in records:
        if not isinstance(record, Record):
            raise ArgumentKind("records", record, "give an iterable of ps.Record")
        if record.repost and not redelivered(record, done, resume):
            found = posted_or_not(app, record)
            if isinstance(found, PostedValue):
                known.setdefault(record.table, []).append(found)
    return known


def posted_or_not(app: App, record: Record) -> PostedValue | RecordError:
    """Return the value that a record posts, or the error with the reason why it is invalid."""
    try:
        return posted(app.table_of(record.table), record.doc)
    except RecordError as error:
        return error
