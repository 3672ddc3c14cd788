"""What the views of a table are told of a batch, and what is remembered of it.

For each view the contributions of the documents before come off and those of the documents now go on. A document that
a view can't take stays, for that view, what it was told last: neither side moves, and the view's held row keeps it.
What function views yielded is remembered with the documents, a row for each segment; what fields emit is derived again
from the line by the stored definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    DocLog,
    Reader,
    Segment,
    Slots,
    Writer,
    encode_key,
    record_key,
    stored_key,
    unpack_document,
)
from penstock.gateway.lines import unwrap
from penstock.gateway.memory import Remembered, TableMemory
from penstock.gateway.stamps import Stamps
from penstock.mapreduce import (
    Columns,
    Contributions,
    Emissions,
    FieldMapper,
    FunctionMapper,
    Hold,
    Pairs,
    ViewNode,
    Writes,
    emissions_row,
    read_emissions,
    told_db,
)
from penstock.views import Table, reach

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Next:
    """The versions that win: their slots, what they came with, and their documents' columns."""

    slots: Slots
    records: Index  # which record of the batch each is
    gone: Mask | None  # which are deletions
    stamps: Stamps | None
    columns: Columns
    docs: Index  # of those that are not deletions: their place in `columns`, ascending
    lines: list[bytes]


class Teller(Protocol):
    """What telling needs of a table's node."""

    table: Table
    views: tuple[ViewNode, ...]
    log: DocLog
    memory: TableMemory


def document_of(line: bytes) -> dict[str, Any]:
    """The document that a stored line holds."""
    found = unwrap(line)
    if found.patched is not None:
        return found.patched.fields
    assert found.line is not None, "asked of documents that are there"
    return unpack_document(found.line)


def key_value(table: Table, doc: Any) -> Any:
    """The key of a document."""
    parts = tuple(reach(doc, path) for path in table.key.paths)
    return parts[0] if table.key.single else parts


def key_of(table: Table, line: bytes) -> bytes:
    """The encoded key of a stored line."""
    found = unwrap(line)
    return encode_key(found.key if found.absent else key_value(table, document_of(line)))


def _of_docs(emissions: Emissions, holds: dict[int, Hold], docs: Index) -> tuple[Emissions, dict[int, Hold]]:
    """What some of a batch's documents yielded."""
    if docs.size == emissions.documents:
        return emissions, holds
    places = {doc: j for j, doc in enumerate(docs.tolist())} if holds else {}
    return emissions.take(docs), {places[doc]: hold for doc, hold in holds.items() if doc in places}


@dataclass(slots=True)
class _Sides:
    """A batch as views see it: which of the new versions had a document before, and which have one now."""

    new: Next
    was: Index
    now: Index
    old: Remembered | None


class Telling:
    """Tells the views of one table."""

    def __init__(self, node: Teller) -> None:
        self._node = node
        self.held: dict[str, dict[int, Pairs]] = {view.name: {} for view in node.views}

    def tell(self, reader: Reader, new: Next, was: Mask, now: Mask, writes: Writes) -> list[int]:
        """Tell all views; the answer is which of the new versions some view holds."""
        node = self._node
        fields = any(isinstance(view.mapper, FieldMapper) for view in node.views)
        at = np.flatnonzero(was)
        sides = _Sides(new, at, np.flatnonzero(now), node.memory.take_fields(new.slots[at]) if fields else None)
        held: set[int] = set()
        for view in node.views:
            if isinstance(view.mapper, FieldMapper):
                plus, minus, stuck = self._by_fields(view, view.mapper, sides, writes)
            else:
                plus, minus, stuck = self._by_function(view, sides, writes)
            held.update(stuck)
            view.advance(reader, plus, minus, writes)
        return sorted(held)

    # -- field views

    def _by_fields(
        self, view: ViewNode, mapper: FieldMapper, sides: _Sides, writes: Writes
    ) -> tuple[Contributions, Contributions, list[int]]:
        new, old = sides.new, sides.old
        assert old is not None
        columns, docs = new.columns, new.docs
        kept, bad = mapper.kept(columns), mapper.bad(columns)
        held = self.held[view.name]
        emits: Mask | None = None if kept is None else kept[docs]
        stuck: list[int] = []
        if bad is not None:
            wrong = bad[docs] if emits is None else bad[docs] & emits
            stuck = sides.now[np.flatnonzero(wrong)].tolist()
            emits = ~bad[docs] if emits is None else emits & ~bad[docs]
        plus = mapper.contributions(columns, docs if emits is None else docs[emits])
        was = mapper.kept(old)
        if not stuck and not held:
            return plus, mapper.contributions(old, None if was is None else np.flatnonzero(was)), []
        take = np.ones(sides.was.size, bool) if was is None else was.copy()
        slots = new.slots[sides.was].tolist()
        fixed = np.zeros(new.slots.size, bool)
        fixed[stuck] = True
        keeps = fixed[sides.was]
        own = np.fromiter((s in held for s in slots), bool, len(slots))
        minus = mapper.contributions(old, np.flatnonzero(take & ~own & ~keeps))
        freed = [slots[i] for i in np.flatnonzero(own & ~keeps).tolist()]
        if freed:
            minus = Contributions.join([minus, view.told_pairs([held[s] for s in freed])])
        before = {int(i): j for j, i in enumerate(sides.was.tolist())}
        told: dict[int, Pairs] = {}
        for i in stuck:
            slot, j = int(new.slots[i]), before.get(i)
            if slot in held:
                told[i] = held[slot]
            elif j is not None and take[j]:
                told[i] = view.pairs_of(mapper.contributions(old, np.array([j])))
            else:
                told[i] = []
        reasons = {i: mapper.hold(document_of(new.lines[i])) for i in stuck}
        self._hold(view, new, told, reasons, list(freed), writes)
        return plus, minus, stuck

    # -- function views

    def _by_function(
        self, view: ViewNode, sides: _Sides, writes: Writes
    ) -> tuple[Contributions, Contributions, list[int]]:
        new, memory = sides.new, self._node.memory.functions[view.name]
        emissions, wrong = _of_docs(*new.columns.told[view.name], new.docs)
        told = memory.take(new.slots[sides.was])
        held = self.held[view.name]
        log = self._node.log
        key = record_key(log.mark.tail)
        if not wrong and not held and sides.now.size == new.slots.size:
            self._remember(view, new.slots, emissions, key, emissions, writes)
            return view.emitted(emissions), view.emitted(told), []
        stuck = {int(sides.now[j]): hold for j, hold in wrong.items()}
        before = {int(i): j for j, i in enumerate(sides.was.tolist())}
        here = {int(i): j for j, i in enumerate(sides.now.tolist())}
        kept: list[Emissions] = []
        for i in range(int(new.slots.size)):
            if i in stuck:
                j = before.get(i)
                kept.append(Emissions.none(1) if j is None else told.take(np.array([j])))
            elif i in here:
                kept.append(emissions.take(np.array([here[i]])))
            else:
                kept.append(Emissions.none(1))
        row = Emissions.join(kept)
        self._remember(view, new.slots, row, key, row, writes)
        moved = np.array([j for j, i in enumerate(sides.was.tolist()) if i not in stuck], np.int64)
        pairs = {i: told.pairs(before[i], view.groups) if i in before else [] for i in stuck}
        slots = new.slots.tolist()
        freed = [slots[i] for i in range(len(slots)) if slots[i] in held and i not in stuck]
        self._hold(view, new, pairs, stuck, freed, writes)
        return view.emitted(emissions), view.emitted(told.take(moved)), sorted(stuck)

    def _remember(
        self, view: ViewNode, slots: Slots, emissions: Emissions, key: bytes, row: Emissions, writes: Writes
    ) -> None:
        log, memory = self._node.log, self._node.memory.functions[view.name]
        writes.puts.append((told_db(view.number), [(key, emissions_row(key, row, view.groups))]))
        writes.after.append(lambda: memory.put(slots, emissions, log.keys.map.used))

    # -- holding

    def _hold(
        self,
        view: ViewNode,
        new: Next,
        told: dict[int, Pairs],
        reasons: dict[int, Hold],
        freed: Sequence[int],
        writes: Writes,
    ) -> None:
        """Hold the new versions in `told`; `freed` are the slots that were held and are no more."""
        table, held = self._node.table, self.held[view.name]
        rows: list[tuple[bytes, bytes, Hold, Pairs]] = []
        slots = new.slots.tolist()
        own: dict[int, bytes] = {}
        where = {slot: i for i, slot in enumerate(slots)}
        for i, pairs in told.items():
            whole = key_of(table, new.lines[i])
            own[slots[i]] = stored_key(whole)
            rows.append((own[slots[i]], whole, reasons[i], pairs))
        released = [stored_key(key_of(table, new.lines[where[slot]])) for slot in freed]
        before = {own[slot] for slot in own if slot in held}
        view.write_holds(rows, released, before, writes)

        def remember() -> None:
            for slot in freed:
                held.pop(slot, None)
            held.update((slots[i], pairs) for i, pairs in told.items())

        writes.after.append(remember)

    # -- segments that move

    def carry(self, writer: Writer, parts: Sequence[tuple[Segment, Index]], base: int) -> None:
        """Lines move to the segment at `base`: what function views yielded for them goes along."""
        for view in self._node.views:
            if not isinstance(view.mapper, FunctionMapper):
                continue
            db = told_db(view.number)
            moved: list[Emissions] = []
            keys = [record_key(segment.base) for segment, _ in parts]
            for key, (segment, at), row in zip(keys, parts, writer.get_many(db, keys), strict=True):
                told = Emissions.none(len(segment)) if row is None else read_emissions(key, row, view.groups, db)
                moved.append(told.take(at))
            joined = Emissions.join(moved)
            if joined.documents:
                key = record_key(base)
                writer.put_many(db, [(key, emissions_row(key, joined, view.groups))])
