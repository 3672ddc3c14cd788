"""A new store that a repartitioning fills with the rows of the former partitions.

Invariants:

- the store is synced once, at the end, before it becomes part of any layout;
- rows of a database arrive in the order of their keys. Lines of a table are numbered here, from a base on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Lane, Limits, LogMark, make_folder, open_lmdb, record_key, seal, synced
from penstock.core import Catalog, Core, Resume, Settings, StateRow, write_catalog, write_spout_states, write_state
from penstock.gateway import moved_lines_db
from penstock.join import Entries
from penstock.mapreduce import Emissions, Groups, Writes, emissions_db, emissions_row
from penstock.views import App

__all__ = ["DocumentLines", "RepartitionTarget"]

_LINES, _BYTES = 1 << 14, 8 << 20  # of a segment
_COMMIT = 8 << 20  # bytes of rows in a transaction


@dataclass(frozen=True, slots=True)
class DocumentLines:
    """Lines with the lanes of their keys. `gone` marks tombstones. `numbers` are the former numbers, if order counts.
    `emissions` has the emissions of the lines by view."""

    k0: Lane
    k1: Lane | None
    lines: list[bytes]
    gone: NDArray[np.bool_] | None
    numbers: NDArray[np.int64] | None
    emissions: dict[int, Emissions]

    @classmethod
    def joined(cls, parts: Sequence[DocumentLines]) -> DocumentLines:
        """Join these parts in their order."""
        k1: Lane | None = None
        if any(part.k1 is not None for part in parts):
            k1 = np.concatenate([np.zeros(p.k0.size, np.uint64) if p.k1 is None else p.k1 for p in parts])
        gone: NDArray[np.bool_] | None = None
        if any(part.gone is not None and part.gone.any() for part in parts):
            gone = np.concatenate([np.zeros(p.k0.size, np.bool_) if p.gone is None else p.gone for p in parts])
        numbers: NDArray[np.int64] | None = None
        if parts[0].numbers is not None:
            numbers = np.concatenate([part.numbers for part in parts if part.numbers is not None])
        return cls(
            np.concatenate([part.k0 for part in parts]),
            k1,
            [line for part in parts for line in part.lines],
            gone,
            numbers,
            {view: Emissions.join([part.emissions[view] for part in parts]) for view in parts[0].emissions},
        )


class RepartitionTarget:
    """One new store, until it is closed."""

    def __init__(self, folder: str, app: App, catalog: Catalog, memory: int) -> None:
        make_folder(folder)
        self.folder = folder
        self.living = 0  # documents of the last table
        self._store = open_lmdb(folder, sync=False)
        with self._store.write() as writer:
            write_catalog(writer, catalog)
        self._core = Core(app, self._store, Settings(memory, Limits()), folder)
        self._lines: list[DocumentLines] = []
        self._waiting = 0, 0  # lines and their bytes
        self._rows: dict[str, list[tuple[bytes, bytes]]] = {}
        self._size = 0

    # -- documents

    def begin(self, table: str, base: int) -> None:
        """Begin a table, whose lines are numbered from `base` on."""
        self._node = self._core.tables[table]
        log = self._node.log
        with self._store.write() as writer:
            log.put_mark(writer, LogMark(tail=base, folded=base))
        with self._store.read() as reader:
            log.open(reader)

    def add(self, lines: DocumentLines, groups: Mapping[int, Groups]) -> None:
        """Add lines; `groups` are the groups of their emissions by view."""
        self._lines.append(lines)
        n, size = self._waiting
        self._waiting = n + len(lines.lines), size + sum(map(len, lines.lines))
        if self._waiting[0] >= _LINES or self._waiting[1] >= _BYTES:
            self.flush(groups)

    def flush(self, groups: Mapping[int, Groups]) -> None:
        """Write the lines that wait as one segment."""
        if not self._lines:
            return
        own, self._lines, self._waiting = DocumentLines.joined(self._lines), [], (0, 0)
        node, n = self._node, len(own.lines)
        log = node.log
        if not log.keys.room(n):
            node.forget(n)
        slots = log.keys.find_or_add(own.k0, own.k1)
        gone = 0 if own.gone is None else int(own.gone.sum())
        key = record_key(log.mark.tail)
        with self._store.write() as writer:
            mark = log.append(writer, own.lines, slots, own.gone, (n - gone, gone))
            for view, emissions in own.emissions.items():
                writer.put_many(emissions_db(view), [(key, emissions_row(key, emissions, groups[view]))])
            if own.numbers is not None:
                writer.put_many(moved_lines_db(node.number), [(key, seal(key, own.numbers.astype("<i8").tobytes()))])
        log.appended(mark, slots, own.gone)
        steps = log.fold_steps(n)
        if steps:
            self._fold(steps)
        self._store.trim()

    def end(self, groups: Mapping[int, Groups]) -> None:
        """End the table: write the lines that wait, and fold all lines into the index."""
        self.flush(groups)
        log = self._node.log
        if log.mark.present or log.mark.tombstones:
            for _ in range(1 + log.folding):  # a running fold covers only the lines that it began with
                self._fold(_LINES)
                while log.folding:
                    self._fold(_LINES)
        self.living = log.mark.present
        self._node.forget()

    def _fold(self, steps: int) -> None:
        with self._store.write() as writer:
            done = self._node.log.fold_step(writer, steps)
        done()

    # -- rows

    def put(self, db: str, rows: list[tuple[bytes, bytes]]) -> None:
        """Add rows to a database, after the rows added before."""
        self._rows.setdefault(db, []).extend(rows)
        self._size += sum(len(key) + len(row) for key, row in rows)
        if self._size >= _COMMIT:
            self._write_rows()

    def put_entries(self, side: str, entries: Entries) -> None:
        """Add entries to the index of a side of a join."""
        index, writes = self._core.joins.sides[side].index, Writes()
        assert index is not None, "a side without an index has no entries"
        with self._store.write() as writer:
            index.stage(writer, entries.slice(0, 0), entries, writes)
            writes.write(writer)
        writes.committed()
        while steps := index.fold_steps():
            with self._store.write() as writer:
                done = index.fold_step(writer, steps)
            done()
        self._store.trim()

    def _write_rows(self) -> None:
        rows, self._rows, self._size = self._rows, {}, 0
        with self._store.write() as writer:
            for db, own in rows.items():
                writer.put_many(db, own, append=True)
        self._store.trim()

    # -- the end

    def finish(self, state: StateRow, sources: Mapping[str, Resume], left: Writes) -> None:
        """Write the remaining rows and the state, close the store and sync its files."""
        self._write_rows()
        with self._store.write() as writer:
            left.write(writer)
            write_spout_states(writer, sources)
            write_state(writer, state)
        self.close()
        synced(self.folder)

    def close(self) -> None:
        """Close the store."""
        self._core.close()
