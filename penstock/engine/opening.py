"""Open a store with one writer and any number of readers, and check that app, options and store agree."""

from __future__ import annotations

import os
import socket
from typing import Literal

from penstock.cache import (
    PRIVATE,
    DefinitionError,
    Limits,
    MemoryStore,
    Store,
    StoreMissing,
    WriterLock,
    checked,
    naming,
    open_lmdb,
)
from penstock.core import (
    CHANGES,
    MEMORY,
    Core,
    Scrubbing,
    Settings,
    WrongPartitions,
    database_labels,
    must_be_alone,
    read_catalog,
    read_layout,
)
from penstock.engine.engine import Engine
from penstock.engine.open_options import check_options
from penstock.engine.partitioned_opening import open_partitions, read_parted
from penstock.engine.unpartitioned_store import UnpartitionedStore
from penstock.generations import Migrate, build_small_change, core_on
from penstock.remote import drop_socket, take_socket
from penstock.views import App

__all__ = ["MEMORY", "open_engine"]


@checked
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
    partitions: int | None = None,
    processes: bool = True,
    mode: int = PRIVATE,
    scrub: Scrubbing | None = None,
) -> Engine:
    """Open a store to write it, or with `readonly` to read it from any process while another writes.

    `path` is a folder, created on demand, or None for a store in memory. `memory` limits the memory of the process, in
    bytes. With durability="sync" a put is on the disk when it returns. With "group" a put returns a ticket at once, and
    commits are synced every 5 ms or 10,000 documents. An open writer listens on a socket in the folder for writes from
    commands of the same user; `listen=False` disables this. `changes` is the number of changes that the feed keeps, in
    256 MB at most; 0 disables the feed.

    If the app adds a view or changes a definition, the view is built while others write. Readers see the former view
    until the build is complete. `engine.migrate()` waits for that. migrate="refuse" raises DefinitionChanged instead. A
    reader sees the views of the store, even if its own app defines others.

    `partitions` sets the number of partitions of a new store. Each runs in its own process; with processes=False, or in
    memory, all run in this process. An existing store keeps its number of partitions.

    `mode` sets the permissions of new folders; new files get them without the execute bits. An empty folder gets them
    too. By default only this user has access. With `scrub` a thread checks all pages for damage.

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
    check_options(app, migrate, durability, mode, limits, scrub)
    settings = Settings(memory, limits or Limits(), changes, mode, scrub)
    if path is None:
        if readonly:
            raise DefinitionError("a store in memory has no other process to read it; open it without readonly=True")
        if partitions is not None:
            grouped = durability == "group"
            return open_partitions(app, None, partitions, False, settings, migrate=migrate, grouped=grouped)
        return _writer(app, MemoryStore(), None, None, durability, settings, None, migrate)
    where = os.fspath(path)
    layout = read_layout(where)
    if readonly:
        return _to_read(app, where, settings, partitions)
    if layout is not None or (partitions is not None and partitions != 1):
        grouped = durability == "group"
        return open_partitions(app, where, partitions, processes, settings, listen, migrate=migrate, grouped=grouped)
    owner = WriterLock(where, mode)
    sock: socket.socket | None = None
    try:
        # A refused second writer finds the socket from the first moment, and waits for an answer.
        sock = take_socket(where) if listen else None
        return _writer(app, open_lmdb(where, mode=mode), where, owner, durability, settings, sock, migrate)
    except BaseException:
        if sock is not None:
            drop_socket(where, sock)
        owner.close()
        raise


def _writer(
    app: App,
    store: Store,
    path: str | None,
    owner: WriterLock | None,
    durability: str,
    settings: Settings,
    sock: socket.socket | None,
    migrate: Migrate,
) -> Engine:
    core = core_on(app, store, path or "memory", settings, None, migrate)
    try:
        build_small_change(core)
        opened = UnpartitionedStore(core, path, owner, readonly=False)
        engine = Engine(opened, durability == "group", sock)
    except BaseException:
        store.close()
        raise
    opened.building.begin()
    opened.begin_scrubbing(settings.scrub)
    opened.begin_clock(settings.clock)
    return engine


def _to_read(app: App, path: str, settings: Settings, partitions: int | None) -> Engine:
    """Open a store for reading, with any number of partitions; retry if a repartition replaces its layout meanwhile."""
    layout = read_layout(path)
    has = 1 if layout is None else len(layout.parts)
    if partitions not in (None, has):
        raise WrongPartitions(path, has, partitions or has)
    while True:
        try:
            return _reader(app, path, settings) if layout is None else read_parted(app, path, layout, settings)
        except StoreMissing:
            before, layout = layout, read_layout(path)
            if layout == before:
                raise


def _reader(app: App, path: str, settings: Settings) -> Engine:
    store = open_lmdb(path, readonly=True)
    try:
        with store.read() as reader, naming(lambda: database_labels(None)):
            catalog = read_catalog(reader, path)
            if catalog is None:
                raise StoreMissing(path)
            must_be_alone(catalog, path)
        core = Core(app, store, settings, path, readonly=True)
    except BaseException:
        store.close()
        raise
    return Engine(UnpartitionedStore(core, path, None, readonly=True))
