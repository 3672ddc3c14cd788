"""Load cold keys: read from the store the columns of documents that are not in memory.

The lines come from the log. Field views and `ts` are decoded from the lines again. Emissions of function views and
held documents come from their own rows. The columns are equal to those at the time of writing.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from penstock.cache import (
    GONE,
    LOADED,
    PRESENT,
    RECORD,
    DocumentLog,
    Reader,
    Slots,
    record_key,
    segments_of,
    stored_key,
)
from penstock.gateway.lines.stored_lines import StoredLine, unwrap
from penstock.gateway.table_memory import TableMemory
from penstock.gateway.versions.version_stamps import NUMBER, stamps_of
from penstock.gateway.view_deltas import ViewDeltas, key_of
from penstock.mapreduce import Decoder, FunctionMapper, ViewNode
from penstock.views import Merge, Table


class LoadedTable(Protocol):
    """The part of a table node that loading needs."""

    table: Table
    number: int
    views: tuple[ViewNode, ...]
    log: DocumentLog
    memory: TableMemory
    decoder: Decoder
    deltas: ViewDeltas


class ColdKeyLoader:
    """The loader for the slots of one table."""

    def __init__(self, node: LoadedTable) -> None:
        self._node = node

    def load(self, reader: Reader, slots: Slots) -> None:
        """Fill the columns of these slots, each of which has a record."""
        node = self._node
        lines = node.log.lines(reader, slots)
        found = [unwrap(line) for line in lines]
        absent = np.fromiter((u.absent for u in found), bool, len(found))
        present = (~absent).nonzero()[0]
        used = node.log.keys.map.used
        columns = None
        if present.size:
            at = present.tolist()
            if found[at[0]].patched is not None:
                columns = node.decoder.of_dicts([_fields(found[i]) for i in at], keys=False)
            else:
                columns = node.decoder.columns([_line(found[i]) for i in at], keys=False)
            node.memory.put_fields(slots[present], columns, None, used)
        if node.table.has_ts and node.table.merge is Merge.REPLACE:
            self._load_stamps(slots, found, None if columns is None else columns.ts, present, used)
        self._load_emissions(reader, slots, present, used)
        self._load_held(reader, slots, lines)
        node.log.keys.state[slots] = np.where(absent, GONE, PRESENT).astype(np.uint8) | LOADED | RECORD

    def _load_stamps(self, slots: Slots, found: list[StoredLine], ts: Any, present: Slots, used: int) -> None:
        node = self._node
        own: list[Any] = [u.ts for u in found]
        if node.table.ts is not None and ts is not None:
            stamps, _, _ = stamps_of(ts, None, set())
            if present.size == len(found):
                node.memory.put_stamps(slots, stamps, used)
                return
            node.memory.put_stamps(slots[present], stamps, used)
            rest = np.array([i for i, u in enumerate(found) if u.absent], np.int64)
        else:
            rest = np.array([i for i, u in enumerate(found) if u.ts is not None], np.int64)
        if rest.size:
            stamps, _, _ = stamps_of([own[i] for i in rest.tolist()], NUMBER, set())
            node.memory.put_stamps(slots[rest], stamps, used)

    def _load_emissions(self, reader: Reader, slots: Slots, present: Slots, used: int) -> None:
        node = self._node
        views = [view for view in node.views if isinstance(view.mapper, FunctionMapper)]
        if not views or not present.size:
            return
        records = node.log.records(slots[present])
        found = segments_of(reader, node.number, records)
        places = [(record_key(s.base), len(s), which, at) for s, which, at in found]
        for view in views:
            blocks = view.remembered(reader).blocks([key for key, *_ in places], [size for _, size, *_ in places])
            for (*_, which, at), emissions in zip(places, blocks, strict=True):
                node.memory.functions[view.name].put(slots[present[which]], emissions.take(at), used)

    def _load_held(self, reader: Reader, slots: Slots, lines: list[bytes]) -> None:
        node = self._node
        views = [view for view in node.views if view.held]
        if not views:
            return
        keys = [stored_key(key_of(node.table, line)) for line in lines]
        for view in views:
            held = view.read_holds(reader, keys)
            own = node.deltas.held[view.name]
            own.update((slot, held[key]) for slot, key in zip(slots.tolist(), keys, strict=True) if key in held)


def _line(found: StoredLine) -> bytes:
    assert found.line is not None, "asked of documents that are there"
    return found.line


def _fields(found: StoredLine) -> dict[str, Any]:
    assert found.patched is not None, "a table's documents are all merged or all not"
    return found.patched.fields
