"""Keys of records that changed nothing during a refill of their table.

A record that equals the stored document, that is late, or that deletes an absent key leaves no log entry. A refill
replays the log entries since its beginning into the next store, which may lack the document of such a key. So these
keys are noted. The refill also copies their current documents or deletions to that store. Invariant: the transaction
that takes a record notes its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.cache import (
    GONE,
    PRESENT,
    Reader,
    Writer,
    decode_key,
    encode_key,
    received_document,
    seal,
    stored_key,
    unseal,
)
from penstock.gateway.intake.intake import IntakeReport, TableBatch
from penstock.gateway.line_replay import carry_over
from penstock.gateway.lines.stored_lines import absent_line
from penstock.gateway.table_node import TableNode
from penstock.gateway.versions.precedence import Outcome
from penstock.gateway.view_deltas import key_value
from penstock.mapreduce import Writes, key_lanes

__all__ = ["carry_repeats", "record_repeats", "repeated_db", "repeated_keys"]

_UNCHANGED = (Outcome.EQUAL, Outcome.LATE)


def repeated_db(table: int) -> str:
    """Name the database of these keys, by the number of the table."""
    return f"repeated:{table}"


def record_repeats(node: TableNode, batch: TableBatch, report: IntakeReport, writes: Writes) -> None:
    """Note the keys of the records of a batch that changed nothing."""
    outcome = list(report.outcome)
    if not any(own in _UNCHANGED for own in outcome):
        return
    lines, rows = iter(batch.lines), dict[bytes, bytes]()
    for at, own in enumerate(outcome):
        deletion = batch.deletes.get(at)
        line = next(lines) if deletion is None else b""
        if own in _UNCHANGED:
            key = key_value(node.table, received_document(line)) if deletion is None else deletion.key
            whole = encode_key(key)
            rows[stored_key(whole)] = whole
    db = repeated_db(node.number)
    sealed = [(key, seal(key, whole)) for key, whole in sorted(rows.items())]
    writes.during.append(lambda writer: writer.put_many(db, sealed))


def repeated_keys(reader: Reader, table: int) -> Iterator[bytes]:
    """Iterate over the noted keys."""
    db = repeated_db(table)
    for key, row in reader.scan(db):
        yield bytes(unseal(key, row, db))


def carry_repeats(live: TableNode, node: TableNode, writer: Writer, keys: Sequence[bytes], writes: Writes) -> None:
    """Copy the documents of these keys from the live table to the table of the refill."""
    values = [decode_key(key) for key in keys]
    (k0, k1), refused = key_lanes(values, node.seed)
    assert not refused, "they are keys of documents"
    for own in (live, node):
        own.make_room(len(keys))
    slots = live.slots_of(writer, k0, k1)
    stored = live.log.keys.state[slots] & (PRESENT | GONE if live.table.has_ts else PRESENT) != 0
    found = iter(live.log.lines(writer, slots[stored]))
    lines = [next(found) if own else absent_line(key, None) for own, key in zip(stored.tolist(), values, strict=True)]
    carry_over(node, writer, np.asarray(k0), k1, lines, writes)
