"""Tables made anew elsewhere, in a store of their own, and switched into a live one in one transaction.

    begin: where logs and sources stand ─▶ (made elsewhere) ─▶ copied in by steps ─▶ what came since is laid over ─▶
    the switch

Others write meanwhile, and readers see what was before. Invariants:

- what is copied lies under numbers of its own, which the catalog names before: what a crash leaves is emptied;
- all that was written since the beginning is laid over what was made elsewhere before readers see that;
- a source goes on where the other store read it to, or further on where the live one came from there or from before:
  so that between the two nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from penstock.cache import (
    META,
    DocLog,
    Limits,
    PenstockError,
    Reader,
    Writer,
    index_db,
    log_db,
    mark_key,
    read_mark,
    segments_at,
)
from penstock.engine.catalog import (
    Catalog,
    Next,
    Refill,
    Resume,
    State,
    added,
    read_catalog,
    read_note,
    read_state,
    write_catalog,
    write_notes,
    write_state,
)
from penstock.engine.switch import switched
from penstock.gateway import (
    TableNode,
    carry_over,
    carry_repeats,
    first_numbers,
    moved_db,
    repeated_db,
    repeated_keys,
)
from penstock.mapreduce import Building, Writes, view_dbs
from penstock.recovery import quarantine, rejects_from, without_tails

if TYPE_CHECKING:
    from penstock.engine.core import Core

__all__ = ["Progressed", "Refilled", "Refilling", "begin", "without_leftover"]

_STEP_BYTES = 4 << 20
_STEP_LINES = 1 << 12
Progressed = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Refilled:
    """What a refill did: the position from which readers see it, where its sources go on, which of them go back."""

    position: int
    sources: dict[str, int]
    back: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {"position": self.position, "sources": self.sources, "back": list(self.back)}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Refilled:
        """Made of that data."""
        return cls(data["position"], data["sources"], tuple(data["back"]))


def without_leftover(catalog: Catalog) -> Catalog:
    """The catalog of a store that is opened: what was being filled is to be emptied, and may be begun again."""
    refill = catalog.refill
    if refill is None or not refill.filling:
        return catalog
    return _without(catalog, Refill(refill.since, refill.sources))


def _leftover(catalog: Catalog) -> list[str]:
    """The databases that a refill filled which did not come to its end."""
    if catalog.refill is None:
        return []
    filling = catalog.refill.filling
    return [db for name, number in filling.items() for db in _dbs(catalog, name, number)]


def _dbs(catalog: Catalog, name: str, number: int) -> list[str]:
    table = catalog.entries[name].definition["kind"] == "table"
    return [log_db(number), index_db(number), moved_db(number), repeated_db(number)] if table else view_dbs(number)


def begin(core: Core, tables: Sequence[str]) -> int:
    """From now on what is written to these tables counts as written since; the seed that the other store must have."""
    catalog = core.catalog
    since = {name: core.tables[name].log.mark.tail for name in tables}
    with core.store.write() as writer:
        for name in tables:
            writer.clear(repeated_db(core.tables[name].number))
    _put(core, _without(catalog, Refill(since, dict(core.state.sources))))
    return catalog.seed


def _without(catalog: Catalog, refill: Refill | None) -> Catalog:
    trash = tuple(dict.fromkeys([*catalog.trash, *_leftover(catalog)]))
    return msgspec.structs.replace(catalog, refill=refill, trash=trash, last=catalog.highest())


def _put(core: Core, catalog: Catalog) -> None:
    with core.store.write() as writer:
        row = write_catalog(writer, catalog)
    core.take_catalog(catalog, row)


class Refilling:
    """One refill under way: taking over what the store at a path has, from a snapshot of that.

    Whoever goes on with its steps does so behind the writer's lock; each is one transaction, or some.
    """

    def __init__(self, core: Core, path: str, fresh: Reader) -> None:
        self._core = core
        self._fresh = fresh
        catalog, refill = read_catalog(fresh, path), core.catalog.refill
        if catalog is None or refill is None or catalog.seed != core.catalog.seed:
            raise PenstockError(
                f"the store has no refill under way that {path} is for; another one was begun, run yours again"
            )
        self._there: Catalog = catalog
        self._said: State = read_state(fresh)
        self._refill: Refill = refill
        self._cursor = dict(refill.since)
        self._views = {view.name: view for view in core.app.views() if view.table.name in refill.since}
        self._names = [*refill.since, *self._views]
        self._held: dict[str, int] = {}
        self._tables: dict[str, TableNode] = {}
        self.done: Refilled | None = None

    def steps(self) -> Iterator[Progressed]:
        """All of them."""
        self._check()
        self._allot()
        for done in self._copied():
            yield done
            self._must_go_on()
        self._wake()
        passed = left = 0
        while self._behind() > _STEP_LINES:
            came = max(0, self._behind() - left)
            passed += self._carried(max(_STEP_LINES, 2 * came))  # more than writers add, so that it comes to an end
            left = self._behind()
            yield "carrying over", passed, passed + left
            self._must_go_on()
        self.done = self._switch()
        yield "switching", 1, 1

    def give_up(self) -> None:
        """Nothing comes of it; unless another one was begun meanwhile, what was filled is emptied."""
        if self._core.catalog.refill == self._refill:
            _put(self._core, _without(self._core.catalog, None))

    def _must_go_on(self) -> None:
        if self._core.catalog.refill != self._refill:
            raise PenstockError(
                "another backfill of this store was begun meanwhile; let that one end, or run yours again"
            )

    def _check(self) -> None:
        for name in self._names:
            own, other = self._core.catalog.entries[name], self._there.entries.get(name)
            if other is None or own.next is not None or own.definition != other.definition:
                raise PenstockError(f"{name!r} was defined anew meanwhile; run the backfill again")
        for name, since in self._refill.since.items():
            kind, read = self._core.state.ts.get(name), self._said.ts.get(name)
            if kind is not None and read is not None and kind != read:
                raise PenstockError(
                    f"table {name!r}: the ts of its source are of kind {read!r}, and those in the store {kind!r}; make "
                    "them one kind"
                )
            log = self._core.tables[name].log
            if not log.tombstones and log.head > since:
                raise PenstockError(
                    f"table {name!r}: compacting has passed over deletions that came since the backfill began, and it "
                    "has no ts that would tell; run the backfill again"
                )

    # -- copying

    def _allot(self) -> None:
        """Give numbers to all that is filled, and note them."""
        core = self._core
        first = core.catalog.highest() + 1
        filling = {name: first + i for i, name in enumerate(self._names)}
        clean = _without(core.catalog, self._refill)
        self._refill = msgspec.structs.replace(self._refill, filling=filling)
        last = first + len(filling) - 1
        _put(core, msgspec.structs.replace(clean, refill=self._refill, last=last))

    def _copied(self) -> Iterator[Progressed]:
        pairs = list(self._pairs())
        total = sum(self._fresh.count(db) for db, _ in pairs)
        done = 0
        for db, target in pairs:
            for rows in _chunks(self._fresh.scan(db)):
                with self._core.store.write() as writer:
                    writer.put_many(target, rows, append=True)
                done += len(rows)
                yield "copying", done, total

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Each database there, and the one that is filled from it."""
        for name, number in self._refill.filling.items():
            there = _dbs(self._there, name, self._there.entries[name].number)
            yield from zip(there, _dbs(self._core.catalog, name, number), strict=True)

    # -- carrying over

    def _wake(self) -> None:
        """The nodes of what was copied, with which what came since is laid over it."""
        core = self._core
        with core.store.write() as writer:
            for name in self._refill.since:
                mark = read_mark(self._fresh, self._there.entries[name].number)
                DocLog(self._refill.filling[name], core.app.table_of(name).has_ts, 1, Limits()).put_mark(writer, mark)
        making = core.making(self._refill.filling, self._kinds())
        with core.store.read() as reader:
            for name in self._refill.since:
                self._tables[name] = making.table(reader, core.app.table_of(name), {})

    def _kinds(self) -> dict[str, str]:
        return self._core.state.ts | {name: kind for name, kind in self._said.ts.items() if name in self._refill.since}

    def _behind(self) -> int:
        """How many records came that are not carried over."""
        return sum(self._core.tables[name].log.mark.tail - at for name, at in self._cursor.items())

    def _carried(self, limit: int) -> int:
        """Lay about so many of the records that came since over what was copied; how many are passed."""
        passed = 0
        while passed < limit and self._behind():
            name = next(name for name, at in self._cursor.items() if at < self._core.tables[name].log.mark.tail)
            writes = Writes()
            with self._core.store.write() as writer:
                passed += self._carry(writer, name, self._core.tables[name].number, self._cursor[name], writes)
                writes.write(writer)
            writes.committed()
            self._held = added(self._held, writes.held_groups)
        return passed

    def _carry(self, writer: Writer, name: str, number: int, start: int, writes: Writes) -> int:
        since, node = self._refill.since[name], self._tables[name]
        segment = next(segments_at(writer, number, start), None)
        if segment is None:
            self._cursor[name] = self._core.tables[name].log.mark.tail
            return self._cursor[name] - start
        first = max(0, start - segment.base)
        at = np.arange(first, min(len(segment), first + _STEP_LINES))
        stop = segment.base + int(at[-1]) + 1
        at = at[first_numbers(number, writer, segment.base, at) >= since]
        if at.size:
            k0 = segment.k0[at].copy()
            k1 = None if segment.k1 is None else segment.k1[at].copy()
            if not node.log.keys.room(at.size):
                node.forget(at.size)
            carry_over(node, writer, k0, k1, segment.lines(at), writes)
        self._cursor[name] = stop
        return stop - start

    # -- switching

    def _switch(self) -> Refilled:
        """Carry over the rest; then readers see all of it, and sources go on where they stand now."""
        core = self._core
        while behind := self._behind():  # nobody else writes meanwhile
            self._carried(behind)
        self._repeat()
        with core.store.write() as writer:
            writes = Writes()
            rejects = [reject for _, reject in rejects_from(self._fresh)]
            without_tails(writer, self._untold(), writes)
            quarantine(rejects, core.state.quarantined, dict.fromkeys(self._refill.since, 0), writes)
            writes.write(writer)
            done, notes = self._sources()
            catalog, state = self._switched(writer, writes, done)
            write_catalog(writer, catalog)
            write_state(writer, state)
            write_notes(writer, notes)
        core.relearn()
        back = tuple(source for source, offset in done.items() if offset < _began(self._refill, source))
        return Refilled(state.position, done, back)

    def _repeat(self) -> None:
        """Lay over the documents of keys that were written since without a change."""
        for name, node in self._tables.items():
            live = self._core.tables[name]
            with self._core.store.read() as reader:
                keys = list(repeated_keys(reader, live.number))
            for at in range(0, len(keys), _STEP_LINES):
                writes = Writes()
                with self._core.store.write() as writer:
                    carry_repeats(live, node, writer, keys[at : at + _STEP_LINES], writes)
                    writes.write(writer)
                writes.committed()
                self._held = added(self._held, writes.held_groups)

    def _untold(self) -> list[str]:
        """The tables without ts, whose records in quarantine count as older than all that was copied."""
        return [name for name in self._refill.since if not self._core.app.table_of(name).has_ts]

    def _switched(self, writer: Writer, writes: Writes, done: dict[str, int]) -> tuple[Catalog, State]:
        core, filling = self._core, self._refill.filling
        entries = dict(core.catalog.entries)
        held = dict(core.state.held_groups)
        for name in self._views:
            entry = entries[name]
            entries[name] = msgspec.structs.replace(entry, next=Next(filling[name], entry.definition))
            held[Building.label(name)] = self._said.held_groups.get(name, 0) + self._held.get(name, 0)
        catalog, state = switched(
            writer,
            msgspec.structs.replace(core.catalog, entries=entries, refill=None),
            msgspec.structs.replace(core.state, held_groups=held),
            core.feed.on,
            core.parting is not None,
        )
        entries = dict(catalog.entries)
        trash = list(catalog.trash)
        for name in self._refill.since:
            old = entries[name].number
            trash += _dbs(catalog, name, old)
            writer.delete_many(META, [mark_key(old)])
            entries[name] = msgspec.structs.replace(entries[name], number=filling[name])
        return (
            msgspec.structs.replace(catalog, entries=entries, trash=tuple(dict.fromkeys(trash))),
            msgspec.structs.replace(
                state,
                sources={**state.sources, **done},
                ts=self._kinds(),
                rejected=added(state.rejected, self._said.rejected),
                quarantined=state.quarantined + writes.numbered,
                kept=added(state.kept, writes.kept),
            ),
        )

    def _sources(self) -> tuple[dict[str, int], dict[str, Resume]]:
        """Where the sources that were read elsewhere go on, and the notes of those that go on from there."""
        out: dict[str, int] = {}
        notes: dict[str, Resume] = {}
        now = self._core.state.sources
        for source, offset in self._said.sources.items():
            connects = _began(self._refill, source) <= offset
            out[source] = max(offset, now.get(source, 0)) if connects else offset
            if out[source] == offset:
                notes[source] = Resume(offset, read_note(self._fresh, source))
        return out, notes


def _began(refill: Refill, source: str) -> int:
    """Where a source stood when the refill began."""
    return refill.sources.get(source, 0)


def _chunks(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    chunk: list[tuple[bytes, bytes]] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row[1])
        if size >= _STEP_BYTES or len(chunk) == _STEP_LINES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
