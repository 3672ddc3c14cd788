"""The record-by-record form of a small batch of one table, with plain values instead of columns.

Invariants:

- It leaves the same bytes in `Writes`, in memory and in the report as the columnar form. Both forms share the code
that encodes, decodes, orders and folds.
- It passes a batch with a rejected record or a held document to the columnar form. Until then only caches of committed
rows have changed. Functions run only once: their emissions are passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.cache import (
    FEW,
    GONE,
    PRESENT,
    LogMark,
    PenstockError,
    Reader,
    Writer,
    received_document,
    same_document,
    unpack_document,
)
from penstock.gateway.intake.intake import IntakeReport, TableBatch
from penstock.gateway.lines.stored_lines import absent_line, stamped_line
from penstock.gateway.patches import Patcher, PatchStep, next_of
from penstock.gateway.small_batch_deltas import Few, FewRecord, FewTelling, FewVersion, FunctionOutputs
from penstock.gateway.stored_equality import is_equal_to_stored
from penstock.gateway.versions.precedence import DOCUMENT, TOMBSTONE
from penstock.gateway.versions.version_stamps import number_of, pair_of, plain_ts
from penstock.gateway.versions.winners import CurrentVersion, decide_each
from penstock.gateway.view_deltas import key_value
from penstock.mapreduce import (
    DecodedColumns,
    DocumentReader,
    FunctionMapper,
    Writes,
    copies,
    key_lane,
)
from penstock.views import Merge, reach

_NO_DOCUMENT = (msgspec.MsgspecError, RecursionError, PenstockError, ValueError)


class FewForm:
    """The processor of small batches of one table."""

    def __init__(self, node: Few) -> None:
        self._node = node
        self._reader = DocumentReader(node.plan, node.spaces)
        self._telling = FewTelling(node)
        self._functions = [(view, view.mapper) for view in node.views if isinstance(view.mapper, FunctionMapper)]
        self._patcher = Patcher(node) if node.table.merge is Merge.PATCH else None
        self._most = min(node.log.limits.few, FEW)
        self._has_ts = node.table.has_ts

    def process(self, reader: Reader, batch: TableBatch, writes: Writes) -> IntakeReport | DecodedColumns | None:
        """Take a batch, or return None or columns for the columnar form; columns contain the emissions of functions.

        Columns contain group codes of this node's memory. They are never stored in the batch, because it may be
        retried.
        """
        if not 0 < batch.n <= self._most or batch.decoded is not None:
            return None
        node = self._node
        taken = self._take_in(batch)
        if taken is None:
            return None
        records, documents, kind = taken
        if self._patcher is not None:
            report = self._patch(reader, self._patcher, records, documents, writes)
            node.ts_kind = kind
            return report
        outputs = self._run(documents, lambda: list(map(unpack_document, batch.lines)))
        slots = self._look_up(reader, records)
        outcome, new = self._decide(reader, records, slots)
        if self._unusual(new, outputs):
            if outputs:
                columns = node.decoder.columns(batch.lines)
                columns.outputs = outputs
                return columns
            return None
        node.ts_kind = kind
        if new:
            self._commit(reader, new, outputs, writes)
        return IntakeReport(outcome)

    # -- in

    def _take_in(self, batch: TableBatch) -> tuple[list[FewRecord], list[dict[str, Any]], str | None] | None:
        """Return the records, their documents and the kind of their ts, or None if one is rejected."""
        table, kind = self._node.table, self._node.ts_kind
        records: list[FewRecord] = []
        documents: list[dict[str, Any]] = []
        try:
            for at in range(batch.n):
                deletion = batch.deletes.get(at)
                if deletion is None:
                    line = batch.lines[len(documents)]
                    document = received_document(line)
                    key = key_value(table, document)
                    if not table.key.single and not any(part is not None for part in key):
                        return None
                    ts = batch.stamp(at) if table.ts is None else reach(document, table.ts)
                    doc = len(documents)
                    documents.append(document)
                else:
                    doc, line, key, ts = -1, b"", deletion.key, deletion.ts
                lanes = key_lane(key, self._node.seed)
                if lanes is None:
                    return None
                number: int | float | None = None
                if self._has_ts and (doc >= 0 or ts is not None):
                    number, kind = number_of(ts, kind)
                    pair_of(number)
                records.append(FewRecord(lanes, number, doc, line, key))
        except _NO_DOCUMENT:  # the columnar form returns the reason
            return None
        readings = self._reader.read(documents)
        for record in records:
            if record.doc >= 0:
                record.reading = readings[record.doc]
        return records, documents, kind

    def _look_up(self, reader: Reader, records: list[FewRecord]) -> list[int]:
        """Load all data of the keys of the records into memory. Return their slots."""
        node = self._node
        slots, cold = node.log.resolve_few(reader, [record.lanes for record in records])
        node.memory.fit(node.log.keys.map.used)
        if cold.size:
            node.loader.load(reader, cold)
        return slots

    # -- which version wins

    def _decide(self, reader: Reader, records: list[FewRecord], slots: list[int]) -> tuple[bytearray, list[FewVersion]]:
        """Return the outcome of each record, and the versions to write, in the order of the records."""
        ts = [record.ts for record in records] if self._has_ts else None
        outcome, winners = decide_each(
            slots,
            [record.doc < 0 for record in records],
            ts,
            self._stored,
            lambda i, j: same_document(records[i].line, records[j].line),
            lambda i: self._same_as_stored(reader, slots[i], records[i]),
        )
        new: list[FewVersion] = []
        for i in winners:
            record = records[i]
            if ts is not None:
                record.ts = ts[i]
            new.append(self._version(slots[i], record, self._line(record)))
        return outcome, new

    def _version(self, slot: int, record: FewRecord, line: bytes) -> FewVersion:
        state = self._node.log.keys.state.item(slot)
        return FewVersion(slot, record, line, self._node.memory.read(slot) if state & PRESENT else None, state)

    def _stored(self, slot: int) -> CurrentVersion:
        """Return the stored version of a key. Tombstones count in tables with ts."""
        state = self._node.log.keys.state.item(slot)
        facts = DOCUMENT if state & PRESENT else TOMBSTONE if self._has_ts and state & GONE else 0
        return CurrentVersion(facts, self._node.memory.stamp(slot) if facts and self._has_ts else None)

    def _same_as_stored(self, reader: Reader, slot: int, record: FewRecord) -> bool:
        """Return True if a document equals the stored one of its key."""
        assert record.reading is not None, "it is a document"
        log, memory = self._node.log, self._node.memory
        return is_equal_to_stored(log, memory, reader, slot, record.reading, record.line)

    # -- batches for the columnar form

    def _unusual(self, new: list[FewVersion], outputs: FunctionOutputs) -> bool:
        """Return True if a view holds one of these documents, or will hold it."""
        for held in self._node.deltas.held.values():
            if held and any(n.slot in held for n in new):
                return True
        if any(n.record.doc in held for _, held in outputs.values() if held for n in new):
            return True
        return self._telling.wrong([n.record.reading for n in new if n.record.reading is not None])

    def _run(self, documents: list[dict[str, Any]] | None, again: Callable[[], list[Any]]) -> FunctionOutputs:
        """Run each function on its own documents; the last may get `documents` if readings do not use them."""
        outputs: FunctionOutputs = {}
        spare = 0 if any(self._node.plan.inputs.values()) else len(self._functions)
        for i, (view, mapper) in enumerate(self._functions, 1):
            own = documents if i == spare and documents is not None else again()
            outputs[view.name] = mapper.run(own, view.groups)
        return outputs

    # -- patches

    def _patch(
        self,
        reader: Reader,
        patcher: Patcher,
        records: list[FewRecord],
        documents: list[dict[str, Any]],
        writes: Writes,
    ) -> IntakeReport:
        """Merge a batch and send the deltas to the views."""
        node, slots = self._node, self._look_up(reader, records)
        steps = [
            PatchStep(slot, None if record.doc < 0 else documents[record.doc], plain_ts(record.ts))
            for slot, record in zip(slots, records, strict=True)
        ]
        outcome, merged = patcher.merge(reader, steps)
        report = IntakeReport(bytearray(outcome))
        if not merged:
            return report
        docs = [m.own.fields for m in merged if m.own.fields]
        lines = [m.line(records[m.step].key) for m in merged]
        readings = iter(enumerate(self._reader.read(docs)))
        outputs = self._run(None, lambda: copies(docs))
        new: list[FewVersion] = []
        for m, line in zip(merged, lines, strict=True):
            doc, reading = next(readings) if m.own.fields else (-1, None)
            was = records[m.step]
            ts = max(m.own.stamps.values(), default=None)
            new.append(self._version(m.slot, FewRecord(was.lanes, ts, doc, line, was.key, reading), line))
        if self._unusual(new, outputs):
            columns = node.decoder.of_dicts(docs, keys=False)
            columns.outputs = outputs
            held = node.tell(reader, next_of(merged, lines, columns), writes)
            report.held.update(merged[i].step for i in held)
        else:
            self._commit(reader, new, outputs, writes)
        return report

    # -- out

    def _commit(self, reader: Reader, new: list[FewVersion], outputs: FunctionOutputs, writes: Writes) -> None:
        """Send the deltas to the views. Schedule the write of the segment and the update of memory."""
        node = self._node
        log, memory, has_ts = node.log, node.memory, self._has_ts
        gone = [n.record.doc < 0 for n in new]
        slots = [n.slot for n in new]
        writes.changed = True
        self._telling.tell(reader, new, outputs, writes)
        left = sum(bool(n.state & PRESENT) for n in new)
        lost = sum(bool(n.state & GONE) for n in new)
        change = len(new) - sum(gone) - left, (sum(gone) - lost if has_ts else 0)
        some = gone if any(gone) else None
        marks: list[LogMark] = []

        def append(writer: Writer) -> None:
            marks.append(log.append_few(writer, [n.line for n in new], [n.record.lanes for n in new], some, change))

        def remember() -> None:
            used = log.keys.map.used
            for n in new:
                if has_ts and self._patcher is None:
                    memory.put_stamp(n.slot, n.record.ts, used)
                if n.record.reading is not None:
                    memory.put_reading(n.slot, n.record.reading, used)
            log.appended_few(marks[0], slots, some)

        writes.during.append(append)
        writes.after.append(remember)

    def _line(self, record: FewRecord) -> bytes:
        if record.doc < 0:
            return absent_line(record.key, plain_ts(record.ts))
        return stamped_line(plain_ts(record.ts), record.line) if self._node.table.broker_ts else record.line
