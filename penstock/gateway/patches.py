"""Patched documents: top-level fields merge, each by its own version.

A stored document contains the ts of each field and the ts of its last deletion, the floor of all fields. Records merge
one by one, in Python; later steps are the same as for other batches. Without a ts, the last value of each field wins,
and only the fields are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from penstock.cache import GONE, PRESENT, DocumentLog, Lane, Reader, Slots, canonical, unpack_document
from penstock.gateway.intake.intake import IntakeReport, Records, TableBatch
from penstock.gateway.lines.stored_lines import PatchedDocument, absent_line, patched_line, unwrap
from penstock.gateway.table_memory import TableMemory
from penstock.gateway.versions.precedence import Outcome
from penstock.gateway.view_deltas import WinningVersions, key_value
from penstock.mapreduce import DecodedColumns, Decoder, Writes
from penstock.views import Table


class PatchedTable(Protocol):
    """The part of a table node that patching needs."""

    table: Table
    log: DocumentLog
    memory: TableMemory
    decoder: Decoder

    def slots_of(self, reader: Reader, k0: Lane, k1: Lane | None) -> Slots:
        """Load all data of these keys, given by their lanes, into memory. Return their slots."""
        ...


def merge_patch(current: PatchedDocument, fields: dict[str, Any], ts: Any) -> Outcome:
    """Merge a patch into a document, in place."""
    if ts is None:
        outcome = Outcome.EQUAL
        for name, value in fields.items():
            if name not in current.fields or canonical(current.fields[name]) != canonical(value):
                current.fields[name] = value
                outcome = Outcome.APPLIED
        return outcome
    if current.floor is not None and ts < current.floor:
        return Outcome.LATE
    won = changed = False
    for name, value in fields.items():
        if name in current.stamps and ts < current.stamps[name]:
            continue
        won = True
        same = name in current.fields and current.stamps[name] == ts
        if not same or canonical(current.fields[name]) != canonical(value):
            current.fields[name], current.stamps[name] = value, ts
            changed = True
    if changed:
        return Outcome.APPLIED
    return Outcome.EQUAL if won else Outcome.LATE


def merge_delete(current: PatchedDocument, ts: Any, stamped: bool) -> Outcome:
    """Delete a document in place; with ts, delete only the fields that are not newer than the deletion."""
    if not stamped:
        if not current.fields:
            return Outcome.EQUAL
        current.fields.clear()
        return Outcome.APPLIED
    if ts is None:
        versions = [*current.stamps.values(), *([] if current.floor is None else [current.floor])]
        if not versions:
            return Outcome.EQUAL
        ts = max(versions)
    if current.floor is not None and ts < current.floor:
        return Outcome.LATE
    gone = [name for name, own in current.stamps.items() if own <= ts]
    if current.floor == ts and not gone:
        return Outcome.EQUAL
    for name in gone:
        del current.fields[name], current.stamps[name]
    current.floor = ts
    return Outcome.APPLIED


@dataclass(slots=True)
class PatchStep:
    """One record: fields to merge, or None to delete; `ts` is None if it has no ts of its own."""

    slot: int
    fields: dict[str, Any] | None
    ts: Any


@dataclass(slots=True)
class MergedDocument:
    """A document that differs from the stored one, and the last step that changed it."""

    slot: int
    step: int
    own: PatchedDocument

    def line(self, key: Any) -> bytes:
        """Encode the line to store; `key` is the key of the record."""
        return patched_line(self.own) if self.own.fields else absent_line(key, self.own.floor)


def next_of(merged: Sequence[MergedDocument], lines: list[bytes], columns: DecodedColumns) -> WinningVersions:
    """Return the versions to write; `columns` contain those that are documents."""
    gone = np.array([not m.own.fields for m in merged], bool)
    slots, steps = np.array([m.slot for m in merged], np.int64), np.array([m.step for m in merged], np.int64)
    return WinningVersions(slots, steps, gone if gone.any() else None, None, columns, np.arange(columns.n), lines)


class Patcher:
    """The batch processor of a table with merge="patch"."""

    def __init__(self, node: PatchedTable) -> None:
        self._node = node

    def process(
        self,
        reader: Reader,
        batch: TableBatch,
        writes: Writes,
        commit: Callable[[Reader, WinningVersions, Records, IntakeReport, Writes], None],
        report: IntakeReport,
        records: Records,
    ) -> None:
        """Merge a batch and send the deltas to the views."""
        node = self._node
        slots = node.slots_of(reader, records.k0, records.k1)
        outcome, merged = self.merge(reader, self._steps(batch, records, slots))
        for at, how in zip(records.at.tolist(), outcome, strict=True):
            report.outcome[at] = how
        if merged:
            docs = [m.own.fields for m in merged if m.own.fields]
            columns = node.decoder.of_dicts(docs, keys=False, tell=True)
            lines = [m.line(self._key(batch, records, m.step)) for m in merged]
            commit(reader, next_of(merged, lines, columns), records, report, writes)

    def merge(self, reader: Reader, steps: Sequence[PatchStep]) -> tuple[list[Outcome], list[MergedDocument]]:
        """Return the outcome of each step, and the documents that changed."""
        current, before = self._stored(reader, np.unique(np.array([step.slot for step in steps], np.int64)))
        stamped = self._node.table.has_ts
        last: dict[int, int] = {}
        outcomes: list[Outcome] = []
        for i, step in enumerate(steps):
            own = current[step.slot]
            if step.fields is None:
                outcome = merge_delete(own, step.ts, stamped)
            else:
                outcome = merge_patch(own, step.fields, step.ts)
            outcomes.append(outcome)
            if outcome is Outcome.APPLIED:
                last[step.slot] = i
        changed = [slot for slot in last if _state(current[slot]) != before[slot]]
        return outcomes, [MergedDocument(slot, last[slot], current[slot]) for slot in changed]

    def _steps(self, batch: TableBatch, records: Records, slots: Slots) -> list[PatchStep]:
        stamped = self._node.table.has_ts
        steps: list[PatchStep] = []
        for i, (slot, doc) in enumerate(zip(slots.tolist(), records.doc.tolist(), strict=True)):
            fields = None if doc < 0 else unpack_document(records.lines[doc])
            has = stamped and (doc >= 0 or batch.deletes[int(records.at[i])].ts is not None)
            steps.append(PatchStep(slot, fields, records.ts_of(i) if has else None))
        return steps

    def _stored(self, reader: Reader, slots: Any) -> tuple[dict[int, PatchedDocument], dict[int, bytes]]:
        log = self._node.log
        state = log.keys.state[slots]
        known = slots[state & (PRESENT | GONE if self._node.table.has_ts else PRESENT) != 0]
        current = {slot: PatchedDocument({}, {}) for slot in slots.tolist()}
        for slot, line in zip(known.tolist(), log.lines(reader, known) if known.size else (), strict=True):
            found = unwrap(line)
            if found.patched is not None:
                current[slot] = found.patched
            elif found.ts is not None:
                current[slot].floor = found.ts
        return current, {slot: _state(own) for slot, own in current.items()}

    def _key(self, batch: TableBatch, records: Records, record: int) -> Any:
        doc = int(records.doc[record])
        if doc < 0:
            return batch.deletes[int(records.at[record])].key
        return key_value(self._node.table, unpack_document(records.lines[doc]))


def _state(own: PatchedDocument) -> bytes:
    """Encode all stored data of a document for comparison."""
    return canonical([own.fields, own.stamps, own.floor])
