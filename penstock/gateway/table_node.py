"""The gateway node of a table: it takes records and sends (prev, next) of documents to its views, as columns.

It loads the documents that a batch touches, decides which versions win, and sends each view its deltas. Invariants:

- It is a state machine without I/O of its own. It reads through a given transaction, and returns its writes and memory
updates in `Writes`.
- A retraction uses remembered data and the stored definition. It never runs a function again.
- Until `Writes.after` runs, a batch changes nothing in memory but caches of committed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    GONE,
    PRESENT,
    DocumentLog,
    KeyCache,
    Lane,
    LogMark,
    Reader,
    Segment,
    Slots,
    Writer,
    same_document,
)
from penstock.gateway.cold_keys import ColdKeyLoader
from penstock.gateway.generation_scan import GenerationScan
from penstock.gateway.intake.intake import REJECTED, IntakeReport, Records, TableBatch, take_in
from penstock.gateway.lines.line_numbers import write_moved_lines
from penstock.gateway.lines.stored_lines import absent_line, stamped_line
from penstock.gateway.patches import Patcher
from penstock.gateway.small_batch import FewForm
from penstock.gateway.stored_equality import equal_to_stored
from penstock.gateway.table_memory import TableMemory
from penstock.gateway.versions.precedence import Outcome
from penstock.gateway.versions.winners import Decision, StoredVersions, decide
from penstock.gateway.view_deltas import ViewDeltas, WinningVersions
from penstock.mapreduce import Decoder, FieldPlan, FunctionMapper, Spaces, ViewNode, Writes
from penstock.views import FunctionMap, Merge, Table


class TableNode:
    """One table at work."""

    def __init__(
        self, table: Table, number: int, views: Sequence[ViewNode], log: DocumentLog, spaces: Spaces, seed: int
    ) -> None:
        self.table = table
        self.number = number
        self.views = tuple(views)
        self.log = log
        self.ts_kind: str | None = None
        self.build: GenerationScan | None = None  # while views on it are being built
        self.seed = seed  # of hashed keys
        self.plan = FieldPlan.of(table.key, table.ts, [v.view for v in views])
        self._functions = [v.name for v in views if isinstance(v.view.map, FunctionMap)]
        self._start(spaces)
        self.patcher = Patcher(self) if table.merge is Merge.PATCH else None

    def _start(self, spaces: Spaces) -> None:
        self.spaces = spaces
        tellers = [(v.name, v.mapper, lambda v=v: v.groups) for v in self.views if isinstance(v.mapper, FunctionMapper)]
        self.decoder = Decoder(self.plan, spaces, self.seed, tellers)
        capacity = self.log.keys.map.capacity
        self.memory = TableMemory(capacity, self.plan, self.table.has_ts, self._functions)
        self.loader = ColdKeyLoader(self)
        self.deltas = ViewDeltas(self)
        self._few = FewForm(self)

    # -- memory

    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        used = self.log.keys.map.used
        own = self.log.keys.nbytes + self.memory.cost(used) + self.spaces.nbytes
        return own + sum(v.nbytes(spaces=False) for v in self.views)

    def forget(self, room: int = 0) -> None:
        """Drop the memory, with room for so many keys after that; data is loaded again on demand."""
        self.log.forget(room)
        spaces = Spaces()
        self._start(spaces)
        for view in self.views:
            view.forget(spaces)

    def release(self) -> None:
        """Give memory back at the end, without waiting for Python's cycle collector."""
        self.log.keys = KeyCache(1)
        self._start(Spaces())

    # -- a batch

    def process(self, reader: Reader, batch: TableBatch, writes: Writes) -> IntakeReport:
        """Take a batch."""
        few = self._few.process(reader, batch, writes)
        if isinstance(few, IntakeReport):
            return few
        records, rejected = take_in(self, batch, few)
        outcome = np.empty(batch.n, np.uint8)
        outcome.fill(REJECTED)
        report = IntakeReport(outcome, rejected)
        if not records.n:
            return report
        if self.patcher is not None:
            self.patcher.process(reader, batch, writes, self.commit, report, records)
            return report
        slots, stored = self.look_up(reader, records)
        records.settle(slots, stored)
        decision = self._decide(reader, records, slots, stored)
        report.outcome[records.at] = decision.outcome
        if records.void is not None:
            report.outcome[records.at[records.void]] = Outcome.EQUAL
        if decision.winners.size:
            self.commit(reader, self._next(batch, records, stored, decision), records, report, writes)
        return report

    def look_up(self, reader: Reader, records: Records) -> tuple[Slots, StoredVersions]:
        """Load all data of the keys of the records into memory. Return their slots and stored versions."""
        slots = self.slots_of(reader, records.k0, records.k1)
        return slots, self._stored(slots, self.table.has_ts)

    def _stored(self, slots: Slots, stamped: bool) -> StoredVersions:
        """Return the facts stored of these slots, with ts if `stamped`. Tombstones count in tables with ts."""
        state = self.log.keys.state[slots]
        gone = (state & GONE).astype(bool) if self.table.has_ts else np.zeros(slots.size, bool)
        return StoredVersions((state & PRESENT).astype(bool), gone, self.memory.stamps(slots) if stamped else None)

    def slots_of(self, reader: Reader, k0: Lane, k1: Lane | None) -> Slots:
        """Load all data of these keys, given by their lanes, into memory. Return their slots."""
        slots, cold = self.log.resolve(reader, k0, k1)
        self.memory.fit(self.log.keys.map.used)
        if cold.size:
            self.loader.load(reader, cold)
        return slots

    def make_room(self, keys: int) -> None:
        """Drop the memory if it has no room for so many more keys."""
        if not self.log.keys.room(keys):
            self.forget(keys)

    def _decide(self, reader: Reader, records: Records, slots: Slots, stored: StoredVersions) -> Decision:
        docs, lines = records.doc, records.lines

        def same(i: int, j: int) -> bool:
            return same_document(lines[int(docs[i])], lines[int(docs[j])])

        def same_as_stored(which: NDArray[np.int64]) -> NDArray[np.bool_]:
            return equal_to_stored(self.log, self.memory, reader, records, which, slots[which])

        if records.void is None:
            return decide(slots, records.gone, records.stamps, stored, same, same_as_stored)
        take = (~records.void).nonzero()[0]
        part = decide(
            slots[take],
            None if records.gone is None else records.gone[take],
            None if records.stamps is None else records.stamps.take(take),
            stored.take(take),
            lambda i, j: same(int(take[i]), int(take[j])),
            lambda which: same_as_stored(take[which]),
        )
        outcome = np.full(slots.size, Outcome.EQUAL, np.uint8)
        outcome[take] = part.outcome
        return Decision(outcome, take[part.winners], part.slots)

    def _next(self, batch: TableBatch, records: Records, stored: StoredVersions, decision: Decision) -> WinningVersions:
        winners = decision.winners
        docs, gone, stamps = records.doc, records.gone, records.stamps
        if winners.size < records.n:
            stored = stored.take(winners)
            docs = docs[winners]
            gone = None if gone is None else gone[winners]
            stamps = None if stamps is None else stamps.take(winners)
        if gone is not None and not np.count_nonzero(gone):
            gone = None
        lines = self._lines(batch, records, winners, docs)
        own = docs if gone is None else docs[~gone]
        return WinningVersions(decision.slots, winners, gone, stamps, records.columns, own, lines, stored=stored)

    def _lines(
        self, batch: TableBatch, records: Records, winners: NDArray[np.int64], docs: NDArray[np.int64]
    ) -> list[bytes]:
        got = records.lines
        if records.gone is None and not self.table.broker_ts:
            return got if docs.size == len(got) else [got[i] for i in docs.tolist()]
        out: list[bytes] = []
        for record, doc in zip(winners.tolist(), docs.tolist(), strict=True):
            at = int(records.at[record])
            if doc < 0:
                out.append(absent_line(batch.deletes[at].key, records.ts_of(record)))
            elif self.table.broker_ts:
                out.append(stamped_line(records.ts_of(record), got[doc]))
            else:
                out.append(got[doc])
        return out

    def carry(self, numbered: bool) -> Callable[[Writer, Sequence[tuple[Segment, NDArray[np.int64]]], int], None]:
        """Return a function that copies the emissions of copied lines; if `noted`, also their original numbers."""

        def carried(writer: Writer, parts: Sequence[tuple[Segment, NDArray[np.int64]]], base: int) -> None:
            self.deltas.carry(writer, parts, base)
            if numbered:
                write_moved_lines(self.number, writer, parts, base)

        return carried

    def commit(
        self, reader: Reader, new: WinningVersions, records: Records, report: IntakeReport, writes: Writes
    ) -> None:
        """Send the deltas to the views. Schedule the write of the segment and the update of memory."""
        held = self.tell(reader, new, writes)
        report.held.update(int(records.at[new.records[i]]) for i in held)

    def tell(self, reader: Reader, new: WinningVersions, writes: Writes) -> list[int]:
        """Do the work of `commit` without a report. Return the indexes of the new versions that a view holds."""
        log, memory = self.log, self.memory
        stored = new.stored or self._stored(new.slots, False)
        was = stored.present
        now = None if new.gone is None else ~new.gone
        writes.changed = True
        held = self.deltas.tell(reader, new, was, now, writes)
        left = 0 if new.gone is None else int(np.count_nonzero(new.gone))
        change = new.slots.size - left - int(np.count_nonzero(was)), 0
        if self.table.has_ts:
            change = change[0], left - int(np.count_nonzero(stored.tombstone))
        slots, gone = new.slots, new.gone
        docs = None if new.docs.size == new.columns.n else new.docs  # they ascend: so many are all of them
        present = slots if now is None else slots[now]

        marks: list[LogMark] = []

        def append(writer: Writer) -> None:
            marks.append(log.append(writer, new.lines, slots, gone, change))

        def remember() -> None:
            used = log.keys.map.used
            if new.stamps is not None:
                memory.put_stamps(slots, new.stamps, used)
            memory.put_fields(present, new.columns, docs, used)
            log.appended(marks[0], slots, gone)

        writes.during.append(append)
        writes.after.append(remember)
        return held
