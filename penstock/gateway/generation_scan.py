"""Send existing documents to the views that are being built, a few thousand at a time.

The scan reads the log in the order of its records, current documents only. A later put comes after the end of the scan,
and its own batch sends its deltas. Invariants:

- A view has a document if and only if its newest record is before the cursor, or came after the build began. Nothing
renumbers records during the scan.
- The scan sends deltas through the same code as a batch, without retractions.
- The row with the remembered emissions of a segment covers its lines up to the cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import DocumentLog, Lane, Reader, Segment, Slots, segments_at
from penstock.gateway.lines.stored_lines import StoredLine, unwrap
from penstock.gateway.table_memory import TableMemory
from penstock.gateway.versions.version_stamps import NUMBER, Stamps, stamps_of
from penstock.gateway.view_deltas import SegmentLines, ViewDeltas, WinningVersions
from penstock.mapreduce import DecodedColumns, Decoder, FieldPlan, FunctionMapper, Spaces, ViewNode, Writes
from penstock.views import Merge, Table

__all__ = ["GenerationScan"]

_PARTS = 16  # most steps for one segment: each writes its row of emissions again
_MOST_BYTES = 4 << 20  # of lines in a step
_MOST_SEGMENTS = 256
Index = NDArray[np.int64]


class ScannedTable(Protocol):
    """The part of a table node that a scan needs."""

    table: Table
    number: int
    views: tuple[ViewNode, ...]
    log: DocumentLog
    memory: TableMemory
    deltas: ViewDeltas
    spaces: Spaces
    seed: int

    def forget(self, room: int = 0) -> None:
        """Drop the documents from memory, to make room for so many keys."""
        ...


@dataclass(slots=True)
class _SegmentPart:
    """The lines of a segment that a step scans."""

    segment: Segment
    start: int
    stop: int

    @property
    def records(self) -> Index:
        return self.segment.base + np.arange(self.start, self.stop)


class GenerationScan:
    """The progress of the scan that sends the documents of a table to the views that are being built."""

    def __init__(self, cursor: int, since: int) -> None:
        self.cursor = cursor
        self.since = since
        self._decoder: Decoder | None = None
        self._spaces: Spaces | None = None

    @property
    def done(self) -> bool:
        """Return True if the scan has sent all documents."""
        return self.cursor >= self.since

    def covers(self, records: Index) -> NDArray[np.bool_]:
        """Mark the newest records with documents that the views have already."""
        out: NDArray[np.bool_] = (records < self.cursor) | (records >= self.since)
        return out

    def step(self, node: ScannedTable, reader: Reader, limit: int, writes: Writes) -> tuple[int, int]:
        """Send the next documents, about `limit` lines. Return the next cursor and the count of documents."""
        parts = self._parts(node, reader, limit)
        if not parts:
            return self.since, 0
        lines = sum(part.stop - part.start for part in parts)
        if not node.log.keys.room(lines):
            node.forget(lines)
        slots, places = _living(node, reader, parts)
        found = [line for place, part in zip(places, parts, strict=True) for line in part.segment.lines(place.at)]
        cursor = parts[-1].segment.base + parts[-1].stop
        new = self._next(node, slots, found, places)
        node.memory.fit(node.log.keys.map.used)
        views = [view for view in node.views if view.building is not None]
        node.deltas.tell_of(reader, new, views, writes)
        return min(cursor, self.since), len(new.lines)

    def _parts(self, node: ScannedTable, reader: Reader, limit: int) -> list[_SegmentPart]:
        out: list[_SegmentPart] = []
        passed = size = 0
        for segment in segments_at(reader, node.number, self.cursor):
            if segment.base >= self.since or passed >= limit or len(out) == _MOST_SEGMENTS:
                break
            start = max(0, self.cursor - segment.base)
            stop = min(len(segment), start + max(limit - passed, len(segment) // _PARTS))
            room = np.searchsorted(segment.offsets, int(segment.offsets[start]) + _MOST_BYTES - size, "right") - 1
            stop = max(start + 1, min(stop, int(room))) if room > start or not out else start
            if stop == start:
                break
            out.append(_SegmentPart(segment, start, stop))
            passed += stop - start
            size += int(segment.offsets[stop]) - int(segment.offsets[start])
            if stop < len(segment):
                break
        return out

    def _next(
        self, node: ScannedTable, slots: Slots, lines: list[bytes], places: list[SegmentLines]
    ) -> WinningVersions:
        """Return these documents as versions that win."""
        found = [unwrap(line) for line in lines]
        decoder = self._decoding(node)
        if found and found[0].patched is not None:
            columns = decoder.of_dicts([one.patched.fields for one in found if one.patched], keys=False, tell=True)
        else:
            columns = decoder.columns([one.line for one in found if one.line is not None], keys=False, tell=True)
        every = np.arange(len(found))
        return WinningVersions(slots, every, None, _stamps(node.table, columns, found), columns, every, lines, places)

    def _decoding(self, node: ScannedTable) -> Decoder:
        """Return the decoder for the views that are being built only."""
        if self._decoder is None or self._spaces is not node.spaces:
            self._spaces = node.spaces
            views = [view for view in node.views if view.building is not None]
            tellers = [(v.name, v.mapper, lambda v=v: v.groups) for v in views if isinstance(v.mapper, FunctionMapper)]
            plan = FieldPlan.of(node.table.key, node.table.ts, [view.view for view in views])
            self._decoder = Decoder(plan, node.spaces, node.seed, tellers)
        return self._decoder


def _living(node: ScannedTable, reader: Reader, parts: Sequence[_SegmentPart]) -> tuple[Slots, list[SegmentLines]]:
    """Return the slots of the current documents in these parts, and their places by part."""
    k0 = np.concatenate([part.segment.k0[part.start : part.stop] for part in parts])
    k1: Lane | None = None
    if any(part.segment.k1 is not None for part in parts):
        k1 = np.concatenate([_second(part) for part in parts])
    slots, living = node.log.newest(reader, k0, k1, np.concatenate([part.records for part in parts]))
    gone = [_gone(part) for part in parts]
    living &= ~np.concatenate(gone)
    cuts = np.cumsum([part.stop - part.start for part in parts])[:-1]
    places = [
        SegmentLines(part.segment.base, part.start, part.stop, part.start + own.nonzero()[0])
        for part, own in zip(parts, np.split(living, cuts), strict=True)
    ]
    return slots[living], places


def _second(part: _SegmentPart) -> Lane:
    lane = part.segment.k1
    return np.zeros(part.stop - part.start, np.uint64) if lane is None else lane[part.start : part.stop]


def _gone(part: _SegmentPart) -> NDArray[np.bool_]:
    gone = part.segment.gone
    return np.zeros(part.stop - part.start, bool) if gone is None else gone[part.start : part.stop]


def _stamps(table: Table, columns: DecodedColumns, found: Sequence[StoredLine]) -> Stamps | None:
    """Return the ts of these documents; None in a table without ts or with merge="patch"."""
    if not table.has_ts or table.merge is Merge.PATCH:
        return None
    values: Any = columns.ts
    kind = None
    if table.ts is None:
        values, kind = [one.ts for one in found], NUMBER
    assert values is not None, "a table with a ts has a column of it"
    return stamps_of(values, kind, set())[0]
