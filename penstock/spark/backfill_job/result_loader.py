"""Fill a new store from the results of tasks, appended in the order of their keys. One process does this.

Invariants:

- Each database gets its rows in the order of their keys. A run before the last key is inserted instead of appended.
- Record numbers are assigned here, in the order of the buckets. The place of a line is not content.
- The state is written last, with the offsets of the sources. So a store without it is never taken for a complete one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    DocumentLog,
    IndexEntries,
    Limits,
    LogMark,
    Segment,
    Store,
    Writer,
    at_base,
    bits_for,
    index_db,
    key_hash,
    log_db,
    record_key,
    rest_of,
    seal,
    unpack,
    unseal,
    write_anew,
)
from penstock.engine import Resume, StateRow, read_state, write_spout_states, write_state
from penstock.gateway import Form, ReceivedRecord, RejectedRecord, keep_rejected
from penstock.mapreduce import Writes, emissions_db
from penstock.spark.backfill_job.task_result_files import FrameKind, read_task_results
from penstock.spark.task_messages import Origin, SourceOffset, TablePlan, TaskReport
from penstock.views import Table

__all__ = ["ResultLoader"]

_COMMIT = 64 << 20  # bytes of a transaction
_ZERO = record_key(0)
_ORIGIN = 32


@dataclass(slots=True)
class _Index:
    """The index entries of some buckets of a table. Buckets and index use one hash."""

    hashes: list[NDArray[np.uint64]] = field(default_factory=list)
    rests: list[NDArray[np.uint32] | None] = field(default_factory=list)
    records: list[NDArray[np.uint32]] = field(default_factory=list)

    def add(self, segment: Segment, base: int, tombstones: bool) -> None:
        """Add the keys of a segment. Without `tombstones` only keys with documents are added."""
        at = np.arange(len(segment))
        if segment.gone is not None and not tombstones:
            at = np.flatnonzero(~segment.gone)
        k1 = None if segment.k1 is None else segment.k1[at]
        self.hashes.append(key_hash(segment.k0[at], k1))
        self.rests.append(rest_of(k1))
        self.records.append((base + at).astype(np.uint32))

    def entries(self) -> IndexEntries:
        """Return all entries."""
        rest: NDArray[np.uint32] | None = None
        if any(part is not None for part in self.rests):
            pairs = zip(self.rests, self.hashes, strict=True)
            rest = np.concatenate([np.zeros(h.size, np.uint32) if r is None else r for r, h in pairs])
        return IndexEntries(np.concatenate(self.hashes), rest, np.concatenate(self.records))


class ResultLoader:
    """The store that is filled, with its counts so far."""

    def __init__(self, store: Store, views: dict[str, int], origins: Sequence[Origin]) -> None:
        self._store = store
        self._views = views
        self._origins = origins
        self._last: dict[str, bytes] = {}
        self._rows: list[tuple[str, list[tuple[bytes, bytes]]]] = []
        self._size = 0
        self._rejects: list[tuple[tuple[int, int], RejectedRecord]] = []
        self._ts: dict[str, str] = {}
        self._source_offsets: dict[str, SourceOffset] = {}
        self._held_groups: dict[str, int] = {}
        self._changed = False

    # -- rows

    def put(self, db: str, rows: list[tuple[bytes, bytes]]) -> None:
        """Add rows of a database, in order."""
        self._rows.append((db, rows))
        self._size += sum(len(row) for _, row in rows)
        if self._size >= _COMMIT:
            self.flush()

    def flush(self) -> None:
        """Commit the added rows."""
        rows, self._rows, self._size = self._rows, [], 0
        with self._store.write() as writer:
            for db, part in rows:
                self._append(writer, db, part)
        self._store.trim()  # written pages would count as memory of this process

    def _append(self, writer: Writer, db: str, rows: list[tuple[bytes, bytes]]) -> None:
        follows = self._last.get(db, b"") < rows[0][0]
        writer.put_many(db, rows, append=follows)
        if follows:
            self._last[db] = rows[-1][0]

    # -- documents

    def documents(self, table: Table, plan: TablePlan, keys: int, reports: Iterable[TaskReport]) -> None:
        """Add the documents of a table, of all its buckets in order. `keys` counts documents and tombstones."""
        tail, present, tombstones = 0, 0, 0
        number, bits = plan.number, bits_for(keys)
        together = 1 << max(0, plan.bits - bits)  # buckets whose keys may share a bucket of the index
        index = _Index()
        for report in reports:
            base = tail
            tail += self._bucket(table, number, report, base, index)
            present, tombstones = present + report.present, tombstones + report.tombstones
            if report.ts_kind is not None:
                self._ts[table.name] = report.ts_kind
            for own in report.source_offsets:
                known = self._source_offsets.get(own.source)
                if known is None or known.offset <= own.offset:
                    self._source_offsets[own.source] = own
            if (report.number - plan.first + 1) % together == 0:
                index = self._indexed(number, bits, index)
        self._indexed(number, bits, index)
        self.flush()
        if tail:
            self._changed = True
            with self._store.write() as writer:
                mark = LogMark(tail, tail, bits, False, present, tombstones)
                DocumentLog(number, table.has_ts, 1, Limits()).put_mark(writer, mark)

    def _bucket(self, table: Table, number: int, report: TaskReport, base: int, index: _Index) -> int:
        """Add the results of one bucket. Return the number of its records in the log."""
        added = 0
        kinds = [FrameKind.SEGMENT, FrameKind.EMISSIONS, FrameKind.ROWS, FrameKind.REJECT]
        for kind, name, (keys, values) in read_task_results(report.path, kinds):
            if kind is FrameKind.SEGMENT:
                [data] = values
                segment = Segment.parse(0, data, log_db(number))
                index.add(segment, base, table.has_ts)
                added += len(segment)
                self.put(log_db(number), [(record_key(base), at_base(data, base))])
            elif kind is FrameKind.EMISSIONS:
                db, key = emissions_db(self._views[name]), record_key(base)
                self.put(db, [(key, seal(key, unseal(_ZERO, values[0], db)))])
            elif kind is FrameKind.ROWS:
                self.put(name, list(zip(keys, values, strict=True)))
            else:
                self._rejected(name, values)
        return added

    def _indexed(self, number: int, bits: int, index: _Index) -> _Index:
        """Write the index rows of these buckets. Later buckets use other rows of the index."""
        if index.hashes:
            with self._store.write() as writer:
                write_anew(writer, index_db(number), bits, index.entries())
        return _Index()

    def _rejected(self, table: str, values: Sequence[bytes]) -> None:
        for data in values:
            major, minor, reason, form, received, size, ts = unpack(data)
            origin = self._origins[major >> _ORIGIN]
            got = ReceivedRecord(Form(form), received, size, ts)
            offset = minor if origin.offsets else None
            reject = RejectedRecord(table, origin.source, offset, origin.where(minor), reason, got)
            self._rejects.append(((major, minor), reject))

    # -- views

    def groups(self, reports: Iterable[TaskReport]) -> None:
        """Add the rows and nodes of views, of all their ranges in order."""
        for report in reports:
            for _, db, (keys, values) in read_task_results(report.path, [FrameKind.ROWS]):
                self.put(db, list(zip(keys, values, strict=True)))
            for view, held in report.held_groups.items():
                self._held_groups[view] = self._held_groups.get(view, 0) + held
        self.flush()

    # -- the end

    def finish(self, offsets: Mapping[str, int]) -> StateRow:
        """Write the quarantine, the offsets of the sources and of `offsets`, and the state."""
        writes = Writes()
        rejects = [reject for _, reject in sorted(self._rejects, key=lambda own: own[0])]
        with self._store.write() as writer:
            old = read_state(writer)
            if rejects:
                keep_rejected(rejects, 0, dict.fromkeys((r.table for r in rejects), 0), writes)
                writes.write(writer)
            position = int(self._changed or bool(rejects) or bool(self._source_offsets) or bool(offsets))
            state = msgspec.structs.replace(
                old,
                position=position,
                followed=position,
                sources={**{own.source: own.offset for own in self._source_offsets.values()}, **offsets},
                ts=self._ts,
                rejected=dict(writes.kept),
                held_groups={view: n for view, n in self._held_groups.items() if n},
                quarantined=writes.numbered,
                kept=dict(writes.kept),
            )
            write_state(writer, state)
            resumes: dict[str, Any] = {
                own.source: Resume(own.offset, own.state) for own in self._source_offsets.values()
            }
            write_spout_states(writer, resumes)
        return state
