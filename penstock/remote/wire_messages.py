"""Encode messages between a holder and other processes as plain data: batches, counts, errors.

Invariant: decoding returns an equal value. Only an error that cannot be rebuilt from its arguments differs: it becomes
a general error with the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from penstock.cache import BatchRejected, PenstockError, ValueKind, decode_key, encode_key, normalise
from penstock.core import Batch
from penstock.gateway import Deletion, Form, ReceivedRecord, TableBatch
from penstock.recovery import Checked, EarlySet, Mended, Production, Repaired, StoredProduction
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import ABSENT, Counts, Rejection

__all__ = [
    "batch_data",
    "batch_of",
    "checked_data",
    "checked_of_data",
    "counts_data",
    "counts_of_data",
    "early_data",
    "early_of",
    "error_data",
    "error_of",
    "production_data",
    "production_of",
    "record_data",
    "record_of",
    "repaired_data",
    "repaired_of_data",
    "spout_batch_data",
    "spout_batch_of",
    "values_data",
]


# Lists of lines and ints are packed by themselves: the message around them is walked value by value.
_encode = msgspec.msgpack.Encoder().encode
_lines_of = msgspec.msgpack.Decoder(list[bytes]).decode
_ints_of = msgspec.msgpack.Decoder(list[int]).decode


def batch_data(batch: Batch) -> dict[str, Any]:
    """Encode a batch."""
    return {
        "records": _records_data(batch.records),
        "unit": batch.unit,
        "first": batch.first,
        "skips": batch.skips,
        "refused": _listed(batch.refused),
        "received": _received_data(batch.received),
        "origin": batch.origin,
        "offsets": _listed(batch.offsets),
        "run": _listed(dict(batch.run)) if isinstance(batch.run, Mapping) else list(batch.run),
        "at": _encode(list(batch.at)),
    }


def batch_of(data: dict[str, Any]) -> Batch:
    """Decode a batch."""
    records = _records_of(data["records"])
    received = _received_of(data["received"])
    out = Batch(records, data["unit"], data["first"], data["skips"], dict(data["refused"]), received, data["origin"])
    run = data["run"]
    out.offsets, out.at = dict(data["offsets"]), _ints_of(data["at"])
    out.run = dict(run) if run and isinstance(run[0], list) else run
    return out


def production_data(production: Production) -> list[Any]:
    """Encode productions for another partition."""
    return [production.sender, production.epoch, [[owed.number, owed.data] for owed in production.owed]]


def production_of(data: list[Any]) -> Production:
    """Decode productions."""
    sender, epoch, owed = data
    return Production(sender, epoch, tuple(StoredProduction(*one) for one in owed))


def early_data(early: EarlySet) -> list[Any]:
    """Encode an early set for another partition."""
    return [early.sender, early.epoch, early.batch, early.saved, early.parts]


def early_of(data: list[Any]) -> EarlySet:
    """Decode an early set."""
    return EarlySet(*data)


def spout_batch_data(batch: SpoutBatch) -> dict[str, Any]:
    """Encode a batch of a spout."""
    return {
        "records": _records_data(batch.records),
        "source": batch.source,
        "start": batch.start,
        "resume": batch.resume,
        "note": batch.note,
        "again": batch.again,
        "raw": batch.raw,
        "unit": batch.unit,
        "first": batch.first,
        "offsets": list(batch.offsets),
        "begins": list(batch.begins),
        "skips": batch.skips,
        "refused": _listed(batch.refused),
        "received": _received_data(batch.received),
        "envelope": batch.envelope,
        "fenced": batch.fenced,
        "stood": None if batch.stood is None else [batch.stood.offset, batch.stood.note],
    }


def spout_batch_of(data: dict[str, Any]) -> SpoutBatch:
    """Decode a batch of a spout."""
    stood = data["stood"]
    made = {
        "records": _records_of(data["records"]),
        "refused": dict(data["refused"]),
        "received": _received_of(data["received"]),
        "stood": None if stood is None else Remembered(*stood),
    }
    return SpoutBatch(**{**data, **made})


def _received_data(received: dict[int, ReceivedRecord]) -> list[list[Any]]:
    return [[place, own.form.value, own.data, own.size, own.ts] for place, own in received.items()]


def _received_of(data: list[list[Any]]) -> dict[int, ReceivedRecord]:
    return {place: ReceivedRecord(Form(form), *rest) for place, form, *rest in data}


def _records_data(records: TableBatch) -> dict[str, Any]:
    return {
        "lines": _encode(records.lines),
        "deletes": [[place, deletion.key, deletion.ts] for place, deletion in records.deletes.items()],
        "stamps": [[at, ts] for at in range(records.n) if (ts := records.stamp(at)) is not None]
        if records.beside is not None
        else _listed(records.stamps),
        "refused": records.refused,
    }


def _records_of(data: dict[str, Any]) -> TableBatch:
    deletes = {place: Deletion(key, ts) for place, key, ts in data["deletes"]}
    return TableBatch(_lines_of(data["lines"]), deletes, dict(data["stamps"]), refused=data["refused"])


def _listed(by_place: dict[int, Any]) -> list[list[Any]]:
    """Convert a map to a list, because packed maps have text keys only."""
    return [[place, value] for place, value in by_place.items()]


def record_data(record: Record) -> list[Any]:
    """Encode a record of a spout; ValueKind if a document cannot contain its values."""
    doc = record.doc if isinstance(record.doc, str | bytes) else normalise(record.doc)
    return [record.table, normalise(record.key), doc, normalise(record.ts), record.offset, record.repost]


def record_of(data: list[Any]) -> Record:
    """Decode a record."""
    return Record(*data)


def counts_data(counts: Counts) -> list[Any]:
    """Encode counts."""
    rejections = [_rejection_data(r) for r in counts.rejections]
    return [counts.applied, counts.equal, counts.late, counts.held, counts.rejected, rejections]


def counts_of_data(data: list[Any]) -> Counts:
    """Decode counts."""
    applied, equal, late, held, rejected, rejections = data
    return Counts(applied, equal, late, held, rejected, tuple(Rejection(*r) for r in rejections))


def values_data(values: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Encode posted values of tables; ValueKind if a document cannot contain one."""
    return {
        name: [doc if isinstance(doc, str | bytes) else normalise(doc) for doc in docs] for name, docs in values.items()
    }


def repaired_data(repaired: Sequence[Repaired]) -> list[Any]:
    """Encode repairs. A present result is in a list, an absent one is None."""
    return [
        [
            one.view,
            None if one.group is ABSENT else encode_key(one.group),
            *(None if result is ABSENT else [result] for result in (one.old, one.new)),
            one.what.value,
        ]
        for one in repaired
    ]


def repaired_of_data(data: list[Any]) -> list[Repaired]:
    """Decode repairs."""

    def result(found: list[Any] | None) -> Any:
        return ABSENT if found is None else found[0]

    return [
        Repaired(view, ABSENT if group is None else decode_key(group), result(old), result(new), Mended(what))
        for view, group, old, new, what in data
    ]


def checked_data(report: Checked) -> dict[str, Any]:
    """Encode the report of a check."""
    return {
        "rows": report.rows,
        "documents": report.documents,
        "wrong": repaired_data(report.wrong),
        "damaged": list(report.damaged),
        "held": dict(report.held),
        "told": dict(report.told),
        "fixed": report.fixed,
        "anew": list(report.anew),
    }


def checked_of_data(data: dict[str, Any]) -> Checked:
    """Decode the report of a check."""
    listed = {name: tuple(data[name]) for name in ("damaged", "anew")}
    return Checked(**{**data, **listed, "wrong": tuple(repaired_of_data(data["wrong"]))})


def _rejection_data(rejection: Any) -> list[str]:
    return [rejection.table, rejection.where, rejection.reason]


def error_data(error: BaseException) -> dict[str, Any]:
    """Encode an error: its type, its arguments if they can be packed, and its text."""
    args: list[Any] | None = list(error.args)
    if isinstance(error, BatchRejected):
        args = [error.accepted, [_rejection_data(r) for r in error.rejections]]
    try:
        args = normalise(args)
    except ValueKind:
        args = None
    return {"type": type(error).__name__, "args": args, "text": str(error)}


def error_of(data: dict[str, Any], holder: str) -> PenstockError:
    """Decode an error; `holder` names its origin in errors of types outside this package."""
    name, args = data["type"], data["args"]
    if name == BatchRejected.__name__ and args is not None:
        return BatchRejected(args[0], [Rejection(*r) for r in args[1]])
    kind = next((kind for kind in _kinds(PenstockError) if kind.__name__ == name), None)
    if kind is None:
        return PenstockError(f"{holder} failed at this: {name}: {data['text']}; what it wrote of it may say more")
    if args is not None:
        try:
            made = kind(*args)
        except TypeError:
            return PenstockError(data["text"])
        if str(made) == data["text"]:
            return made
    return PenstockError(data["text"])


def _kinds(base: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)
