"""Open a store for its app: compare the catalog with the app, adapt or refuse it, and make the nodes."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from penstock.cache import META, LmdbStore, LmdbWriter, Store, StoreDamaged, Writer, naming
from penstock.core import (
    FORMAT,
    Catalog,
    Core,
    Exchange,
    Settings,
    database_labels,
    described,
    identity_of,
    must_be_alone,
    must_be_partition,
    must_be_sound,
    read_catalog,
    read_state,
    write_built,
    write_catalog,
)
from penstock.generations.app_comparison import begun, compared, created, refused
from penstock.generations.build import GenerationBuild
from penstock.generations.generation_numbers import GenerationNumbers
from penstock.generations.refill import without_leftover
from penstock.views import App, Changed

__all__ = ["Migrate", "core_on"]

Migrate = Literal["auto", "refuse"]


def core_on(
    app: App,
    store: Store,
    path: str,
    settings: Settings,
    seed: int | None,
    migrate: Migrate,
    exchange: Exchange | None = None,
    concert: GenerationNumbers | None = None,
) -> Core:
    """Make the nodes of a store that this writer has opened. Close the store on an error."""
    try:
        if isinstance(store, LmdbStore):
            must_be_sound(store, store.folder)
        with naming(lambda: database_labels(None)):
            changed = _agree(app, store, path, seed, migrate, exchange, concert)
        core = Core(app, store, settings, path, exchange=exchange, begin_build=GenerationBuild)
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
    exchange: Exchange | None,
    concert: GenerationNumbers | None,
) -> tuple[Changed, ...]:
    """Adapt the store's catalog to this app, or refuse it. Return the views that must be built or dropped."""
    with store.write() as writer:
        if exchange is None:
            own, known = None, read_catalog(writer, path)
        else:
            own = identity_of(exchange.ranges, exchange.partition)
            known = must_be_partition(writer, path, exchange.ranges, exchange.partition)
        _check_catalog(writer, known)
        if known is None:
            wanted, numbers = (described(app), None) if concert is None else (concert.wanted, concert.numbers)
            write_catalog(writer, created(app.name, wanted, seed, numbers, own))
            return ()
        if own is None:
            must_be_alone(known, path)
        cleaned = replace(without_leftover(known, exchange is not None), partition=own, format=FORMAT)
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
        return tuple(change for change in agreement.changes.values() if ":" not in change.view)


def _check_catalog(writer: Writer, known: Catalog | None) -> None:
    """Raise StoreDamaged if the store has rows but no catalog, or has lost its digests."""
    if isinstance(writer, LmdbWriter):
        if known is None and not writer.empty:
            raise StoreDamaged(f"{META}, its rows are lost")
        if read_state(writer).counted and not writer.counted:
            raise StoreDamaged(f"{META}, its digests are lost")
