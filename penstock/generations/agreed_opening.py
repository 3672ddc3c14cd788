"""A store that agrees with its app: its catalog is made one that serves the app, or it is refused; then its nodes."""

from __future__ import annotations

import socket
from typing import Literal

from msgspec.structs import replace

from penstock.cache import META, Limits, LmdbStore, LmdbWriter, Owner, Store, StoreDamaged, Writer, naming
from penstock.core.catalog import Catalog, read_catalog, read_state, write_built, write_catalog
from penstock.core.commit import Core
from penstock.core.damage_names import places_of
from penstock.core.settings import Settings
from penstock.core.upkeep.page_check import must_be_sound
from penstock.engine.engine import Engine
from penstock.generations.agreement import begun, compared, created, described, refused
from penstock.generations.refill import without_leftover
from penstock.partitions.exchange.exchange import Parting
from penstock.partitions.generation_numbers import Concert
from penstock.partitions.partition_identity import identity_of, must_be_alone, must_be_partition
from penstock.views import App, Changed

__all__ = ["MEMORY", "Migrate", "core_on", "open_on", "open_partition"]

MEMORY = 512 << 20
Migrate = Literal["auto", "refuse"]


def open_on(
    app: App,
    store: Store,
    limits: Limits | None = None,
    seed: int | None = None,
    memory: int = MEMORY,
    migrate: Migrate = "auto",
) -> tuple[Engine, Core]:
    """The engine on a store that the caller has opened, and its core: how the simulator comes in.

    `seed` is that of the hashes of keys, where the store is empty; left out, it is drawn. Views that changed are built
    by `core.sweep_step()`, and by nothing else.
    """
    core = core_on(app, store, "memory", Settings(memory, limits or Limits()), seed, migrate)
    return Engine(core, None, None, False, False), core


def open_partition(
    app: App,
    store: Store,
    parting: Parting,
    path: str | None,
    owner: Owner | None,
    settings: Settings,
    sock: socket.socket | None = None,
    concert: Concert | None = None,
) -> Engine:
    """The engine of one partition, on a store that the caller has opened; views that changed begin as all agreed."""
    core = core_on(app, store, path or "memory", settings, parting.ranges.seed, "refuse", parting, concert)
    return Engine(core, path, owner, False, False, sock)


def core_on(
    app: App,
    store: Store,
    path: str,
    settings: Settings,
    seed: int | None,
    migrate: Migrate,
    parting: Parting | None = None,
    concert: Concert | None = None,
) -> Core:
    """The nodes of a store that is now this writer's; where that fails the store is closed."""
    try:
        if isinstance(store, LmdbStore):
            must_be_sound(store, store.folder)
        with naming(lambda: places_of(None)):
            changed = _agree(app, store, path, seed, migrate, parting, concert)
        core = Core(app, store, settings, path, parting=parting)
        core.changed = changed
        core.begin_epoch()
    except BaseException:
        store.close()
        raise
    return core


def _agree(
    app: App,
    store: Store,
    path: str,
    seed: int | None,
    migrate: Migrate,
    parting: Parting | None,
    concert: Concert | None,
) -> tuple[Changed, ...]:
    """Make the store's catalog one that serves this app, or refuse; the views that have to be built for it."""
    with store.write() as writer:
        if parting is None:
            own, known = None, read_catalog(writer, path)
        else:
            own = identity_of(parting.ranges, parting.here)
            known = must_be_partition(writer, path, parting.ranges, parting.here)
        _must_say(writer, known)
        if known is None:
            wanted, numbers = (described(app), None) if concert is None else (concert.wanted, concert.numbers)
            write_catalog(writer, created(app.name, wanted, seed, numbers, own))
            return ()
        if own is None:
            must_be_alone(known, path)
        cleaned = replace(without_leftover(known, parting is not None), partition=own)
        if cleaned != known:
            write_catalog(writer, cleaned)
            known = cleaned
        agreement = compared(known, described(app)) if concert is None else concert.agreement(known)
        if agreement.changes and migrate == "refuse" and concert is None:
            raise refused(agreement.changes)
        catalog, built = begun(writer, known, agreement, read_state(writer).position)
        if catalog != known:
            write_catalog(writer, catalog)
            write_built(writer, built)
        return tuple(agreement.changes.values())


def _must_say(writer: Writer, known: Catalog | None) -> None:
    """StoreDamaged where the store has rows and no catalog, or no digests though it had some."""
    if isinstance(writer, LmdbWriter):
        if known is None and not writer.empty:
            raise StoreDamaged(f"{META}, its rows are lost")
        if read_state(writer).counted and not writer.counted:
            raise StoreDamaged(f"{META}, its digests are lost")
