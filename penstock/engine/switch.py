"""The switch from one generation of views to the next, in one partition and over all partitions of a store.

Every partition switches in a transaction of its own. The first switch decides: from then on all others must switch,
and an opening of the store completes that before anything else. Invariants:

- a partition that switched keeps the former generation whole until all partitions have switched;
- readers of the whole store see the former generation until then, as of the position before the switch;
- no partition commits content between the first switch and the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from penstock.cache import Store, Writer
from penstock.engine.catalog import (
    Catalog,
    Entry,
    Former,
    State,
    Unfinished,
    catalog_of,
    read_catalog,
    read_state,
    row_of_catalog,
    write_built,
    write_catalog,
    write_state,
)
from penstock.engine.schema import Schema
from penstock.mapreduce import Building, rows_db, view_dbs

__all__ = ["complete_switches", "finished", "former_catalog", "former_schema", "former_state", "switched"]

_FED = 64  # bytes that a change of the switch counts in the feed, which has them nowhere


def switched(writer: Writer, catalog: Catalog, state: State, feed: bool, partitioned: bool) -> tuple[Catalog, State]:
    """Make every next generation the current one; the catalog and the state after that.

    `feed` says whether the store keeps a changes feed. One partition of several keeps the former entries for readers.
    """
    position, fed = state.position + 1, 0
    entries: dict[str, Entry] = {}
    former: list[Former] = list(catalog.former)
    trash = list(catalog.trash)
    held = dict(state.held_groups)
    for name, entry in catalog.entries.items():
        if entry.next is None:
            entries[name] = entry
            continue
        kept = rows_db(entry.number) if feed else None
        trash += [db for db in view_dbs(entry.number) if db != kept] if entry.number else []
        former.append(Former(name, entry.number, entry.definition, position))
        fed += max(writer.count(rows_db(number)) for number in (entry.number, entry.next.number))
        held.pop(name, None)
        if entry.next.number:
            entries[name] = Entry(entry.next.number, entry.next.definition)
            held[name] = held.pop(Building.label(name), 0)
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
            unfinished=Unfinished(catalog.entries, state.held_groups, state.position) if partitioned else None,
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


def finished(catalog: Catalog) -> Catalog:
    """The catalog of a partition once all partitions have switched."""
    return msgspec.structs.replace(catalog, unfinished=None, last=catalog.highest())


def complete_switches(stores: Sequence[Store], feed: bool) -> None:
    """Finish a switch that only some of these partitions made; they are open to be written, and nobody else has them.

    A partition has switched if it keeps former entries. Another one waits if it still has a next generation.
    """
    catalogs = [_catalog(store) for store in stores]
    if not any(catalog is not None and catalog.unfinished is not None for catalog in catalogs):
        return
    for store, catalog in zip(stores, catalogs, strict=True):
        if catalog is not None and catalog.unfinished is None and _waits(catalog):
            with store.write() as writer:
                changed, state = switched(writer, catalog, read_state(writer), feed, partitioned=True)
                write_catalog(writer, changed)
                write_built(writer, None)
                write_state(writer, state)
    for store in stores:
        catalog = _catalog(store)
        if catalog is not None and catalog.unfinished is not None:
            with store.write() as writer:
                write_catalog(writer, finished(catalog))


def _catalog(store: Store) -> Catalog | None:
    with store.read() as reader:
        return read_catalog(reader, "memory")


def _waits(catalog: Catalog) -> bool:
    return any(entry.next is not None for entry in catalog.entries.values())


def former_catalog(catalog: Catalog) -> Catalog:
    """The catalog that readers had before an unfinished switch; any other one is as it is."""
    unfinished = catalog.unfinished
    if unfinished is None:
        return catalog
    former = tuple(former for former in catalog.former if former.until <= unfinished.position)
    return msgspec.structs.replace(catalog, entries=unfinished.entries, former=former, trash=(), unfinished=None)


def former_schema(catalog: Catalog) -> Schema:
    """The schema that readers had before an unfinished switch."""
    return _schema(row_of_catalog(former_catalog(catalog)))


@lru_cache(maxsize=8)
def _schema(row: bytes) -> Schema:
    """Made once: until the switch is finished every snapshot asks for it."""
    return Schema(row, catalog_of(row, "memory"))


def former_state(state: State, unfinished: Unfinished) -> State:
    """The state that readers had before an unfinished switch."""
    position = unfinished.position
    return msgspec.structs.replace(
        state, position=position, followed=min(state.followed, position), held_groups=unfinished.held_groups
    )
