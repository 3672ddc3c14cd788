"""The deltas of a batch for the views of a table, and the emissions to remember.

Each view retracts the contributions of the documents before and adds those of the documents now. If a view cannot
accept a document, it keeps the previous contributions, and its held row stores them. Emissions of function views are
stored with the documents, a row per segment. Emissions of field views are derived again from the line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    DocumentLog,
    Reader,
    Segment,
    Slots,
    Writer,
    encode_key,
    record_key,
    stored_key,
    unpack_document,
)
from penstock.gateway.lines.stored_lines import unwrap
from penstock.gateway.table_memory import PreviousColumns, TableMemory
from penstock.gateway.versions.version_stamps import Stamps
from penstock.gateway.versions.winners import StoredVersions
from penstock.mapreduce import (
    Column,
    DecodedColumns,
    DocumentContributions,
    Emissions,
    FieldMapper,
    FunctionMapper,
    Hold,
    Pairs,
    SourceChange,
    SourceKeys,
    ViewNode,
    Writes,
    deltas_of,
    emissions_db,
    emissions_row,
    places_of,
)
from penstock.views import TS, Table, reach

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class SegmentLines:
    """Lines of a segment that a scan passes, and the places of current documents among them."""

    base: int
    start: int
    stop: int
    at: Index


@dataclass(slots=True)
class WinningVersions:
    """The versions that win: their slots, records, and columns of documents."""

    slots: Slots
    records: Index  # which record of the batch each is
    gone: Mask | None  # which are deletions
    stamps: Stamps | None
    columns: DecodedColumns
    docs: Index  # of those that are not deletions: their place in `columns`, ascending
    lines: list[bytes]
    places: list[SegmentLines] | None = None  # where they stand, if they are in the log already
    remember: Callable[[Writer, ViewNode, Emissions], None] | None = None  # how, if not with the next segment
    stored: StoredVersions | None = None  # of their keys, where that was looked up already


class DeltaTable(Protocol):
    """The part of a table node that deltas need."""

    table: Table
    views: tuple[ViewNode, ...]
    log: DocumentLog
    memory: TableMemory

    @property
    def build(self) -> ScannedViews | None:
        """Return the scan of the views that are being built, or None."""
        ...


class ScannedViews(Protocol):
    """The progress of the scan of views that are being built."""

    def covers(self, records: Index) -> Mask:
        """Mark the newest records with documents that the views have already."""
        ...


def document_of(line: bytes) -> dict[str, Any]:
    """Return the document of a stored line."""
    found = unwrap(line)
    if found.patched is not None:
        return found.patched.fields
    assert found.line is not None, "asked of documents that are there"
    return unpack_document(found.line)


def key_value(table: Table, doc: Any) -> Any:
    """Return the key of a document."""
    parts = tuple(reach(doc, path) for path in table.key.paths)
    return parts[0] if table.key.single else parts


def key_of(table: Table, line: bytes) -> bytes:
    """Return the encoded key of a stored line."""
    found = unwrap(line)
    return encode_key(found.key if found.absent else key_value(table, document_of(line)))


def stamp_column(stamps: Stamps | None, lines: Sequence[bytes], at: Index) -> Column:
    """Return the ts of the versions at these indexes; for a document merged from patches, the greatest."""
    if stamps is None:
        own = (unwrap(lines[i]).patched for i in at.tolist())
        return Column.of([None if p is None or not p.stamps else max(p.stamps.values()) for p in own])
    return stamps.take(at).column()


def _of_docs(emissions: Emissions, holds: dict[int, Hold], docs: Index) -> tuple[Emissions, dict[int, Hold]]:
    """Return the emissions and holds of some documents of a batch."""
    if docs.size == emissions.documents:
        return emissions, holds
    places = {doc: j for j, doc in enumerate(docs.tolist())} if holds else {}
    return emissions.take(docs), {places[doc]: hold for doc, hold in holds.items() if doc in places}


@dataclass(slots=True)
class DeltaSides:
    """A batch as views see it: the new versions, those with a document before, and those with one now."""

    new: WinningVersions
    was: Index
    now: Index
    old: PreviousColumns | None
    keys: SourceKeys | None  # of the new versions, if a view keeps contributions


Versions = TypeVar("Versions")


def by_view(
    views: Sequence[ViewNode],
    build: ScannedViews | None,
    every: Versions,
    scanned: Callable[[Versions, ScannedViews], Versions],
) -> Iterator[tuple[ViewNode, Versions]]:
    """Yield each view with the versions that change it, for columns and for small batches.

    A view that is being built counts only the former documents that its scan has `scanned`.
    """
    some = every if build is None else scanned(every, build)
    for view in views:
        yield view, every if view.building is None else some


class ViewDeltas:
    """The sender of deltas to the views of one table."""

    def __init__(self, node: DeltaTable) -> None:
        self._node = node
        self.held: dict[str, dict[int, Pairs]] = {view.name: {} for view in node.views}
        self._fields = any(isinstance(view.mapper, FieldMapper) for view in node.views)
        self._keeps = any(view.keeps for view in node.views)

    def tell(self, reader: Reader, new: WinningVersions, was: Mask, now: Mask | None, writes: Writes) -> list[int]:
        """Send the deltas to all views. Return the indexes of the new versions that a view holds."""
        node = self._node
        at = was.nonzero()[0]
        old = None
        if self._fields:
            old = node.memory.take_fields(new.slots if at.size == new.slots.size else new.slots[at])
        keys = self.keys_of(new) if self._keeps else None
        sides = DeltaSides(new, at, np.arange(new.slots.size) if now is None else now.nonzero()[0], old, keys)
        held: set[int] = set()
        for view, own in by_view(node.views, node.build, sides, self._scan_sides):
            held.update(self._tell(reader, view, own, writes))
        return sorted(held)

    def tell_of(self, reader: Reader, new: WinningVersions, views: Sequence[ViewNode], writes: Writes) -> list[int]:
        """Send these views documents that they have not received yet. Return the indexes of those that a view holds."""
        none, every = np.zeros(0, np.int64), np.arange(new.slots.size)
        keys = self.keys_of(new) if any(view.keeps for view in views) else None
        sides = DeltaSides(new, none, every, self._node.memory.take_fields(new.slots[none]), keys)
        return sorted({i for view in views for i in self._tell(reader, view, sides, writes)})

    def refresh_view(self, reader: Reader, new: WinningVersions, view: ViewNode, writes: Writes) -> list[int]:
        """Send one view documents again, as they are now. Return the indexes of those that it holds."""
        every, old = np.arange(new.slots.size), self._node.memory.take_fields(new.slots)
        keys = self.keys_of(new) if view.keeps else None
        return self._tell(reader, view, DeltaSides(new, every, every, old, keys), writes)

    def _tell(self, reader: Reader, view: ViewNode, sides: DeltaSides, writes: Writes) -> list[int]:
        """Send the deltas to one view. Return the indexes of the new versions that it holds."""
        new, held = sides.new, self.held[view.name]
        own = {i: held[slot] for i, slot in enumerate(new.slots.tolist()) if slot in held} if held else {}
        if isinstance(view.mapper, FieldMapper):
            change = self._by_fields(view, view.mapper, sides, own)
        else:
            change = self._by_function(view, sides, writes)
        deltas = deltas_of(view, change, own, sides.keys if view.keeps else None)
        if view.stamped:
            assert deltas.plus.sources is not None, "a view that reads ts keeps contributions"
            deltas.plus.inputs[TS] = stamp_column(new.stamps, new.lines, deltas.plus.sources.index)
        if own or change.stuck:
            freed = new.slots[deltas.released].tolist()
            self.hold(view, new, deltas.kept, change.stuck, freed, writes)
        view.advance(reader, deltas.plus, deltas.minus, writes)
        return list(deltas.kept)

    def _scan_sides(self, sides: DeltaSides, scan: ScannedViews) -> DeltaSides:
        """Return the sides for views that are being built. Documents that they lack have nothing to retract."""
        slots = sides.new.slots[sides.was]
        counted = self.scanned(slots, scan)
        if counted.all():
            return sides
        old = None if sides.old is None else self._node.memory.take_fields(slots[counted])
        return DeltaSides(sides.new, sides.was[counted], sides.now, old, sides.keys)

    def scanned(self, slots: Slots, scan: ScannedViews) -> Mask:
        """Mark the slots whose stored documents count in views that are being built: the scan has sent them."""
        return scan.covers(self._node.log.records(slots))

    def keys_of(self, new: WinningVersions) -> SourceKeys:
        """Return the keys of the new versions."""
        lane, hashed = self._node.log.keys.map.lanes(new.slots)
        text: NDArray[np.object_] | None = None
        other = np.zeros(0, np.int64) if hashed is None else hashed.nonzero()[0]
        own = lane.view(np.int64)
        if other.size:
            text = np.full(new.slots.size, None, object)
            known = new.columns.texts
            if known is not None and new.gone is None and new.docs.size == new.slots.size:
                text[:] = known if new.docs.size == len(known) else [known[i] for i in new.docs.tolist()]
                return SourceKeys(np.zeros(new.slots.size, np.int64), text)
            for i in other.tolist():
                text[i] = key_of(self._node.table, new.lines[i])
            own = np.where(hashed == 0, own, 0)
        return SourceKeys(own, text)

    # -- maps

    @staticmethod
    def _by_fields(view: ViewNode, mapper: FieldMapper, sides: DeltaSides, held: Collection[int]) -> SourceChange:
        """Map versions by fields. Map those before again from memory, except for held documents."""
        new, old = sides.new, sides.old
        assert old is not None
        every = new.docs.size == new.columns.n
        now, stuck = mapper.mapped(new.columns, None if every else new.docs, sides.now)
        before = mapper.taken(old, sides.was).without(held)
        holds = {i: mapper.hold(document_of(new.lines[i])) for i in stuck}
        return SourceChange(now, before, holds, lambda wanted: before.pairs_of_each(wanted, view.pairs_of))

    def _by_function(self, view: ViewNode, sides: DeltaSides, writes: Writes) -> SourceChange:
        """Take the emissions of the new versions from the columns and remember them; load those before."""
        new, memory = sides.new, self._node.memory.functions[view.name]
        emissions, wrong = _of_docs(*new.columns.outputs[view.name], new.docs)
        remembered = memory.take(new.slots[sides.was])
        stuck = {int(sides.now[j]): hold for j, hold in wrong.items()}
        change = SourceChange(
            DocumentContributions(view.emitted(emissions), sides.now, emissions.counts),
            DocumentContributions(view.emitted(remembered), sides.was, remembered.counts),
            stuck,
            lambda wanted: remembered.take_or_none(places_of(sides.was, wanted)).pairs_of_each(view.groups),
        )
        if not stuck and sides.now.size == new.slots.size:
            self.remember(view, new, emissions, writes)
            return change
        now, before = (np.full(new.slots.size, -1, np.int64) for _ in range(2))
        now[sides.now] = np.arange(sides.now.size)
        before[sides.was] = np.arange(sides.was.size)
        keeps = np.zeros(new.slots.size, bool)
        keeps[list(stuck)] = True
        place = np.where(keeps, emissions.documents + np.cumsum(keeps) - 1, now)
        row = Emissions.join([emissions, remembered.take_or_none(before[keeps])]) if stuck else emissions
        self.remember(view, new, row.take_or_none(place), writes)
        return change

    def remember(self, view: ViewNode, new: WinningVersions, emissions: Emissions, writes: Writes) -> None:
        log, memory = self._node.log, self._node.memory.functions[view.name]
        remember = new.remember
        if remember is not None:
            writes.during.append(lambda writer: remember(writer, view, emissions))
        elif new.places is None:
            self.write_emissions(view, emissions, writes)
        else:
            writes.during.append(lambda writer: _remember_emissions(writer, view, new.places or (), emissions))
        writes.after.append(lambda: memory.put(new.slots, emissions, log.keys.map.used))

    def write_emissions(self, view: ViewNode, row: Emissions, writes: Writes) -> None:
        """Write the row with the emissions of a function for the documents of the next segment."""
        key = record_key(self._node.log.mark.tail)
        writes.puts.append((emissions_db(view.number), [(key, emissions_row(key, row, view.groups))]))

    # -- holding

    def hold(
        self,
        view: ViewNode,
        new: WinningVersions,
        pairs_of: dict[int, Pairs],
        reasons: dict[int, Hold],
        freed: Sequence[int],
        writes: Writes,
    ) -> None:
        """Hold the new versions in `pairs_of`; `freed` are the slots that are no longer held."""
        table, held = self._node.table, self.held[view.name]
        rows: list[tuple[bytes, bytes, Hold, Pairs]] = []
        slots = new.slots.tolist()
        own: dict[int, bytes] = {}
        where = {slot: i for i, slot in enumerate(slots)}
        for i, pairs in pairs_of.items():
            whole = key_of(table, new.lines[i])
            own[slots[i]] = stored_key(whole)
            rows.append((own[slots[i]], whole, reasons[i], pairs))
        released = [stored_key(key_of(table, new.lines[where[slot]])) for slot in freed]
        before = {own[slot] for slot in own if slot in held}
        view.write_holds(rows, released, before, writes)

        def remember() -> None:
            for slot in freed:
                held.pop(slot, None)
            held.update((slots[i], pairs) for i, pairs in pairs_of.items())

        writes.after.append(remember)

    # -- segments that move

    def carry(self, writer: Writer, parts: Sequence[tuple[Segment, Index]], base: int) -> None:
        """Copy the emissions of function views along with lines that move to the segment at `base`."""
        for view in self._node.views:
            if not isinstance(view.mapper, FunctionMapper):
                continue
            keys = [record_key(segment.base) for segment, _ in parts]
            blocks = view.remembered(writer).blocks(keys, [len(segment) for segment, _ in parts])
            joined = Emissions.join([emissions.take(at) for emissions, (_, at) in zip(blocks, parts, strict=True)])
            if joined.documents:
                key = record_key(base)
                writer.put_many(emissions_db(view.number), [(key, emissions_row(key, joined, view.groups))])


def _remember_emissions(writer: Writer, view: ViewNode, places: Sequence[SegmentLines], emissions: Emissions) -> None:
    """Extend the rows of the segments with the emissions of a function for documents in the log."""
    db, first = emissions_db(view.number), 0
    keys = [record_key(place.base) for place in places]
    for key, place in zip(keys, places, strict=True):
        own = emissions.take(np.arange(first, first + place.at.size))
        first += place.at.size
        if place.at.size < place.stop - place.start:
            own = own.spread((place.at - place.start).tolist(), place.stop - place.start)
        if place.start:
            own = Emissions.join([view.remembered(writer).block(key, place.start), own])
        writer.put_many(db, [(key, emissions_row(key, own, view.groups))])
