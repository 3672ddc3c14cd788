"""Refills: tables filled in a store of their own, and switched into a live store in one transaction.

    begin: note log tails and offsets ─▶ (the other store is filled) ─▶ copy in steps ─▶ apply later records ─▶
    the switch

Others write meanwhile, and readers see the former tables. Invariants:

- copies have numbers of their own, which the catalog names first: an opening empties the remains of a crash;
- all records since the start of the refill are applied to the copy before readers see it;
- a source partition continues at the other store's offset, or at the live one if that is greater. If the live offset
  was already greater at the start of the refill, it goes back to the other store's: so no record is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from penstock.cache import DocumentLog, Limits, PenstockError, Reader, Writer, read_mark, segments_at
from penstock.core import (
    Catalog,
    Refill,
    RefillSwitch,
    StateRow,
    added,
    databases_of,
    hidden_transaction,
    is_ready,
    read_catalog,
    read_spout_state,
    read_state,
    switch_refill,
    without_filling,
    write_catalog,
    write_state,
)
from penstock.gateway import (
    QUARANTINE,
    TableNode,
    carry_over,
    carry_repeats,
    first_numbers,
    rejects_db,
    rejects_from,
    repeated_db,
    repeated_keys,
)
from penstock.mapreduce import HiddenGeneration, Writes
from penstock.views import Position, all_joins, side_views

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["Progressed", "Refilled", "Refilling", "begin", "give_up", "not_meant", "switch", "without_leftover"]

_STEP_BYTES = 4 << 20
_STEP_LINES = 1 << 12
Progressed = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Refilled:
    """The outcome of a refill: its first position, the offsets of its source partitions, and those that go back."""

    position: Position
    sources: dict[str, int]
    back: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        return {"position": self.position, "sources": self.sources, "back": list(self.back)}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Refilled:
        """Build the outcome from plain data."""
        position = data["position"]
        at = tuple(position) if isinstance(position, list) else position
        return cls(at, data["sources"], tuple(data["back"]))


def without_leftover(catalog: Catalog, ready: bool = False) -> Catalog:
    """Return the catalog for the opening of a store, without the databases of an incomplete refill.

    With `ready` a refill that is ready stays: other partitions may have switched.
    """
    refill = catalog.refill
    if refill is None or not refill.filling or (ready and is_ready(catalog)):
        return catalog
    return without_filling(catalog, Refill(refill.since, refill.sources))


def begin(core: Core, tables: Sequence[str]) -> int:
    """Begin a refill: note where the logs of these tables end. Return the seed for the other store."""
    catalog = core.catalog
    since = {name: core.tables[name].log.mark.tail for name in tables}
    with core.store.write() as writer:
        for name in tables:
            writer.clear(repeated_db(core.tables[name].number))
    _put(core, without_filling(catalog, Refill(since, dict(core.state.sources))))
    return catalog.seed


def give_up(core: Core, first: int) -> None:
    """Discard the refill whose numbers begin with `first`, unless another has begun or it has switched."""
    refill = core.catalog.refill
    if refill is not None and refill.filling and refill.first == first:
        _put(core, without_filling(core.catalog, None))


def switch(core: Core, first: int) -> int:
    """Switch to the refill whose numbers begin with `first`, if that is not done. Return the position."""
    refill = core.catalog.refill
    if refill is not None and is_ready(core.catalog) and refill.first == first:
        with core.store.write() as writer:
            switch_refill(writer, core.catalog, core.state, core.feed.on, core.exchange is not None)
        core.reload()
    return core.state.position


def _put(core: Core, catalog: Catalog) -> None:
    before = _copied(core.catalog)
    with core.store.write() as writer:
        row = write_catalog(writer, catalog)
    core.take_catalog(catalog, row)
    if _copied(catalog) != before:
        with core.store.read() as reader:
            core.fill(reader)


def _copied(catalog: Catalog) -> dict[str, int]:
    """Return the numbers of tables and views with nodes, after their copy."""
    refill = catalog.refill
    return {} if refill is None or refill.kinds is None else refill.filling


def not_meant(path: str) -> PenstockError:
    """Return the error for a refill from the store at a path that was not begun, or is over."""
    return PenstockError(
        f"the store has no refill under way that {path} is for; another one was begun, run yours again"
    )


class Refilling:
    """One refill in progress: it copies a snapshot of the store at a path.

    The caller runs its steps under the writer's lock. Each step is one transaction or several.
    """

    def __init__(self, core: Core, path: str, fresh: Reader, close: Callable[[], None] = lambda: None) -> None:
        self._core = core
        self._fresh = fresh
        self.close = close
        catalog, refill = read_catalog(fresh, path), core.catalog.refill
        if catalog is None or refill is None or catalog.seed != core.catalog.seed:
            raise not_meant(path)
        self._catalog: Catalog = catalog
        self._state: StateRow = read_state(fresh)
        self._refill: Refill = refill
        self._cursor = dict(refill.since)
        self._views = {
            view.name: view for view in core.app.views() if any(table.name in refill.since for table in view.tables)
        }
        joins = [join for join in all_joins(core.app) if any(table.name in refill.since for table in join.tables)]
        sides = [side.name for join in joins for side in side_views(join)]
        self._names = [*refill.since, *self._views, *(join.name for join in joins), *sides]
        self._pairs: list[tuple[str, str]] = []
        self.copying = self._copied()
        self.done: Refilled | None = None

    def steps(self) -> Iterator[Progressed]:
        """Run all steps, in a store of one partition."""
        first = self._core.catalog.highest() + 1
        self.allot(first)
        for done, total in self.copying:
            yield "copying", done, total
            self.must_go_on()
        self.wake()
        passed = left = 0
        while self.behind() > _STEP_LINES:
            came = max(0, self.behind() - left)
            passed += self.carried(max(_STEP_LINES, 2 * came))  # more than writers add, so that it ends
            left = self.behind()
            yield "carrying over", passed, passed + left
            self.must_go_on()
        self.carry_rest()
        self.repeat()
        answer = self.make_ready()
        self.done = Refilled(switch(self._core, first), *answer)
        yield "switching", 1, 1

    def give_up(self) -> None:
        """Discard the refill and its databases, unless another refill was begun."""
        if self._core.catalog.refill == self._refill:
            _put(self._core, without_filling(self._core.catalog, None))

    def must_go_on(self) -> None:
        """Raise PenstockError if another refill was begun."""
        if self._core.catalog.refill != self._refill:
            raise PenstockError(
                "another backfill of this store was begun meanwhile; let that one end, or run yours again"
            )

    def _check(self) -> None:
        for name in self._names:
            own, other = self._core.catalog.entries[name], self._catalog.entries.get(name)
            if other is None or own.next is not None or own.definition != other.definition:
                raise PenstockError(f"{name!r} was defined anew meanwhile; run the backfill again")
        for name, since in self._refill.since.items():
            kind, read = self._core.state.ts.get(name), self._state.ts.get(name)
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

    def allot(self, first: int) -> None:
        """Assign numbers from `first` on to the tables and views of the refill, and store them."""
        self._check()
        core = self._core
        filling = {name: first + i for i, name in enumerate(self._names)}
        fresh = without_filling(core.catalog, Refill(self._refill.since, self._refill.sources, filling))
        state = msgspec.structs.replace(core.state, held_groups=self._unheld(core.state.held_groups))
        with core.store.write() as writer:
            write_state(writer, state)  # without the counts of an earlier, incomplete refill
        core.state = state
        self._store_catalog(msgspec.structs.replace(fresh, last=first + len(filling) - 1))
        for name, number in filling.items():
            databases = databases_of(self._catalog, name, self._catalog.entries[name].number)
            self._pairs += zip(databases, databases_of(core.catalog, name, number), strict=True)
        self._pairs.append((QUARANTINE, rejects_db(first)))

    def _unheld(self, held: dict[str, int]) -> dict[str, int]:
        labels = {HiddenGeneration.label(name) for name in self._views}
        return {name: n for name, n in held.items() if name not in labels}

    def _store_catalog(self, catalog: Catalog) -> None:
        _put(self._core, catalog)
        assert catalog.refill is not None, "it is under way"
        self._refill = catalog.refill

    def _copied(self) -> Iterator[tuple[int, int]]:
        """Copy the databases of the other store, some rows at a time. Yield the rows copied and their total."""
        total = sum(self._fresh.count(db) for db, _ in self._pairs)
        done = 0
        for db, target in self._pairs:
            for rows in _chunks(self._fresh.scan(db)):
                with self._core.store.write() as writer:
                    writer.put_many(target, rows, append=True)
                done += len(rows)
                yield done, total

    # -- carrying over

    def wake(self) -> None:
        """Make the nodes of the copied tables and views, which apply the records since the start of the refill."""
        core = self._core
        held = {HiddenGeneration.label(name): self._state.held_groups.get(name, 0) for name in self._views}
        state = msgspec.structs.replace(core.state, held_groups=added(core.state.held_groups, held))
        with core.store.write() as writer:
            write_state(writer, state)
            for name in self._refill.since:
                mark = read_mark(self._fresh, self._catalog.entries[name].number)
                DocumentLog(self._refill.filling[name], core.app.table_of(name).has_ts, 1, Limits()).put_mark(
                    writer, mark
                )
        core.state = state
        kinds = {name: kind for name, kind in self._state.ts.items() if name in self._refill.since}
        refill = msgspec.structs.replace(self._refill, kinds={**core.state.ts, **kinds})
        self._store_catalog(msgspec.structs.replace(core.catalog, refill=refill))

    def behind(self) -> int:
        """Return the number of records since the start that are not applied yet."""
        return sum(self._core.tables[name].log.mark.tail - at for name, at in self._cursor.items())

    def carry_rest(self) -> None:
        """Apply all remaining records; the caller prevents other writes."""
        while behind := self.behind():
            self.carried(behind)

    def carried(self, limit: int) -> int:
        """Apply about `limit` of the later records to the copy. Return the number of records passed."""
        passed = 0
        self._core.filling_joins.fold(self._core.store)
        while passed < limit and self.behind():
            name = next(name for name, at in self._cursor.items() if at < self._core.tables[name].log.mark.tail)
            number, start = self._core.tables[name].number, self._cursor[name]
            hidden_transaction(self._core, partial(self._carry, name, number, start))
            passed += self._cursor[name] - start
        return passed

    def _carry(self, name: str, number: int, start: int, writer: Writer, writes: Writes) -> None:
        since, node = self._refill.since[name], self._core.filling[name]
        segment = next(segments_at(writer, number, start), None)
        if segment is None:
            self._cursor[name] = self._core.tables[name].log.mark.tail
            return
        first = max(0, start - segment.base)
        at = np.arange(first, min(len(segment), first + _STEP_LINES))
        self._cursor[name] = segment.base + int(at[-1]) + 1
        at = at[first_numbers(number, writer, segment.base, at) >= since]
        if at.size:
            k0 = segment.k0[at].copy()
            k1 = None if segment.k1 is None else segment.k1[at].copy()
            if not node.log.keys.room(at.size):
                node.forget(at.size)
            carry_over(node, writer, k0, k1, segment.lines(at), writes)

    def repeat(self) -> None:
        """Apply again the documents of keys that were written since without a change."""
        for name, node in self._core.filling.items():
            live = self._core.tables[name]
            with self._core.store.read() as reader:
                keys = list(repeated_keys(reader, live.number))
            for at in range(0, len(keys), _STEP_LINES):
                carry = partial(_repeated, live, node, keys[at : at + _STEP_LINES])
                hidden_transaction(self._core, carry)

    # -- switching

    def make_ready(self) -> tuple[dict[str, int], tuple[str, ...]]:
        """Store all data for the switch; nothing is written between this and the switch.

        Return the offsets of the source partitions read elsewhere, and those that go back.
        """
        first = self._refill.first
        with self._core.store.read() as reader:
            if any(reject.lost for _, reject in rejects_from(reader, db=rejects_db(first))):
                raise PenstockError("a rejected record of the other store is damaged; run the backfill again")
        sources, spout_states = self._sources()
        untimed = tuple(name for name in self._refill.since if not self._core.app.table_of(name).has_ts)
        ready = RefillSwitch(sources, spout_states, self._state.rejected, untimed)
        refill = msgspec.structs.replace(self._refill, ready=ready)
        self._store_catalog(msgspec.structs.replace(self._core.catalog, refill=refill))
        return refill.answer()

    def _sources(self) -> tuple[dict[str, int], dict[str, tuple[int, bytes]]]:
        """Return the offsets at which these source partitions continue, and the spout states that belong to them."""
        out: dict[str, int] = {}
        spout_states: dict[str, tuple[int, bytes]] = {}
        now = self._core.state.sources
        for source, offset in self._state.sources.items():
            connects = self._refill.sources.get(source, 0) <= offset
            out[source] = max(offset, now.get(source, 0)) if connects else offset
            if out[source] == offset:
                spout_states[source] = offset, read_spout_state(self._fresh, source)
        return out, spout_states


def _repeated(live: TableNode, node: TableNode, keys: Sequence[bytes], writer: Writer, writes: Writes) -> None:
    carry_repeats(live, node, writer, keys, writes)


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
