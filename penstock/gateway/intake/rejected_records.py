"""Quarantine: rejected records as they were received, until a retry takes them or the user drops them.

The key of a row is a number. Numbers grow and are never reused:

    [table, source, offset, where, reason, form, data, size, ts, tail]
        offset: of a record that has one of its own   where: its place in the source, as text for users
        form, data, size, ts: the received record     tail: the table's next record number at that time

Invariants: the batch of a record writes its row in the same transaction. A retry or a drop deletes the row in its own
transaction. A damaged row is listed like the others, and can be dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cache import Reader, StoreDamaged, pack, seal, unpack, unseal
from penstock.gateway.intake.received_records import Form, ReceivedRecord
from penstock.mapreduce import Writes

__all__ = [
    "QUARANTINE",
    "RejectedRecord",
    "counted",
    "keep_rejected",
    "read_rejects",
    "rejects_db",
    "rejects_from",
    "release",
    "without_tails",
]

QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A rejected record."""

    table: str
    source: str
    offset: int | None
    where: str
    reason: str
    received: ReceivedRecord
    tail: int = 0

    @property
    def lost(self) -> bool:
        """Return True if the row is damaged, so that only its number is known."""
        return not self.table


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def keep_rejected(rejects: Iterable[RejectedRecord], first: int, tails: Mapping[str, int], writes: Writes) -> None:
    """Write rows for these records, numbered from `first` on; `tails` are the next record numbers of tables."""
    rows: list[tuple[bytes, bytes]] = []
    for number, own in enumerate(rejects, first):
        rows.append(_row(number, own, tails[own.table]))
        writes.kept[own.table] = writes.kept.get(own.table, 0) + 1
    writes.puts.append((QUARANTINE, rows))
    writes.numbered += len(rows)


def _row(number: int, own: RejectedRecord, tail: int) -> tuple[bytes, bytes]:
    got, key = own.received, _key(number)
    said = [own.table, own.source, own.offset, own.where, own.reason]
    return key, seal(key, pack([*said, got.form.value, got.data, got.size, got.ts, tail]))


def without_tails(reader: Reader, tables: Collection[str], writes: Writes) -> None:
    """Mark the quarantined records of these tables as older than all other records of their tables."""
    found = rejects_from(reader) if tables else ()
    rows = [_row(number, own, 0) for number, own in found if own.table in tables and own.tail]
    writes.puts.append((QUARANTINE, rows))


def release(numbers: Mapping[int, str], writes: Writes) -> None:
    """Delete these rows from quarantine; the mapping is from number to table, as far as known."""
    writes.deletes.append((QUARANTINE, [_key(number) for number in numbers]))
    for table in filter(None, numbers.values()):
        writes.kept[table] = writes.kept.get(table, 0) - 1


def read_rejects(reader: Reader, numbers: Sequence[int]) -> dict[int, RejectedRecord]:
    """Return the records with these numbers that are in quarantine."""
    rows = reader.get_many(QUARANTINE, [_key(number) for number in numbers])
    found = zip(numbers, rows, strict=True)
    return {number: _read(_key(number), row) for number, row in found if row is not None}


def rejects_db(table: int) -> str:
    """Name the database of the rejected records that a refill takes over, by the number of its first table."""
    return f"rejects:{table}"


def rejects_from(reader: Reader, first: int = 0, db: str = QUARANTINE) -> Iterator[tuple[int, RejectedRecord]]:
    """Iterate over the records of quarantine, or of a database of the same format, from a number on."""
    for key, row in reader.scan(db, _key(first)):
        yield int.from_bytes(key, "big"), _read(key, row)


_LOST = "its row in the store is damaged; drop it, and put the record anew from its source"


def _read(key: bytes, row: bytes) -> RejectedRecord:
    try:
        said: list[Any] = unpack(unseal(key, row, QUARANTINE))
    except StoreDamaged:
        return RejectedRecord("", "", None, "", _LOST, ReceivedRecord(Form.TEXT, b"", 0, None))
    table, source, offset, where, reason, form, data, size, ts, tail = said
    return RejectedRecord(table, source, offset, where, reason, ReceivedRecord(Form(form), data, size, ts), tail)


def counted(reader: Reader, gone: Iterable[int]) -> dict[str, int]:
    """Count the records of each table, without these numbers."""
    out: dict[str, int] = {}
    without = set(gone)
    for number, reject in rejects_from(reader):
        if not reject.lost and number not in without:
            out[reject.table] = out.get(reject.table, 0) + 1
    return out
