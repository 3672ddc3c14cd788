"""The switch from one generation of views to the next, in one partition and over all partitions of a store.

Every partition switches in a transaction of its own. The first switch decides: from then on all others must switch,
and an opening of the store completes that before anything else. Invariants:

- a partition that switched keeps the former generation whole until all partitions have switched;
- readers of the whole store see the former generation until then, as of the position before the switch;
- no partition commits content between the first switch and the last one.

The switch of a refill is one too. It replaces tables and their views, and it sets sources and quarantine. All that it
needs is stored before the first partition switches, so that an opening can complete it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from penstock.cache import Store, Writer, index_db, log_db
from penstock.core.metadata.catalog import (
    JOIN_KINDS,
    Catalog,
    CatalogEntry,
    FormerGeneration,
    NextGeneration,
    Refill,
    UnfinishedSwitch,
    catalog_of,
    read_catalog,
    row_of_catalog,
    serving_sides,
    write_built,
    write_catalog,
)
from penstock.core.metadata.source_offsets import Resume, write_spout_states
from penstock.core.metadata.store_state import StateRow, added, read_state, write_state
from penstock.core.schema import Schema
from penstock.gateway import keep_rejected, moved_lines_db, rejects_db, rejects_from, repeated_db, without_tails
from penstock.join import join_dbs
from penstock.mapreduce import HiddenGeneration, Writes, rows_db, view_dbs

__all__ = [
    "complete_switches",
    "databases_of",
    "decides",
    "finished",
    "former_catalog",
    "former_schema",
    "former_state",
    "is_ready",
    "must_complete",
    "switch_refill",
    "switched",
    "switched_sides",
    "without_filling",
]

_FED = 64  # bytes that a change of the switch counts in the feed, which does not store it


def switched(
    writer: Writer, catalog: Catalog, state: StateRow, feed: bool, partitioned: bool
) -> tuple[Catalog, StateRow]:
    """Make every next generation the current one. Return the catalog and the state after the switch.

    `feed` tells if the store keeps a changes feed. One partition of several keeps the former entries for readers.
    """
    position, fed = state.position + 1, 0
    entries: dict[str, CatalogEntry] = {}
    former: list[FormerGeneration] = list(catalog.former)
    trash = list(catalog.trash)
    held = dict(state.held_groups)
    for name, entry in catalog.entries.items():
        if entry.next is None:
            entries[name] = entry
            continue
        if entry.target["kind"] in JOIN_KINDS:  # joins and their sides have no rows in the feed
            trash += join_dbs(entry.number) if entry.number else []
            if entry.next.number:
                entries[name] = CatalogEntry(entry.next.number, entry.next.definition)
            continue
        kept_rows = rows_db(entry.number) if feed else None
        trash += [db for db in view_dbs(entry.number) if db != kept_rows] if entry.number else []
        former.append(FormerGeneration(name, entry.number, entry.definition, position))
        fed += max(writer.count(rows_db(number)) for number in (entry.number, entry.next.number))
        held.pop(name, None)
        if entry.next.number:
            entries[name] = CatalogEntry(entry.next.number, entry.next.definition)
            held[name] = held.pop(HiddenGeneration.label(name), 0)
    if not feed:
        former, fed = [], 0
    return (
        msgspec.structs.replace(
            catalog,
            entries=entries,
            last=catalog.highest(),
            since=None,
            former=tuple(former),
            trash=tuple(dict.fromkeys(trash)),
            unfinished=UnfinishedSwitch(catalog.entries, state.held_groups, state.position) if partitioned else None,
        ),
        msgspec.structs.replace(
            state,
            position=position,
            held_groups=held,
            followed=state.followed if feed else position,
            fed=state.fed + fed,
            fed_bytes=state.fed_bytes + fed * _FED,
        ),
    )


def switched_sides(catalog: Catalog, join: str) -> Catalog:
    """Return the catalog after the sides of an unchanged join were built again, with other fields."""
    entries, trash = dict(catalog.entries), list(catalog.trash)
    for name, entry in serving_sides(catalog).items():
        assert entry.next is not None, "another generation was built"
        if entry.definition["join"] != join:
            continue
        entries[name] = CatalogEntry(entry.next.number, entry.next.definition)
        trash += join_dbs(entry.number)
    return msgspec.structs.replace(catalog, entries=entries, trash=tuple(trash), last=catalog.highest())


def switch_refill(writer: Writer, catalog: Catalog, state: StateRow, feed: bool, partitioned: bool) -> None:
    """Switch to the tables and views that a refill has filled. All other work of the refill is done."""
    refill = catalog.refill
    assert refill is not None, "it was begun"
    ready, filling = refill.ready, refill.filling
    assert ready is not None, "all is filled"
    writes, fresh = Writes(), rejects_db(refill.first)
    without_tails(writer, ready.untimed, writes)
    rejects = [reject for _, reject in rejects_from(writer, db=fresh)]
    keep_rejected(rejects, state.quarantined, dict.fromkeys(refill.since, 0), writes)
    writes.write(writer)
    entries = dict(catalog.entries)
    for name in filling.keys() - refill.since.keys():
        entries[name] = msgspec.structs.replace(
            entries[name], next=NextGeneration(filling[name], entries[name].definition)
        )
    changed, after = switched(
        writer, msgspec.structs.replace(catalog, entries=entries, refill=None), state, feed, partitioned
    )
    entries, trash = dict(changed.entries), [*changed.trash, fresh]
    for name in refill.since:
        trash += databases_of(catalog, name, entries[name].number)
        entries[name] = msgspec.structs.replace(entries[name], number=filling[name])
    unfinished = UnfinishedSwitch(catalog.entries, state.held_groups, state.position, state) if partitioned else None
    changed = msgspec.structs.replace(
        changed, entries=entries, trash=tuple(dict.fromkeys(trash)), unfinished=unfinished, last=catalog.highest()
    )
    write_catalog(writer, changed)
    write_spout_states(writer, {source: Resume(*own) for source, own in ready.notes.items()})
    after = msgspec.structs.replace(
        after,
        sources={**state.sources, **ready.sources},
        ts={**state.ts, **(refill.kinds or {})},
        rejected=added(state.rejected, ready.rejected),
        quarantined=state.quarantined + writes.numbered,
        kept=added(state.kept, writes.kept),
    )
    write_state(writer, after)


def without_filling(catalog: Catalog, refill: Refill | None) -> Catalog:
    """Return the catalog with this refill; the databases that the former one filled are to be emptied."""
    filling = {} if catalog.refill is None else catalog.refill.filling
    left = [db for name, number in filling.items() for db in databases_of(catalog, name, number)]
    if catalog.refill is not None and filling:
        left.append(rejects_db(catalog.refill.first))
    trash = tuple(dict.fromkeys([*catalog.trash, *left]))
    return msgspec.structs.replace(catalog, refill=refill, trash=trash, last=catalog.highest())


def databases_of(catalog: Catalog, name: str, number: int) -> list[str]:
    """Return the databases of the definition with this number."""
    kind = catalog.entries[name].definition["kind"]
    if kind == "table":
        return [log_db(number), index_db(number), moved_lines_db(number), repeated_db(number)]
    return join_dbs(number) if kind in JOIN_KINDS else view_dbs(number)


def finished(catalog: Catalog) -> Catalog:
    """Return the catalog of a partition after all partitions have switched."""
    return msgspec.structs.replace(catalog, unfinished=None, last=catalog.highest())


def must_complete(catalogs: Sequence[Catalog]) -> bool:
    """Return True if some of these partitions made a switch that others must complete, or discard."""
    cut = any(catalog.unfinished is not None or is_ready(catalog) for catalog in catalogs)
    return cut or any(_switched_elsewhere(catalog, catalogs) for catalog in catalogs)


def _switched_elsewhere(catalog: Catalog, others: Sequence[Catalog]) -> set[str]:
    """Return the joins of which a partition waits to switch a side that serves its join in another partition."""
    out: set[str] = set()
    for name, entry in serving_sides(catalog).items():
        known = [other.entries[name].number for other in others if name in other.entries]
        if entry.next is not None and entry.next.number in known:
            out.add(entry.definition["join"])
    return out


def complete_switches(stores: Sequence[Store], feed: bool) -> None:
    """Complete a switch that only some of these partitions made; the caller has all of them open for writing.

    First come sides of a join: one that serves at any partition was complete at all of them.
    A partition has switched if it keeps former entries. Another one waits if it still has a next generation, or if its
    refill is ready. A refill that is ready and was not switched anywhere is discarded.
    """
    catalogs = [_catalog(store) for store in stores]
    known = [catalog for catalog in catalogs if catalog is not None]
    for store, catalog in zip(stores, catalogs, strict=True):
        for join in () if catalog is None else _switched_elsewhere(catalog, known):
            with store.write() as writer:
                write_catalog(writer, switched_sides(_must_have(writer), join))
    catalogs = [_catalog(store) for store in stores]
    first = next((catalog for catalog in catalogs if catalog is not None and catalog.unfinished is not None), None)
    for store, catalog in zip(stores, catalogs, strict=True):
        if catalog is None or catalog.unfinished is not None:
            continue
        with store.write() as writer:
            if is_ready(catalog) and (first is None or not decides(first, catalog)):
                refill = catalog.refill
                assert refill is not None, "it is ready"
                catalog = without_filling(catalog, Refill(refill.since, refill.sources))
                write_catalog(writer, catalog)
            if first is None:
                continue
            if is_ready(catalog):
                switch_refill(writer, catalog, read_state(writer), feed, partitioned=True)
            elif _waits(catalog):
                changed, state = switched(writer, catalog, read_state(writer), feed, partitioned=True)
                write_catalog(writer, changed)
                write_built(writer, None)
                write_state(writer, state)
    for store in stores:
        catalog = _catalog(store)
        if catalog is not None and catalog.unfinished is not None:
            with store.write() as writer:
                write_catalog(writer, finished(catalog))


def is_ready(catalog: Catalog) -> bool:
    """Return True if only the switch is left of a refill."""
    return catalog.refill is not None and catalog.refill.ready is not None


def decides(switched: Catalog, waiting: Catalog) -> bool:
    """Return True if the catalog of a partition shows that it switched to the refill for which another one waits."""
    filling = {} if waiting.refill is None else waiting.refill.filling
    return all(name in switched.entries and switched.entries[name].number == filling[name] for name in filling)


def _must_have(writer: Writer) -> Catalog:
    found = read_catalog(writer, "memory")
    assert found is not None, "it was read before"
    return found


def _catalog(store: Store) -> Catalog | None:
    with store.read() as reader:
        return read_catalog(reader, "memory")


def _waits(catalog: Catalog) -> bool:
    return any(entry.next is not None for entry in catalog.entries.values())


def former_catalog(catalog: Catalog) -> Catalog:
    """Return the catalog that readers had before an unfinished switch; without one, the catalog itself."""
    unfinished = catalog.unfinished
    if unfinished is None:
        return catalog
    former = tuple(former for former in catalog.former if former.until <= unfinished.position)
    return msgspec.structs.replace(catalog, entries=unfinished.entries, former=former, trash=(), unfinished=None)


def former_schema(catalog: Catalog) -> Schema:
    """Return the schema that readers had before an unfinished switch."""
    return _schema(row_of_catalog(former_catalog(catalog)))


@lru_cache(maxsize=8)
def _schema(row: bytes) -> Schema:
    """Make the schema once: until the switch is finished, every snapshot asks for it."""
    return Schema(row, catalog_of(row, "memory"))


def former_state(state: StateRow, unfinished: UnfinishedSwitch) -> StateRow:
    """Return the state that readers had before an unfinished switch."""
    if unfinished.state is not None:
        return unfinished.state
    position = unfinished.position
    return msgspec.structs.replace(
        state, position=position, followed=min(state.followed, position), held_groups=unfinished.held_groups
    )
