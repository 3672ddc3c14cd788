"""Replace damaged rows of remembered emissions, from the documents or the parent view's rows.

A damaged row has lost the emissions that the view counts. So the documents of the row are mapped again, and the results
are stored. A document that can't be mapped gets an empty emission. Afterwards the view must be compared with these
emissions, to remove all earlier contributions. Invariants:

- an intact row stays as it is, also one that another writer has replaced meanwhile;
- the reason why a document is held is found by mapping it again; a dropped document stays dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.cache import (
    Reader,
    Segment,
    StoreDamaged,
    Writer,
    decode_key,
    encode_key,
    is_long,
    log_db,
    named,
    record_key,
    seal,
    segments_from,
    stored_key,
    unseal,
)
from penstock.core import Snapshot, database_labels, retry_holds
from penstock.gateway import document_of, key_of, unwrap
from penstock.mapreduce import (
    Emissions,
    Groups,
    Hold,
    Pairs,
    ViewNode,
    Writes,
    emissions_db,
    emissions_row,
    entries_of,
    held_db,
    held_row,
    resting_db,
)
from penstock.recovery.repair.fresh_map import FreshMap
from penstock.views import Join, Row, Table

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["RepairedEmission", "damaged_rows", "remembered_in", "repair_emissions", "repair_missing_emissions"]

_STEP = 64  # held documents that one step maps again
_BLOCK = 1 << 10  # records whose emissions one step checks
Amend = Callable[[Callable[[Writer, Writes], object]], None]


@dataclass(frozen=True, slots=True)
class RepairedEmission:
    """A row that was replaced: its place, and the encodings of the view's rows that it affects."""

    where: str
    groups: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class _NewRow:
    """A row as it was, and its replacement."""

    db: str
    key: bytes
    was: bytes | None
    now: bytes | None


def remembered_in(view: ViewNode) -> list[str]:
    """Return the databases of a view's remembered emissions and held documents."""
    return [emissions_db(view.number), held_db(view.number), resting_db(view.number)]


def repair_emissions(core: Core, name: str, amend: Amend, forget: Callable[[], object]) -> list[RepairedEmission]:
    """Replace all damaged rows of a view's remembered emissions.

    `amend` runs a transaction; `forget` clears the caches, so that they are read from the store again.
    """
    with Snapshot(core) as snap:
        damaged = list(damaged_rows(snap.reader(), core.views[name]))
        if not damaged:
            return []
        lesson = _ReplacementRows(core, snap, name)
        for db, key, row in damaged:
            lesson.take(db, key, row)
    amend(lesson.replace)
    forget()
    keys = list(lesson.again)
    for a in range(0, len(keys), _STEP):

        def ask(writer: Writer, writes: Writes, part: Sequence[bytes] = keys[a : a + _STEP]) -> None:
            node = core.views[name]
            holds = {key: lesson.again[key] for key in part}
            retry_holds(core, node, writer, holds, writes)
            writes.changed = True

        amend(ask)
    return lesson.repaired


def repair_missing_emissions(
    core: Core, name: str, start: int, amend: Amend
) -> tuple[int | None, list[RepairedEmission]]:
    """Map documents of some segments that lack a remembered emission of a function view; the caller has the lock.

    A view built while the index had lost documents has no emissions of them. Return the first record after these
    segments (None at the end) and the written rows.
    """
    view, passed = core.views[name], 0
    following: int | None = None
    with Snapshot(core) as snap:
        lesson = _ReplacementRows(core, snap, name)
        for segment in segments_from(snap.reader(), core.tables[view.view.source.name].number, start):
            if passed >= _BLOCK:
                following = segment.base
                break
            lesson.map_missing(segment)
            passed += len(segment)
    if lesson.repaired:
        amend(lesson.replace)
    return following, lesson.repaired


def damaged_rows(reader: Reader, view: ViewNode) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the damaged rows of a view's databases: remembered emissions first."""
    for db in remembered_in(view):
        for key, row in reader.scan(db):
            try:
                unseal(key, row, db)
            except StoreDamaged:
                yield db, key, bytes(row)


class _ReplacementRows:
    """Replacements for damaged rows of one view, computed from one snapshot."""

    def __init__(self, core: Core, snap: Snapshot, name: str) -> None:
        self.repaired: list[RepairedEmission] = []
        self.again: dict[bytes, tuple[bytes, Hold]] = {}  # held documents that the view seems to accept now
        self._core = core
        self._snap = snap
        self._view = core.views[name]
        self._mapping = FreshMap(self._view.view)
        self._rows: list[_NewRow] = []
        self._emissions: dict[bytes, Pairs] = {}  # by stored key, emissions of documents whose rows are replaced

    def take(self, db: str, key: bytes, row: bytes) -> None:
        """Compute the replacement of this damaged row."""
        kind = db.partition(":")[0]
        groups: set[bytes] = set()
        if kind == "told":
            self._rows.append(
                _NewRow(db, key, row, (self._of_rows if self._view.of_rows else self._of_table)(key, groups))
            )
        elif kind == "held":
            self._rows.append(_NewRow(db, key, row, self._held(key, groups)))
        else:
            [held] = self._snap.reader().get_many(held_db(self._view.number), [key])
            self._rows.append(_NewRow(db, key, row, None if held is None else seal(key, b"")))
        damage = named(StoreDamaged(db, key), database_labels(self._core.catalog))
        self.repaired.append(RepairedEmission(damage.where, sorted(groups)))

    @property
    def _table(self) -> Table:
        """Return the table of a view that is on no other view."""
        [table] = self._view.view.tables
        return table

    def map_missing(self, segment: Segment) -> None:
        """Map the documents of a segment that have no remembered emission."""
        table, db, key = self._table, emissions_db(self._view.number), record_key(segment.base)
        [row] = self._snap.reader().get_many(db, [key])
        known: list[Pairs] = []
        if row is not None:
            groups = Groups()
            known = self._view.remembered(self._snap.reader(), groups).emissions_in(key, row).pairs_of_each(groups)
        known += [[] for _ in range(len(segment) - len(known))]
        missing = [(i, line) for i, line in self._living(segment) if not known[i]]
        named_groups: set[bytes] = set()
        before = len(self._rows)
        for (i, line), own in zip(
            missing, self._mapping.mapped([document_of(line) for _, line in missing]), strict=True
        ):
            if own:
                known[i] = self._pairs(key_of(table, line), own, named_groups)
        if named_groups or len(self._rows) > before:
            self._rows.append(_NewRow(db, key, row, _row(key, known)))
            damage = named(StoreDamaged(db, key), database_labels(self._core.catalog))
            self.repaired.append(RepairedEmission(damage.where, sorted(named_groups)))

    def replace(self, writer: Writer, writes: Writes) -> None:
        """Write the replacements. Skip rows that another writer has changed meanwhile."""
        for new in self._rows:
            if writer.get_many(new.db, [new.key])[0] != new.was:
                self.again.pop(new.key, None)
            elif new.now is None:
                writes.deletes.append((new.db, [new.key]))
            else:
                writes.puts.append((new.db, [(new.key, new.now)]))
        writes.changed = True

    # -- remembered emissions of a function

    def _of_table(self, key: bytes, groups: set[bytes]) -> bytes | None:
        """Map the documents of a segment again, for the row of their emissions."""
        table = self._table
        log = log_db(self._core.tables[table.name].number)
        [row] = self._snap.reader().get_many(log, [key])
        if row is None:
            return None
        segment = Segment.parse(int.from_bytes(key, "big"), row, log)
        living = self._living(segment)
        pairs: list[Pairs] = [[] for _ in range(len(segment))]
        for (i, line), own in zip(living, self._mapping.mapped([document_of(line) for _, line in living]), strict=True):
            pairs[i] = self._pairs(key_of(table, line), own, groups)
        return _row(key, pairs)

    def _living(self, segment: Segment) -> list[tuple[int, bytes]]:
        """Return the lines of a segment that are documents now, each with its place."""
        every = np.arange(len(segment))
        newest = self._snap.log(self._table.name).newest(segment.k0, segment.k1, segment.base + every)
        at = every[newest]
        return [(i, line) for i, line in zip(at.tolist(), segment.lines(at), strict=True) if not unwrap(line).absent]

    def _of_rows(self, key: bytes, groups: set[bytes]) -> bytes | None:
        """Map a row of the parent view again, for the row of its emission."""
        row = self._source_row(key)
        if row is None:
            return None
        [own] = self._mapping.mapped([row])
        return _row(key, [self._pairs(encode_key(row.key), own, groups)])

    def _pairs(self, whole: bytes, mapped: Pairs | Hold, groups: set[bytes]) -> Pairs:
        """Choose the emission to remember of a document. Hold a document that can't be mapped."""
        key, db = stored_key(whole), held_db(self._view.number)
        [row] = self._snap.reader().get_many(db, [key])
        try:
            own = None if row is None else self._view.remembered(self._snap.reader()).held_in(key, row).pairs
        except StoreDamaged:
            own = None
        if own is None:
            own = [] if isinstance(mapped, Hold) else mapped
            if isinstance(mapped, Hold) and row is None:
                self._rows.append(_NewRow(db, key, None, held_row(key, whole, mapped, [])))
        self._emissions[key] = own
        self._name(groups, whole, own)
        return own

    def _name(self, groups: set[bytes], whole: bytes, pairs: Pairs) -> None:
        groups.update(entries_of(whole, pairs) if self._view.view.index else (group for group, _ in pairs))

    # -- what is held

    def _held(self, key: bytes, groups: set[bytes]) -> bytes | None:
        """Rewrite the row of a held document. If it can be mapped now, note it for a retry."""
        found = self._document(key)
        if found is None:
            return None
        whole, document, pairs = found
        [own] = self._mapping.mapped([document])
        [rests] = self._snap.reader().get_many(resting_db(self._view.number), [key])
        hold = own if isinstance(own, Hold) else Hold("what was said of it here was damaged")
        if not isinstance(own, Hold):
            self._name(groups, whole, own)
            if rests is None:
                self.again[key] = whole, hold
        self._name(groups, whole, pairs)
        return held_row(key, whole, hold, pairs)

    def _document(self, key: bytes) -> tuple[bytes, Any, Pairs] | None:
        """Return the key, the document or parent row, and its remembered emission."""
        source = self._view.view.source
        document: Any
        if isinstance(source, Table):
            lines = self._snap.log(source.name)
            wholes = (key_of(source, line) for line in lines.lines()) if is_long(key) else [key]
            whole = next((own for own in wholes if stored_key(own) == key), b"")
            found = lines.place(decode_key(whole)) if whole else None
            if found is None or unwrap(found[2]).absent:
                return None
            place, at, document = record_key(found[0]), found[1], document_of(found[2])
        else:
            row = self._source_row(key)
            if row is None:
                return None
            place, at, whole, document = key, 0, encode_key(row.key), row
        return whole, document, self._emissions[key] if key in self._emissions else self._stored_emission(place, at)

    def _stored_emission(self, place: bytes, at: int) -> Pairs:
        """Return the remembered emission of one document in the row at a place."""
        return self._view.remembered(self._snap.reader(), Groups()).yielded(place, at) or []

    def _source_row(self, key: bytes) -> Row | None:
        if isinstance(self._view.view.source, Join):
            found = self._snap.schema.join(self._view.view.source.name).documents(self._snap.reader(), {key})
            return Row(*found[key]) if key in found else None
        source = self._core.views[self._view.view.source.name]
        [row] = self._snap.reader().get_many(source.reduce.db, [key])
        if row is None:
            return None
        state = source.reduce.codec.decode(key, row, f"view {source.name!r}")
        return Row(decode_key(state.whole or key), source.reduce.codec.result(state))


def _row(key: bytes, pairs: Sequence[Pairs]) -> bytes:
    groups = Groups()
    return emissions_row(key, Emissions.of_pairs(pairs, groups), groups)
