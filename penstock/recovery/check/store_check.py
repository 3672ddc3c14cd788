"""Check a whole store while it is written: read every row, and compare every view with its documents.

The check reads the log of each table line by line, and compares the index with it. It rebuilds each view from the
remembered emissions, and compares all rows and nodes byte by byte. It counts separately the documents whose function
would now yield another emission, and the held documents and groups. Memory is bounded. Each table and each view is read
in a snapshot of its own, so no snapshot retains old pages for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    COPY,
    META,
    Digest,
    LogMark,
    Reader,
    Segment,
    StoreDamaged,
    decode_key,
    index_db,
    log_db,
    named,
    read_mark,
    unseal,
)
from penstock.core import PageReport, Snapshot, database_labels, walk
from penstock.flow import ids_db
from penstock.gateway import CHECKING, QUARANTINE, TableReader, Tails, moved_lines_db, repeated_db, unwrap
from penstock.mapreduce import (
    FEED,
    FunctionMapper,
    Groups,
    ViewNode,
    emissions_db,
    held_db,
    resting_db,
    view_dbs,
)
from penstock.recovery.check.emission_differences import differing, table_emissions
from penstock.recovery.check.joined_rows_check import checked_side, joined_documents, joined_emissions
from penstock.recovery.check.oracle_comparison import judged
from penstock.recovery.check_report import Checked
from penstock.recovery.repair.emission_repair import remembered_in
from penstock.recovery.repair.fresh_map import FreshMap
from penstock.recovery.repair.restatement import Restatement
from penstock.views import (
    Definition,
    Join,
    Progress,
    Row,
    SideView,
    Stream,
    Table,
    View,
    shown_join,
    side_views,
    streams_below,
)

_BLOCK = 1 << 10


class Check:
    """One check of a store; `repair` repairs faults, or only compares."""

    def __init__(self, repair: Restatement, progress: Progress | None) -> None:
        self._site = repair.site
        self._repair = repair
        self._progress = progress
        self._rows = self._documents = 0
        self._damaged: list[str] = []
        self._different: dict[str, int] = {}
        self._held: dict[str, int] = {}
        self._anew: list[str] = []
        self._forgotten: set[str] = set()  # views that lost some of their remembered emissions
        self._recount: list[tuple[int, str, PageReport]] = []  # lost keys that the repair restores, by place

    def run(self) -> Checked:
        """Run the whole check. Stop after damaged pages: LMDB must not follow them."""
        if not self._readable():
            return Checked(damaged=tuple(self._damaged))
        for table in self._site.app.tables():
            self._step(partial(self._table, table))
        self._step(partial(self._rows_of, META, FEED, QUARANTINE))
        if self._repair.fix:  # a view is counted with the held documents of other views
            for view in self._site.app.views():
                if view.name not in self._forgotten and not (isinstance(view.source, Join) or streams_below(view)):
                    with suppress(StoreDamaged):  # the comparison of the view reports it
                        self._repair.repair_emissions(view.name)
        for name in self._site.app.names():  # a view or a join comes after its sources
            self._definition(self._site.app.lookup(name))
        self._damaged += self._repair.left
        self._after_indexes()
        self._count_again()
        found = tuple(self._repair.found())
        return Checked(
            self._rows,
            self._documents,
            found,
            tuple(dict.fromkeys(self._damaged)),
            self._held,
            self._different,
            self._repair.fix,
            (*self._anew, *dict.fromkeys(self._repair.anew)),
        )

    def _definition(self, definition: Definition) -> None:
        """Compare a view, or the sides of a join."""
        if isinstance(definition, Join):
            for side in (side for stage in definition.stages for side in side_views(stage)):
                self._step(partial(self._side, side))
        elif isinstance(definition, Stream):
            self._step(partial(self._held_records, self._site.catalog.entries[definition.name].number))
        elif isinstance(definition, View) and streams_below(definition):
            self._step(partial(self._rows_of, *view_dbs(self._site.views[definition.name].number)))
        elif isinstance(definition, View) and definition.name not in self._forgotten:
            # a rebuild of a forgotten view would use the lost emissions
            self._step(partial(self._repair.view, definition.name, None))
            self._step(partial(self._counted, definition.name))

    def _held_records(self, stream: int) -> None:
        """Read the records of a stream that views hold."""
        with self._site.snapshot() as snap:
            for key, row in snap.reader().scan(log_db(stream)):
                self._rows += 1
                try:
                    self._absent(Segment.parse(int.from_bytes(key, "big"), row, log_db(stream)))
                except StoreDamaged as damage:
                    self._damaged.append(self._named(damage))
        self._rows_of(ids_db(stream))

    def _after_indexes(self) -> None:
        """Name the tables whose index was rebuilt: views on them may lack documents."""
        for table in self._site.app.tables():
            for place in self._repair.reindexed(table.name):
                if self._repair.fix and not self._damaged:
                    self._repair.step(place, "clear_reindexed", table.name)
                elif not self._repair.fix:
                    self._damaged.append(
                        f"table {table.name!r}: its index was made anew, and views may lack documents; {CHECKING}"
                    )

    # -- pages and keys

    def _readable(self) -> bool:
        """Walk all pages. Return False if a page, or a key of a log, is damaged."""
        readable = True
        remembered = {db: view.name for view in self._site.views.values() for db in remembered_in(view)}
        for place in range(self._site.places):
            walked = walk(partial(self._reader_of, place), self._progress)
            self._damaged += walked.damaged
            readable = readable and not walked.damaged
            self._keep(place, walked)
            if walked.uncounted and walked.worst() is None:
                self._site.step(place, "count", walked.uncounted)
            for db in walked.lost:
                if db in walked.fixable() and self._repair.fix:
                    self._recount.append((place, db, walked))
                    continue
                self._damaged.append(walked.message(db))
                if db in remembered:
                    self._forgotten.add(remembered[db])
                else:
                    readable = readable and db in walked.fixable()
        return readable

    def _count_again(self) -> None:
        """Record the keys present after the repair as the written ones."""
        for place in {place for place, _, _ in self._recount}:
            now = walk(partial(self._reader_of, place))
            fixed = {db: now.lost.get(db, Digest()) for at, db, _ in self._recount if at == place}
            self._site.step(place, "complete", fixed)
            self._keep(place, replace(now, lost={db: own for db, own in now.lost.items() if db not in fixed}))
        for _, db, walked in self._recount:
            if db in (FEED, QUARANTINE):
                self._damaged.append(walked.message(db))
            else:
                self._anew.append(f"{walked.words(db)}, its keys")

    def _keep(self, place: int, walked: PageReport) -> None:
        """Keep the result of a walk: a check counts as a scrub."""
        for folder in self._site.folders[place : place + 1]:
            walked.keep(folder)

    @contextmanager
    def _reader_of(self, place: int) -> Iterator[Reader]:
        """Open a snapshot of one place."""
        with self._site.snapshot() as snap:
            yield snap.parts[place].reader()

    def _step(self, step: Callable[[], None]) -> bool:
        """Run one step and report its damage without ending the check. Return True if it found none."""
        try:
            step()
        except StoreDamaged as damage:
            self._damaged.append(self._named(damage))
            return False
        return True

    def _named(self, damage: StoreDamaged) -> str:
        return str(named(damage, database_labels(self._site.catalog)))

    # -- rows

    def _rows_of(self, *dbs: str) -> None:
        """Read the rows of some databases in order, and verify their checksums."""
        with self._site.snapshot() as snap:
            for part, db in product(snap.parts, dbs):
                for _ in self._checked(part.reader(), db):
                    pass

    def _checked(self, reader: Reader, db: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the intact rows of a database. Report damaged ones."""
        before = b""
        for key, row in reader.scan(db):
            self._rows += 1
            if key <= before:
                self._damaged.append(f"{db}: key {key.hex()} stands after {before.hex()}")
            before = key
            try:
                unseal(key, row, db)
            except StoreDamaged as damage:
                self._damaged.append(self._named(damage))
                continue
            yield key, row

    # -- a table

    def _table(self, table: Table) -> None:
        """Read a table. If only its index is damaged and the check fixes faults, rebuild the index and read again."""
        for place in range(self._site.places):
            known = self._rows, self._documents, len(self._damaged)
            readable, indexed = self._read(table, place)
            index = index_db(self._site.catalog.entries[table.name].number)
            indexed = indexed and (place, index) not in {(at, db) for at, db, _ in self._recount}
            if readable and not indexed and self._repair.fix:
                self._repair.step(place, "reindex", table.name)
                self._rows, self._documents = known[:2]
                del self._damaged[known[2] :]
                self._anew.append(f"table {table.name!r}, its index")
                self._read(table, place)

    def _read(self, table: Table, place: int) -> tuple[bool, bool]:
        """Return two flags: the log of the table is intact; its index matches the log, as far as that is known."""
        with self._site.snapshot() as snap:
            visible, reader = snap.schema.tables[table.name], snap.parts[place].reader()
            number, mark = visible.number, read_mark(reader, visible.number)
            for db in (moved_lines_db(number), repeated_db(number)):
                for _ in self._checked(reader, db):
                    pass
            before = len(self._damaged)
            for _ in self._checked(reader, index_db(number)):
                pass
            indexed, readable = len(self._damaged) == before, True
            # Other snapshots' knowledge of the log is not trusted here.
            documents = TableReader(table, number, visible.seed, lambda: reader, Tails(), frozenset)
            present = tombstones = 0
            following: int | None = None
            for key, row in reader.scan(log_db(number)):
                self._rows += 1
                base = int.from_bytes(key, "big")
                if following is not None and base != following:
                    self._damaged.append(
                        f"table {table.name!r}: log entry {base} stands where {following} should follow; {COPY}"
                    )
                    readable = False
                following = None
                try:
                    segment = Segment.parse(base, row, f"table {table.name!r}")
                    following = base + len(segment)
                    gone = self._absent(segment)
                except StoreDamaged as damage:
                    self._damaged.append(self._named(damage))
                    readable = False
                    continue
                if indexed and readable:
                    newest = documents.newest(segment.k0, segment.k1, base + np.arange(len(segment)))
                    present += int((newest & ~gone).sum())
                    tombstones += int((newest & gone).sum())
                self._tell(following, mark.tail)
            if not (indexed and readable):
                return readable, indexed
            self._documents += present
            return True, self._as_counted(table, mark, present, tombstones)

    @staticmethod
    def _absent(segment: Segment) -> NDArray[np.bool_]:
        """Return a mask of the lines of a segment that are tombstones. Read all lines."""
        gone = np.zeros(len(segment), bool)
        for a in range(0, len(segment), _BLOCK):
            lines = segment.lines(np.arange(a, min(a + _BLOCK, len(segment))))
            gone[a : a + len(lines)] = [unwrap(line).absent for line in lines]
        return gone

    def _as_counted(self, table: Table, mark: LogMark, present: int, tombstones: int) -> bool:
        """Return True if an index names as many documents and tombstones as were counted."""
        ok = True
        for what, found, expected in (("documents", present, mark.present), ("deletions", tombstones, mark.tombstones)):
            if found != expected and (what == "documents" or table.has_ts):
                self._damaged.append(
                    f"table {table.name!r}: its index names {found} {what} and {expected} were counted; {CHECKING}"
                )
                ok = False
        return ok

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(min(done, total), total)

    # -- the sides of joins

    def _side(self, view: SideView) -> None:
        """Compare the index of a side with the documents; if the check fixes faults, make it anew."""
        join = shown_join(view.join)
        with self._site.snapshot() as snap:
            found = checked_side(snap, view, self._checked)
        if found.held:
            self._held[join] = self._held.get(join, 0) + found.held
        self._damaged += found.faults
        wrong = self._site.compare_side(view.join, view.side, self._repair.fix)
        if wrong and self._repair.fix:
            self._anew.append(f"join {join!r}, side {view.side!r}, {wrong} entries of its index")
        elif wrong:
            self._damaged.append(
                f"join {join!r}, side {view.side!r}: {wrong} entries of its index differ from the "
                "documents; run `penstock check --fix`"
            )

    # -- what is counted apart

    def _counted(self, name: str) -> None:
        """Count the held documents of a view, and the documents that would now yield another emission."""
        view = self._site.views[name]
        with self._site.snapshot() as snap:
            held, different, unsure = snap.state.held_groups.get(view.name, 0), 0, set[bytes]()
            for part in snap.parts:
                reader = part.reader()
                self._rows += reader.count(view.reduce.db)
                held += sum(1 for _ in self._checked(reader, held_db(view.number)))
                for _ in self._checked(reader, resting_db(view.number)):
                    pass
                if isinstance(view.mapper, FunctionMapper):
                    different += self._emissions_of(view)(part, view, unsure)
            if held:
                self._held[view.name] = held
            if different:
                self._different[view.name] = different
            wrong = not self._repair.fix and any(one.view == view.name for one in self._repair.found())
            if not (wrong or view.building):
                self._judge(snap, view, unsure)

    def _emissions_of(self, view: ViewNode) -> Callable[[Snapshot, ViewNode, set[bytes]], int]:
        """Return the method that compares the remembered emissions of a function view with its map."""
        if isinstance(view.view.source, Join):
            return joined_emissions
        return self._row_emissions if view.chained else table_emissions

    def _judge(self, snap: Snapshot, view: ViewNode, unsure: set[bytes]) -> None:
        """Compare the results with an independent recomputation."""
        source = view.view.source.name
        documents: Iterable[tuple[Any, Any]]
        if isinstance(view.view.source, Join):
            documents, faults = joined_documents(snap, view.view.source)
            self._damaged += faults
        else:
            documents = snap.view(source).items() if view.chained else snap.table(source).items()
        with self._site.scratch(view.view.tables) as store:
            self._damaged += judged(snap, view, documents, unsure, store)

    def _row_emissions(self, snap: Snapshot, view: ViewNode, unsure: set[bytes]) -> int:
        """Count the parent view's rows that would now yield another emission."""
        db, mapping, n = emissions_db(view.number), FreshMap(view.view), 0
        source = self._site.views[view.view.source.name].reduce
        rows = self._checked(snap.reader(), db)
        while block := list(islice(rows, _BLOCK)):
            docs: list[Any] = []
            remembered: list[Any] = []
            found = snap.reader().get_many(source.db, [key for key, _ in block])
            for (key, row), own in zip(block, found, strict=True):
                if own is None:
                    self._damaged.append(
                        f"view {view.name!r} remembers a row of its source that is not there, {key.hex()}"
                    )
                    continue
                state = source.codec.decode(key, own, f"view {view.view.source.name!r}")
                groups = Groups()
                remembered.append(view.remembered(snap.reader(), groups).emissions_in(key, row).pairs(0, groups))
                docs.append(Row(decode_key(state.whole or key), source.codec.result(state)))
            n += differing(mapping, docs, remembered, unsure)
        return n
