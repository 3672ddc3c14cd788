"""Replace a store of any number of partitions with a copy.

Invariants:

- a store with content is replaced only on request;
- a restore keeps the former store until all partitions of the copy are written, checked and synced.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing

from penstock.cache import (
    DATA,
    CopyFailed,
    PenstockError,
    StoreMissing,
    Tell,
    WriterLock,
    checked,
    clear_folder,
    marked_files,
    must_have_no_other,
    naming,
    open_lmdb,
    opened_folder,
    put_in_place,
    sync_folder,
)
from penstock.core import (
    Catalog,
    database_labels,
    is_store,
    layout_of,
    must_be_alone,
    must_be_whole,
    read_catalog,
    read_layout,
    read_state,
)
from penstock.partitions.copies.store_copies import Copied, about
from penstock.partitions.copies.store_replacement import StoreReplacement, clear_leftovers, next_turn
from penstock.partitions.partition_catalogs import catalogs_of

__all__ = ["restore", "restore_any"]


@checked
def restore_any(copy: str, path: str, force: bool = False, tell: Tell | None = None) -> Copied:
    """Replace the store at a path with a copy of any number of partitions; `force` allows this if it has content.

    The copy is read back beside the store before it takes its place.
    """
    layout, known = read_layout(copy), read_layout(path)
    if not is_store(copy):
        raise StoreMissing(copy)
    if os.path.realpath(copy) == os.path.realpath(path):
        raise CopyFailed(path, "it is the copy itself", "name the folder of the store that it is for")
    with ExitStack() as owned:
        if os.path.exists(os.path.join(copy, "owner")):  # a store and not a copy: a process may write it
            owned.enter_context(WriterLock(copy))
        owned.enter_context(WriterLock(path))
        former = StoreReplacement(path, known)
        for folder in former.folders if known is not None else ():
            owned.enter_context(WriterLock(folder))
        if not force and any(_has_content(folder) for folder in former.folders):
            raise CopyFailed(path, "there is a store with content", "name another folder, or replace it with --force")
        if layout is None and known is None:
            return _replaced_file(copy, path, tell or _nobody)
        clear_leftovers(path, known)
        for folder in former.folders if known is not None else ():
            with opened_folder(folder) as opened:
                must_have_no_other(opened, folder)
        former.must_be_unread()
        return _restored(copy, path, former, next_turn(known), tell or _nobody)


def restore(copy: str, path: str, force: bool = False, tell: Tell | None = None) -> Copied:
    """Replace the store at a path with a copy, as `restore_any` does; both have one partition."""
    must_be_whole(copy, "restoring")
    must_be_whole(path, "restoring")
    return restore_any(copy, path, force, tell)


def _replaced_file(copy: str, path: str, tell: Tell) -> Copied:
    """Replace the file of a store of one partition in one step, with a copy of such a store."""
    if marked_files(path):  # left by a killed run that made this a store of one partition
        clear_leftovers(path, None)
    found: list[tuple[str, int]] = []
    size = put_in_place(copy, path, tell, lambda folder: found.append(_about_copy(folder, copy)))
    return Copied(path, size, *found[0])


def _about_copy(folder: str, copy: str) -> tuple[str, int]:
    """Return the app and position of a copy of a store of one partition, as it was read back in a folder."""
    with closing(open_lmdb(folder, readonly=True)) as store, store.read() as reader:
        return about(reader, copy)


def _restored(copy: str, path: str, former: StoreReplacement, turn: int, tell: Tell) -> Copied:
    layout = read_layout(copy)
    sources = [copy] if layout is None else layout.folders(copy)
    catalogs = [_alone(copy)] if layout is None else catalogs_of(sources, layout.ranges())
    catalog = next((own for own in catalogs if own is not None), None)
    if catalog is None:
        raise StoreMissing(copy)
    after = layout_of(catalog.app, catalog.seed, (0,) if layout is None else layout.ranges().starts, turn)
    size, positions = 0, list[int]()
    for source, target in zip(sources, after.folders(path), strict=True):
        with opened_folder(target, make=True) as folder:
            clear_folder(folder, target)
        size += put_in_place(source, target, tell)
        with closing(open_lmdb(target, readonly=True)) as store, store.read() as reader:
            positions.append(read_state(reader).position)
    sync_folder(path)
    former.take(after, alone=layout is None)
    return Copied(path, size, catalog.app, positions[0] if layout is None else tuple(positions))


def _alone(copy: str) -> Catalog | None:
    """Return the catalog of a copy of a store of one partition."""
    with (
        naming(lambda: database_labels(None)),
        closing(open_lmdb(copy, readonly=True)) as store,
        store.read() as reader,
    ):
        catalog = read_catalog(reader, copy)
    if catalog is not None:
        must_be_alone(catalog, copy)
    return catalog


def _has_content(path: str) -> bool:
    """Return True if a path has content: unreadable content, and the file of another program, count too."""
    if not os.path.exists(os.path.join(path, DATA)):
        return False
    try:
        with closing(open_lmdb(path, readonly=True)) as store, store.read() as reader:
            if read_catalog(reader, path) is None:
                return bool(reader.names())
            return read_state(reader).position > 0
    except PenstockError:
        return True


def _nobody(what: str, done: int, total: int) -> None:
    """Report no progress."""
