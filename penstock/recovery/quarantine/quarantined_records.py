"""Rejected records, read from quarantine to be retried.

A record in wire form names its own table. A retry looks that name up in the current app, regardless of the reason for
the rejection.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from penstock.cache import PenstockError, RecordError, normalise, received_document, unpack
from penstock.core import line_of, sized
from penstock.gateway import Deletion, Form, ReceivedRecord, RejectedRecord, TableBatch
from penstock.spout import Record, opened
from penstock.views import App

__all__ = ["aimed", "ready", "wire_record"]


def wire_record(app: App, line: bytes) -> Record:
    """Parse a record in wire form. Raise PenstockError if it is invalid."""
    try:
        wire = received_document(line)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise RecordError("it is no JSON object") from None
    return opened(app, wire)


def aimed(app: App, reject: RejectedRecord) -> RejectedRecord:
    """Resolve the table that a record in wire form names. Raise PenstockError if the record is invalid."""
    got = reject.received
    if got.form is not Form.WIRE or not got.whole:
        return reject
    record = wire_record(app, got.data)
    if record.repost:
        raise RecordError("it posts an old value, which takes a transaction of its own; post it anew")
    received = ReceivedRecord.made(Form.PACKED, line_of(record.doc), normalise(record.ts))
    tail = reject.tail if record.table == reject.table else 0  # known only for the table that rejected it
    return replace(reject, table=record.table, received=received, tail=tail)


def ready(rejects: dict[int, RejectedRecord], left: dict[int, str]) -> tuple[TableBatch, list[int]]:
    """Build a batch of the records that can be retried. Return it with their numbers; add other reasons to `left`."""
    batch, numbers = TableBatch([]), list[int]()
    for number in sorted(rejects):
        got = rejects[number].received
        place = batch.n
        if not got.whole:
            left[number] = f"only the beginning of its {got.size:,} bytes is kept; put it anew from its source"
        elif got.form is Form.TEXT:
            left[number] = "what is kept is no document in itself; correct it where it came from, and put it anew"
        elif got.form is Form.KEY:
            batch.deletes[place] = Deletion(unpack(got.data), got.ts)
            numbers.append(number)
        else:
            try:
                batch.lines.append(sized(got.data) if got.form is Form.PACKED else line_of(got.data))
            except PenstockError as error:
                left[number] = str(getattr(error, "reason", error))
                continue
            if got.ts is not None:
                batch.stamps[place] = got.ts
            numbers.append(number)
    return batch, numbers
