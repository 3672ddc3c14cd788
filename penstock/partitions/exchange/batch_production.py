"""The part of an atomic batch that belongs to another partition, as one part of a production.

One partition saves the whole batch in one commit: it applies its own records, and saves productions with the others'.
Each receiver applies its records once, by the number of the production. Invariant: a part is plain data, and begins
with a number that no view has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cache import Writer
from penstock.core import Batch, joined_records, rejects_in
from penstock.gateway import keep_rejected
from penstock.mapreduce import Part, Writes
from penstock.remote import batch_data, batch_of

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["is_records", "records_part", "take_records"]

_NO_VIEW = 0


def records_part(tables: Mapping[str, Sequence[Batch]], kinds: Mapping[str, str]) -> Part:
    """Make a part of these records; `kinds` are the kinds of ts by table."""
    return [_NO_VIEW, dict(kinds), {name: [batch_data(batch) for batch in parts] for name, parts in tables.items()}]


def is_records(part: Part) -> bool:
    """Return True if a part has records, and not contributions to a view."""
    return bool(part[0] == _NO_VIEW)


def take_records(core: Core, part: Part, writer: Writer, writes: Writes) -> dict[str, int]:
    """Apply the records of a part, and quarantine rejected ones; return the number of rejected ones by table."""
    _, kinds, data = part
    tables = {name: [batch_of(one) for one in parts] for name, parts in data.items()}
    joined = {name: joined_records(parts) for name, parts in tables.items()}
    for name, kind in kinds.items():
        core.tables[name].ts_kind = kind
    reports = {}
    for name, records in joined.items():
        core.make_room(core.tables[name], records.n)
        reports[name] = core.retake(writer, name, records, writes)
    refused = {name: len(reports[name].rejected) + records.refused for name, records in joined.items()}
    if any(refused.values()):
        tails = {name: node.log.mark.tail for name, node in core.tables.items()}
        keep_rejected(rejects_in(tables, reports), core.state.quarantined, tails, writes)
    return refused
