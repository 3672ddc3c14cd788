"""Open a store of several partitions: take its lock, read its layout, and start the partitions.

The process that opens the store owns the folder. It starts a process per partition, or runs all partitions itself.
Invariant: if another process has the lock of a partition while we have that of the folder, its owner has died. That
process is killed, and has ended before the partition is opened.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from penstock.cache import DefinitionError, MemoryStore, Store, WriterLock, key_text, open_lmdb
from penstock.core import (
    Settings,
    StoreLayout,
    WrongPartitions,
    complete_switches,
    is_store,
    layout_of,
    must_complete,
    read_layout,
    write_layout,
)
from penstock.engine import partition_main
from penstock.engine.engine import Engine
from penstock.engine.partitioned_reading import cores_of
from penstock.engine.partitioned_store import PartitionedStore
from penstock.engine.supplied_store import open_partition
from penstock.generations import GenerationNumbers, Migrate, agree_numbers
from penstock.mapreduce import even_starts
from penstock.partitions import (
    Member,
    PartitionExchange,
    PartitionProcess,
    StartMessage,
    catalogs_of,
    delivered_productions,
    evict,
    join,
    transferred,
)
from penstock.remote import drop_socket, take_socket
from penstock.views import App, Changed, check_no_streams

__all__ = ["open_partitions", "read_parted"]

_MOST = 256
PATIENCE = 5.0
"""Seconds without a sign of life after which who was asked counts as hanging; it gives one each second."""
DEADLINE = 1.0
"""Seconds after which a view with production="auto" is no longer told before what it is told is saved."""
_LOOK = 1.0  # seconds between two looks at whether partitions work


def open_partitions(
    app: App,
    path: str | None,
    partitions: int | None,
    processes: bool,
    settings: Settings,
    listen: bool = False,
    patience: float = PATIENCE,
    migrate: Migrate = "auto",
    grouped: bool = False,
) -> Engine:
    """Open a store with so many partitions, or with its own number; with `listen` it accepts remote writers.

    A process without a sign of life for `patience` seconds counts as hung, and is replaced. With `grouped` puts return
    tickets.
    """
    check_no_streams(app.streams(), "a store of several partitions", "open it with one partition")
    if partitions is not None and not 1 <= partitions <= _MOST:
        raise DefinitionError(f"partitions= is {key_text(partitions)}; write a number from 1 to {_MOST}")
    if path is None:
        layout = layout_of(app.name, secrets.randbits(63), even_starts(partitions or 1), 0)
        return Engine(_local_partitions(app, layout, None, None, settings, migrate), grouped)
    owner = WriterLock(path, settings.mode)
    sock: socket.socket | None = None
    try:
        sock = take_socket(path) if listen else None
        layout = _layout(app, path, partitions, settings.mode)
        for folder in layout.folders(path):
            evict(folder, settings.mode)
        if processes:
            store = _partition_processes(app, layout, path, owner, settings, patience, migrate)
        else:
            store = _local_partitions(app, layout, path, owner, settings, migrate)
        engine = Engine(store, grouped, sock)
    except BaseException:
        if sock is not None:
            drop_socket(path, sock)
        owner.close()
        raise
    try:
        store.building.begin()
    except BaseException:
        engine.close()
        raise
    return engine


def read_parted(app: App, path: str, layout: StoreLayout, settings: Settings) -> Engine:
    """Open the partitions of a store to read them."""
    cores = cores_of(app, path, layout, settings)
    return Engine(PartitionedStore(app, layout, cores, (), None, path, None, readonly=True))


def _layout(app: App, path: str, partitions: int | None, mode: int) -> StoreLayout:
    known = read_layout(path)
    if known is None:
        if is_store(path):
            raise WrongPartitions(path, 1, partitions or 1)
        known = layout_of(app.name, secrets.randbits(63), even_starts(partitions or 1), 0)
        write_layout(path, known, mode)
    elif partitions is not None and partitions != len(known.parts):
        raise WrongPartitions(path, len(known.parts), partitions)
    return known


def _local_partitions(
    app: App,
    layout: StoreLayout,
    path: str | None,
    owner: WriterLock | None,
    settings: Settings,
    migrate: Migrate,
) -> PartitionedStore:
    """Open all partitions in this process. They run one after the other in the thread of the caller."""
    members: list[Member] = []
    own = settings.share(len(layout.parts))
    concert, changed = _agreed_numbers(app, layout, path, migrate, settings)
    try:
        for partition in range(len(layout.parts)):
            folder = None if path is None else layout.folders(path)[partition]
            members.append(_member(app, folder, PartitionExchange(partition, layout.ranges()), own, concert))
    except BaseException:
        for member in members:
            member.close()
        raise
    join(members)
    cores = [member.core for member in members]
    return PartitionedStore(app, layout, cores, members, lambda: delivered_productions(members), path, owner, changed)


def _member(
    app: App, folder: str | None, exchange: PartitionExchange, settings: Settings, concert: GenerationNumbers
) -> Member:
    """Open a partition in this process. After an error nothing of it stays open."""
    held = None if folder is None else WriterLock(folder, settings.mode)
    try:
        store = MemoryStore() if folder is None else open_lmdb(folder, mode=settings.mode)
        partition = open_partition(app, store, exchange, folder, held, settings, concert)
    except BaseException:
        if held is not None:
            held.close()
        raise
    partition.begin_scrubbing(settings.scrub)
    return Member(partition)


def _partition_processes(
    app: App,
    layout: StoreLayout,
    path: str,
    owner: WriterLock,
    settings: Settings,
    patience: float,
    migrate: Migrate,
) -> PartitionedStore:
    """A process for each partition."""
    concert, changed = _agreed_numbers(app, layout, path, migrate, settings)
    sent, folders = transferred(app), tuple(os.path.abspath(folder) for folder in layout.folders(path))
    message = StartMessage(
        sent,
        folders,
        0,
        layout.ranges().starts,
        layout.seed,
        settings.share(len(folders)),
        DEADLINE,
        patience,
        concert,
    )
    handles = [
        PartitionProcess(replace(message, partition=partition), partition_main.__name__)
        for partition in range(len(folders))
    ]
    try:
        for handle in handles:
            handle.begin()
        for handle in handles:
            handle.ready()
        cores = cores_of(app, path, layout, settings)
        store = PartitionedStore(app, layout, cores, handles, None, path, owner, changed)
    except BaseException:
        for handle in handles:
            handle.close()
        raise
    _PartitionWatch(handles)
    return store


def _agreed_numbers(
    app: App, layout: StoreLayout, path: str | None, migrate: Migrate, settings: Settings
) -> tuple[GenerationNumbers, tuple[Changed, ...]]:
    """Find out which views all partitions begin to build, and which are built."""
    folders = [] if path is None else layout.folders(path)
    ranges = layout.ranges()
    known = catalogs_of(folders, ranges)
    if must_complete([own for own in known if own is not None]):
        _complete_switches(folders, settings.changes > 0)
        known = catalogs_of(folders, ranges)
    return agree_numbers(app, known, migrate == "refuse")


def _complete_switches(folders: Sequence[str], feed: bool) -> None:
    """Finish a switch that was cut off between two partitions."""
    with ExitStack() as stack:
        stores = list[Store]()
        for folder in folders:
            stack.enter_context(WriterLock(folder))
            stores.append(open_lmdb(folder))
            stack.callback(stores[-1].close)
        complete_switches(stores, feed)


class _PartitionWatch(threading.Thread):
    """Looks after partitions, until all of them are closed."""

    def __init__(self, handles: Sequence[PartitionProcess]) -> None:
        super().__init__(name="penstock-watch", daemon=True)
        self._handles = handles
        self.start()

    def run(self) -> None:
        """Look, again and again."""
        while not all(handle.closed for handle in self._handles):
            for handle in self._handles:
                handle.look()
            time.sleep(_LOOK)
