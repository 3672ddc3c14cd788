"""Opening a store: one writer, any number of readers, and what has to agree before anything is done."""

from __future__ import annotations

import os
import socket
from typing import Literal

from penstock.cache import DefinitionError, Limits, MemoryStore, Owner, Store, StoreMissing, naming, open_lmdb
from penstock.engine.agreeing import begun, compared, created, refused
from penstock.engine.catalog import read_catalog, read_state, write_built, write_catalog
from penstock.engine.core import Core, Settings
from penstock.engine.engine import Engine
from penstock.engine.feeding import CHANGES
from penstock.engine.holder import drop_socket, take_socket
from penstock.engine.layout import read_layout
from penstock.engine.naming import places_of
from penstock.engine.parting import Parting
from penstock.engine.refilling import without_leftover
from penstock.engine.spannedengine import open_spanned
from penstock.engine.sweep import build_few
from penstock.views import App, Changed

MEMORY = 512 << 20
Migrate = Literal["auto", "refuse"]


def open_engine(
    app: App,
    path: str | os.PathLike[str] | None,
    readonly: bool = False,
    memory: int = MEMORY,
    durability: Literal["sync", "group"] = "sync",
    limits: Limits | None = None,
    listen: bool = True,
    changes: int = CHANGES,
    migrate: Literal["auto", "refuse"] = "auto",
) -> Engine:
    """Open a store to write it, or with `readonly` to read it from any process while another writes.

    `path` is a folder, made if need be, or None for a store in memory. `memory` bounds what the process takes, in
    bytes. Under durability="sync" a put is on the disk when it returns; under "group" it gives a ticket at once, and
    commits are synced every 5 ms or 10,000 documents. While a store is open to write, a thread listens on a socket in
    its folder, so that commands of the same user can hand over their writes; with `listen=False` none does. `changes`
    is how many changes of views the feed keeps, in 256 MB at most; with 0 there is none.

    A view that the store has under another definition, or not at all, is built anew while others write, and readers see
    what it was until it is complete; `engine.migrate()` waits for that. migrate="refuse" raises DefinitionChanged
    instead. A reader sees what the store has, whatever its own app says.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> namecount = users.view("namecount", key="name", reduce=ps.count())
    >>> with ps.open(app, None) as engine:
    ...     counts = engine.put_many("users", [{"id": 1, "name": "Sue"}, {"id": 2, "name": "Sue"}])
    ...     with engine.snapshot() as snap:
    ...         snap.view("namecount")["Sue"]
    2
    """
    if not isinstance(app, App):
        raise DefinitionError(f"ps.open() got {app!r} where the app goes; write ps.open(app, 'state')")
    if migrate not in ("auto", "refuse"):
        raise DefinitionError(f"migrate= is {migrate!r}; write 'auto' or 'refuse'")
    if durability not in ("sync", "group"):
        raise DefinitionError(f"durability= is {durability!r}; write 'sync' or 'group'")
    settings = Settings(memory, limits or Limits(), changes)
    if path is None:
        if readonly:
            raise DefinitionError("a store in memory has no other process to read it; open it without readonly=True")
        return _writer(app, MemoryStore(), None, None, durability, settings, None, migrate)
    where = os.fspath(path)
    if readonly:
        return _to_read(app, where, settings)
    owner = Owner(where)
    sock: socket.socket | None = None
    try:
        # Whoever is refused as a second writer finds the socket from the first moment, and waits until it is answered.
        sock = take_socket(where) if listen else None
        return _writer(app, open_lmdb(where), where, owner, durability, settings, sock, migrate)
    except BaseException:
        if sock is not None:
            drop_socket(where, sock)
        owner.close()
        raise


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
    core = _core(app, store, "memory", Settings(memory, limits or Limits()), seed, migrate)
    return Engine(core, None, None, False, False), core


def open_partition(
    app: App,
    store: Store,
    parting: Parting,
    path: str | None,
    owner: Owner | None,
    settings: Settings,
    sock: socket.socket | None = None,
) -> Engine:
    """The engine of one partition, on a store that the caller has opened."""
    core = _core(app, store, path or "memory", settings, parting.ranges.seed, "refuse", parting)
    return Engine(core, path, owner, False, False, sock)


def _writer(
    app: App,
    store: Store,
    path: str | None,
    owner: Owner | None,
    durability: str,
    settings: Settings,
    sock: socket.socket | None,
    migrate: Migrate,
) -> Engine:
    core = _core(app, store, path or "memory", settings, None, migrate)
    try:
        build_few(core)
        engine = Engine(core, path, owner, False, durability == "group", sock)
    except BaseException:
        store.close()
        raise
    engine.begin_sweeping()
    return engine


def _core(
    app: App,
    store: Store,
    path: str,
    settings: Settings,
    seed: int | None,
    migrate: Migrate,
    parting: Parting | None = None,
) -> Core:
    """The nodes of a store that is now this writer's; where that fails the store is closed."""
    try:
        with naming(lambda: places_of(None)):
            changed = _agree(app, store, path, seed, migrate)
        core = Core(app, store, settings, path, parting=parting)
        core.changed = changed
        core.begin_epoch()
    except BaseException:
        store.close()
        raise
    return core


def _agree(app: App, store: Store, path: str, seed: int | None, migrate: Migrate) -> tuple[Changed, ...]:
    """Make the store's catalog one that serves this app, or refuse; the views that have to be built for it."""
    with store.write() as writer:
        known = read_catalog(writer, path)
        if known is None:
            write_catalog(writer, created(app, seed))
            return ()
        cleaned = without_leftover(known)
        if cleaned != known:
            write_catalog(writer, cleaned)
            known = cleaned
        agreement = compared(known, app)
        if agreement.changes and migrate == "refuse":
            raise refused(agreement.changes)
        catalog, built = begun(writer, known, agreement, read_state(writer).position)
        if catalog != known:
            write_catalog(writer, catalog)
            write_built(writer, built)
        return tuple(agreement.changes.values())


def _to_read(app: App, path: str, settings: Settings) -> Engine:
    """A store opened to be read, however it is parted; one that is parted anew meanwhile lies elsewhere then."""
    layout = read_layout(path)
    while True:
        try:
            return _reader(app, path, settings) if layout is None else open_spanned(app, path, layout, settings)
        except StoreMissing:
            before, layout = layout, read_layout(path)
            if layout == before:
                raise


def _reader(app: App, path: str, settings: Settings) -> Engine:
    store = open_lmdb(path, readonly=True)
    try:
        with store.read() as reader, naming(lambda: places_of(None)):
            if read_catalog(reader, path) is None:
                raise StoreMissing(path)
        core = Core(app, store, settings, path, readonly=True)
    except BaseException:
        store.close()
        raise
    return Engine(core, path, None, True, False)
