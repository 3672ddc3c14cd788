"""One transaction over several tables: the records added to it, and the outcome of its batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np

from penstock.cache import Closed
from penstock.core.input.batches import Batch, batches_of
from penstock.gateway import REJECTED, Form, IntakeReport, Outcome, ReceivedRecord, RejectedRecord, TableBatch
from penstock.views import KEPT, Counts, Rejection


class TransactionTarget(Protocol):
    """The engine that runs the transaction in the end."""

    def must_be_writable(self, *tables: str) -> None:
        """Raise an error if nothing can be written, or nothing to one of these tables."""
        ...


def joined_records(parts: list[Batch]) -> TableBatch:
    """Join the records of several batches of one table, in order."""
    if len(parts) == 1:
        return parts[0].records
    out = TableBatch([])
    for part in parts:
        start = out.n
        out.refused += part.records.refused
        out.lines += part.records.lines
        out.deletes.update((start + i, d) for i, d in part.records.deletes.items())
        out.stamps.update((start + i, ts) for i, ts in part.records.stamps.items())
    return out


def offsets_of(parts: Sequence[Batch]) -> Callable[[int], int | None]:
    """Return the function that gives the offset of a record of joined batches, if it has its own."""

    def offset(record: int) -> int | None:
        for part in parts:
            if record < part.records.n:
                return part.offset(part.place(record))
            record -= part.records.n
        return None

    return offset


def _counts_of(report: IntakeReport, places: slice | None = None) -> tuple[int, int, int, int, int]:
    """Return (applied, equal, late, held, rejected) for a report's records, or for some of them."""
    outcome = bytes(report.outcome if places is None else report.outcome[places])
    held = len(report.held)
    if places is not None:
        held = sum(1 for i in report.held if places.start <= i < places.stop)
    return (
        outcome.count(Outcome.APPLIED),
        outcome.count(Outcome.EQUAL),
        outcome.count(Outcome.LATE),
        held,
        outcome.count(REJECTED),
    )


def counts_in(table: str, part: Batch, report: Any, places: slice) -> Counts:
    applied, equal, late, held, rejected = _counts_of(report, places)
    if not rejected and not part.refused:
        return Counts(applied, equal, late, held)
    reasons = dict(islice(part.refused.items(), KEPT))
    if rejected:
        own = sorted(i for i in report.rejected if places.start <= i < places.stop)
        reasons |= {part.place(i - places.start): report.rejected[i] for i in own[:KEPT]}
    first = tuple(Rejection(table, part.where(place), reasons[place]) for place in sorted(reasons)[:KEPT])
    return Counts(applied, equal, late, held, rejected + part.records.refused, first)


def counts_of(
    tables: Mapping[str, Sequence[Batch]], reports: Mapping[str, IntakeReport]
) -> tuple[Counts, dict[int, Counts]]:
    """Return the counts of all batches, and those of each batch by its identity."""
    total: Counts | None = None
    each: dict[int, Counts] = {}
    for name, parts in tables.items():
        start = 0
        for part in parts:
            places = slice(start, start + part.records.n)
            start = places.stop
            each[id(part)] = own = counts_in(name, part, reports[name], places)
            total = own if total is None else total + own
    return total or Counts(), each


def rejects_in(tables: Mapping[str, Sequence[Batch]], done: Mapping[str, IntakeReport]) -> Iterator[RejectedRecord]:
    """Yield the records for quarantine: all that the tables rejected, in order."""
    for name, parts in tables.items():
        rejected = done[name].rejected
        known, start = sorted(rejected), 0
        for part in parts:
            end = start + part.records.n
            own = known[bisect_left(known, start) : bisect_left(known, end)]
            if own or part.refused:
                yield from _rejects_of(name, part, {at - start: rejected[at] for at in own})
            start = end


def _rejects_of(table: str, part: Batch, rejected: Mapping[int, str]) -> Iterator[RejectedRecord]:
    """Yield the rejected records of one batch; `rejected` has the reasons by place in the batch."""
    records, reasons = part.records, dict(part.refused)
    received = dict(part.received)
    lines = np.searchsorted(records.places(), np.fromiter(rejected, np.int64, len(rejected)))
    for at, place, line in zip(rejected, part.places(rejected), lines.tolist(), strict=True):
        deletion = records.deletes.get(at)
        if deletion is None:
            received[place] = ReceivedRecord.of_line(records.lines[line], records.stamp(at))
        else:
            received[place] = ReceivedRecord.of_key(deletion.key, deletion.ts)
        reasons[place] = rejected[at]
    for place in sorted(reasons):
        got = received.get(place) or ReceivedRecord(Form.TEXT, b"", 0)
        yield RejectedRecord(table, part.origin, part.offset(place), part.where(place), reasons[place], got)


class Transaction:
    """The transaction of `engine.batch()`: its records are committed together at the end of the block.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users, orders = app.table("users", key="id"), app.table("orders", key="number")
    >>> with ps.open(app, None) as engine:
    ...     with engine.batch() as b:
    ...         b.put("users", {"id": 7, "name": "Sue"})
    ...         b.put("orders", {"number": 1, "user": 7})
    ...     print(b.counts)
    2 applied
    """

    def __init__(self, engine: TransactionTarget) -> None:
        self._engine = engine
        self._tables: dict[str, list[Batch]] = {}
        self._ended = False
        self.origin = "batch"  # its name in quarantine
        self.counts = Counts()

    def put(self, table: str, doc: Any, ts: Any = None) -> None:
        """Put one document.

        b.put("users", {"id": 7, "name": "Sue"})
        """
        self._batch(table).add(doc, ts)

    def put_many(self, table: str, docs: Any) -> None:
        """Put many documents, all of them in this transaction.

        b.put_many("users", [{"id": 7}, {"id": 8}])
        """
        parts = self._parts(table)
        parts += list(batches_of(docs, 1 << 31))

    def delete(self, table: str, key: Any, ts: Any = None) -> None:
        """Delete the document with this key.

        b.delete("orders", 12)
        """
        self._batch(table).delete(key, ts)

    def take(self) -> dict[str, list[Batch]]:
        """Return the batches, and refuse further records."""
        self._ended = True
        return self._tables

    def _parts(self, table: str) -> list[Batch]:
        if self._ended:
            raise Closed("the batch")
        self._engine.must_be_writable(table)
        return self._tables.setdefault(table, [])

    def _batch(self, table: str) -> Batch:
        parts = self._parts(table)
        if not parts or parts[-1].unit != "record":
            before = sum(part.size for part in parts if part.unit == "record")
            parts.append(Batch(unit="record", first=1 + before, origin=self.origin))
        return parts[-1]
