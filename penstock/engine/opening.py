"""Opening a store: one writer, any number of readers, and what has to agree before anything is done."""

from __future__ import annotations

import os
from typing import Literal

from penstock.cache import DefinitionError, Limits, MemoryStore, Owner, Store, StoreMissing, open_lmdb
from penstock.engine.catalog import agree, read_catalog, write_catalog
from penstock.engine.core import Core
from penstock.engine.engine import Engine
from penstock.views import App

MEMORY = 512 << 20


def open_engine(
    app: App,
    path: str | os.PathLike[str] | None,
    readonly: bool = False,
    memory: int = MEMORY,
    durability: Literal["sync", "group"] = "sync",
    limits: Limits | None = None,
) -> Engine:
    """Open a store to write it, or with `readonly` to read it from any process while another writes.

    `path` is a folder, made if need be, or None for a store in memory. `memory` bounds what the process takes, in
    bytes. Under durability="sync" a put is on the disk when it returns; under "group" it gives a ticket at once, and
    commits are synced every 5 ms or 10,000 documents.

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
    if durability not in ("sync", "group"):
        raise DefinitionError(f"durability= is {durability!r}; write 'sync' or 'group'")
    if path is None:
        if readonly:
            raise DefinitionError("a store in memory has no other process to read it; open it without readonly=True")
        return _writer(app, MemoryStore(), None, None, memory, durability, limits)
    where = os.fspath(path)
    if readonly:
        return _reader(app, where, memory, limits)
    os.makedirs(where, exist_ok=True)
    owner = Owner(where)
    try:
        return _writer(app, open_lmdb(where), where, owner, memory, durability, limits)
    except BaseException:
        owner.close()
        raise


def _writer(
    app: App,
    store: Store,
    path: str | None,
    owner: Owner | None,
    memory: int,
    durability: str,
    limits: Limits | None,
) -> Engine:
    try:
        with store.write() as writer:
            catalog, fresh = agree(writer, app, path or "memory")
            if fresh:
                write_catalog(writer, catalog)
        core = Core(app, store, catalog, memory, limits or Limits())
        core.begin_epoch()
    except BaseException:
        store.close()
        raise
    return Engine(core, path, owner, False, durability == "group")


def _reader(app: App, path: str, memory: int, limits: Limits | None) -> Engine:
    store = open_lmdb(path, readonly=True)
    try:
        with store.read() as reader:
            if read_catalog(reader, path) is None:
                raise StoreMissing(path)
            catalog, _ = agree(reader, app, path)
        core = Core(app, store, catalog, memory, limits or Limits(), readonly=True)
    except BaseException:
        store.close()
        raise
    return Engine(core, path, None, True, False)
