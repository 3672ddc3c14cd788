"""Copies of any store, and a store from a copy: of several partitions a copy of each, as they fit together.

Like the copy of one it is made by whoever asks, from read transactions of its own, while others write. These are begun
one after the other, and again, until what each partition owes another and that one has not taken is stored: then the
copy goes on from there as the store would after a crash. Invariants:

- a copy that is not done has no name;
- what is restored is a store of several partitions once all of them are there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack

from penstock.cache import (
    CopyFailed,
    Owner,
    Reader,
    Tell,
    built_beside,
    clear_folder,
    copy_snapshot,
    open_lmdb,
    opened_folder,
    put_in_place,
    unmark_folder,
)
from penstock.engine.catalog import Catalog, read_catalog, read_state
from penstock.engine.copies import Copied, copy_of, restore
from penstock.engine.identity import catalogs_of
from penstock.engine.layout import is_store, read_layout, write_layout
from penstock.engine.schema import is_built
from penstock.engine.spanned import unlike
from penstock.engine.switch import former_catalog
from penstock.recovery import consistent

__all__ = ["copy_any", "restore_any"]

_TRIES = 5_000
_AGAIN = 0.001


def copy_any(path: str, target: str, tell: Tell | None = None) -> Copied:
    """Copy the store at a path into a new folder, checked; others may write it meanwhile."""
    layout = read_layout(path)
    if layout is None:
        return copy_of(path, target, tell)
    catalogs_of(layout.folders(path), layout.ranges())
    with built_beside(target) as folder, ExitStack() as stack:
        stores = [open_lmdb(own, readonly=True) for own in layout.folders(path)]
        for store in stores:
            stack.callback(store.close)
        for _ in range(_TRIES):
            with ExitStack() as begun:
                readers = [begun.enter_context(store.read()) for store in stores]
                states = [read_state(reader) for reader in readers]
                taken = [{other: number for other, (_, number) in state.taken.items()} for state in states]
                catalogs = [read_catalog(*own) for own in zip(readers, layout.folders(path), strict=True)]
                if _between_switches(readers, catalogs) or not consistent(
                    readers, [state.sent for state in states], taken
                ):
                    time.sleep(_AGAIN)
                    continue
                into = [os.path.join(folder, part.folder) for part in layout.parts]
                size = sum(copy_snapshot(*own, tell or _nobody) for own in zip(readers, into, strict=True))
                write_layout(folder, layout)
                return Copied(target, size, layout.app, tuple(state.position for state in states))
        raise CopyFailed(target, "its partitions did not stand at one moment", "copy it again while less is written")


def _between_switches(readers: Sequence[Reader], catalogs: Sequence[Catalog | None]) -> bool:
    """Whether these snapshots began while partitions switched, so that an opening could not finish that."""
    known = [catalog for catalog in catalogs if catalog is not None]
    if len(known) == len(catalogs) and unlike(known) is None:
        return False
    return unlike([former_catalog(catalog) for catalog in known]) is not None or not all(
        catalog.unfinished is not None or is_built(reader, catalog)
        for reader, catalog in zip(readers, known, strict=True)
    )


def restore_any(copy: str, path: str, force: bool = False, tell: Tell | None = None) -> Copied:
    """Make the store at a path what a copy is; a copy of several partitions needs a path where no store is."""
    layout = read_layout(copy)
    if layout is None:
        return restore(copy, path, force, tell)
    if is_store(path):
        raise CopyFailed(
            path,
            "there is a store, whose place a copy of several partitions does not take",
            "name a folder without one",
        )
    catalogs_of(layout.folders(copy), layout.ranges())
    with ExitStack() as owned:
        if os.path.exists(os.path.join(copy, "owner")):  # no copy but a store, which may be written meanwhile
            owned.enter_context(Owner(copy))
        owned.enter_context(Owner(path))
        size, positions = 0, list[int]()
        for target in layout.folders(path):
            with opened_folder(target, make=True) as folder:
                clear_folder(folder, target)
        for source, target in zip(layout.folders(copy), layout.folders(path), strict=True):
            owned.enter_context(Owner(target))
            size += put_in_place(source, target, tell or _nobody)
            store = open_lmdb(target, readonly=True)
            owned.callback(store.close)
            with store.read() as reader:
                positions.append(read_state(reader).position)
        write_layout(path, layout)
        for target in layout.folders(path):
            unmark_folder(target)
    return Copied(path, size, layout.app, tuple(positions))


def _nobody(what: str, done: int, total: int) -> None:
    """Tells nobody how far it is."""
