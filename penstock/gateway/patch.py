"""Patched documents: top-level fields merge, each by its own version.

A stored document carries each field's ts and the ts of the last deletion, the floor under all fields. Records are
merged one by one, in Python; what comes of a batch goes on as columns like any other. Without a ts the last to arrive
wins, field by field, and nothing is kept beside the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from penstock.cache import GONE, PRESENT, DocLog, Reader, canonical, unpack_document
from penstock.gateway.intake import Records, Report, TableBatch
from penstock.gateway.lines import Patched, absent_line, patched_line, unwrap
from penstock.gateway.loading import Loader
from penstock.gateway.memory import TableMemory
from penstock.gateway.telling import Next, key_value
from penstock.gateway.versions import Outcome
from penstock.mapreduce import Decoder, Writes
from penstock.views import Table


class Patching(Protocol):
    """What patching needs of a table's node."""

    table: Table
    log: DocLog
    loader: Loader
    memory: TableMemory
    decoder: Decoder


def merge_patch(current: Patched, fields: dict[str, Any], ts: Any) -> Outcome:
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


def merge_delete(current: Patched, ts: Any, stamped: bool) -> Outcome:
    """Delete a document, in place: in a table with ts, what is not newer than the deletion."""
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


class Patcher:
    """Takes the batches of a table with merge="patch"."""

    def __init__(self, node: Patching) -> None:
        self._node = node

    def process(
        self,
        reader: Reader,
        batch: TableBatch,
        writes: Writes,
        commit: Callable[[Reader, Next, Records, Report, Writes], None],
        report: Report,
        records: Records,
    ) -> None:
        """Merge a batch and tell the views."""
        node = self._node
        slots, cold = node.log.resolve(reader, records.k0, records.k1)
        node.memory.fit(node.log.keys.map.used)
        if cold.size:
            node.loader.load(reader, cold)
        current, before = self._stored(reader, np.unique(slots))
        stamped = node.table.has_ts
        last: dict[int, int] = {}
        for i, slot in enumerate(slots.tolist()):
            at, doc = int(records.at[i]), int(records.doc[i])
            own = current[slot]
            if doc >= 0:
                ts = records.ts_of(i) if stamped else None
                outcome = merge_patch(own, unpack_document(records.lines[doc]), ts)
            else:
                unstamped = not stamped or batch.deletes[at].ts is None
                outcome = merge_delete(own, None if unstamped else records.ts_of(i), stamped)
            report.outcome[at] = outcome
            if outcome is Outcome.APPLIED:
                last[slot] = i
        changed = [slot for slot in last if _state(current[slot]) != before[slot]]
        if not changed:
            return
        commit(reader, self._next(batch, records, changed, last, current), records, report, writes)

    def _stored(self, reader: Reader, slots: Any) -> tuple[dict[int, Patched], dict[int, bytes]]:
        log = self._node.log
        state = log.keys.state[slots]
        known = slots[state & (PRESENT | GONE if self._node.table.has_ts else PRESENT) != 0]
        current = {slot: Patched({}, {}) for slot in slots.tolist()}
        for slot, line in zip(known.tolist(), log.lines(reader, known) if known.size else (), strict=True):
            found = unwrap(line)
            if found.patched is not None:
                current[slot] = found.patched
            elif found.ts is not None:
                current[slot].floor = found.ts
        return current, {slot: _state(own) for slot, own in current.items()}

    def _next(
        self,
        batch: TableBatch,
        records: Records,
        changed: list[int],
        last: dict[int, int],
        current: dict[int, Patched],
    ) -> Next:
        node = self._node
        which = np.array([last[slot] for slot in changed], np.int64)
        gone = np.array([not current[slot].fields for slot in changed], bool)
        docs = [current[slot].fields for slot in changed if current[slot].fields]
        columns = node.decoder.of_dicts(docs, keys=False, tell=True)
        lines: list[bytes] = []
        for slot, record in zip(changed, which.tolist(), strict=True):
            own = current[slot]
            if own.fields:
                lines.append(patched_line(own))
            else:
                lines.append(absent_line(self._key(batch, records, record), own.floor))
        return Next(
            np.array(changed, np.int64),
            which,
            gone if gone.any() else None,
            None,
            columns,
            np.arange(len(docs)),
            lines,
        )

    def _key(self, batch: TableBatch, records: Records, record: int) -> Any:
        doc = int(records.doc[record])
        if doc < 0:
            return batch.deletes[int(records.at[record])].key
        return key_value(self._node.table, unpack_document(records.lines[doc]))


def _state(own: Patched) -> bytes:
    """All that is stored of a document, as bytes to compare."""
    return canonical([own.fields, own.stamps, own.floor])
