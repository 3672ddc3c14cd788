"""Copy, restore and shrink a store. These operations need no app: the catalog defines it.

Any process can make a copy beside the writer, from one read transaction. It doesn't need the holder, so a stopped store
can be copied too. Invariant: a store with content is replaced only on request.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass

from penstock.cache import (
    DATA,
    CopyFailed,
    PenstockError,
    Reader,
    StoreMissing,
    Tell,
    WriterLock,
    checked,
    copy_snapshot,
    marked_files,
    must_have_room,
    open_lmdb,
    put_in_place,
    shrink_file,
)
from penstock.core import must_be_alone, must_be_whole, read_catalog, read_layout, read_state
from penstock.partitions.copies.store_replacement import clear_leftovers
from penstock.views import Position

__all__ = ["Copied", "copy_of", "copy_size", "has_content", "restore", "shrink", "with_content"]


@dataclass(frozen=True, slots=True)
class Copied:
    """A finished copy: its path, its bytes, and the app and position of its store."""

    path: str
    bytes: int
    app: str
    position: Position


def copy_of(path: str, target: str, tell: Tell | None = None) -> Copied:
    """Copy the store at a path into a new folder, and check the copy; other processes may write meanwhile."""
    must_be_whole(path, "a copy in one piece")
    store = open_lmdb(path, readonly=True)
    try:
        with store.read() as snap:
            app, position = _about(snap, path)
            return Copied(target, copy_snapshot(snap, target, tell or _nobody), app, position)
    finally:
        store.close()


def copy_size(path: str, target: str) -> int:
    """Return the bytes that a copy of a store takes; raise CopyFailed if there is no room for it at `target`."""
    layout = read_layout(path)
    size = 0
    for folder in [path] if layout is None else layout.folders(path):
        store = open_lmdb(folder, readonly=True)
        try:
            with store.read() as snap:
                size += snap.used()
        finally:
            store.close()
    must_have_room(os.path.dirname(os.path.abspath(target)), target, size)
    return size


def restore(copy: str, path: str, force: bool = False, tell: Tell | None = None) -> Copied:
    """Replace the store at a path with a copy, in one step; `force` allows this if the path has content."""
    if not os.path.isdir(copy):
        raise StoreMissing(copy)
    if os.path.realpath(copy) == os.path.realpath(path):
        raise CopyFailed(path, "it is the copy itself", "name the folder of the store that it is for")
    must_be_whole(copy, "restoring")
    must_be_whole(path, "restoring")
    with WriterLock(path):
        if not force and has_content(path):
            raise with_content(path)
        if marked_files(path):  # left by a killed run that made this a store of one partition
            clear_leftovers(path, None)
        if os.path.exists(os.path.join(copy, "owner")):  # a store and not a copy: a process may write it
            with WriterLock(copy):
                size = put_in_place(copy, path, tell or _nobody)
        else:
            size = put_in_place(copy, path, tell or _nobody)
        store = open_lmdb(path, readonly=True)
        try:
            with store.read() as snap:
                return Copied(path, size, *_about(snap, path))
        finally:
            store.close()


@checked
def shrink(path: str, tell: Tell | None = None) -> int | None:
    """Rewrite the files of a store without their free space, and return their bytes.

    Return None if other processes have all of them open, or if there is little to gain.
    """
    with ExitStack() as owned:
        owned.enter_context(WriterLock(path))
        layout = read_layout(path)
        folders = [path] if layout is None else layout.folders(path)
        for folder in folders if layout is not None else ():
            owned.enter_context(WriterLock(folder))
        sizes = {folder: shrink_file(folder, tell or _nobody) for folder in folders}
        if all(size is None for size in sizes.values()):
            return None
        return sum(os.path.getsize(os.path.join(at, DATA)) if size is None else size for at, size in sizes.items())


def _about(reader: Reader, path: str) -> tuple[str, int]:
    """Return the app and position of a store; raise an error if there is none, or if it has another format."""
    catalog = read_catalog(reader, path)
    if catalog is None:
        raise StoreMissing(path)
    must_be_alone(catalog, path)
    return catalog.app, read_state(reader).position


def with_content(path: str) -> CopyFailed:
    """Return the error for a store that would be replaced without being asked for."""
    return CopyFailed(path, "there is a store with content", "name another folder, or replace it with --force")


def has_content(path: str) -> bool:
    """Return True if a path has content: unreadable content, and the file of another program, count too."""
    if not os.path.exists(os.path.join(path, DATA)):
        return False
    try:
        store = open_lmdb(path, readonly=True)
    except PenstockError:
        return True
    try:
        with store.read() as reader:
            if read_catalog(reader, path) is None:
                return bool(reader.names())
            return read_state(reader).position > 0
    except PenstockError:
        return True
    finally:
        store.close()


def _nobody(what: str, done: int, total: int) -> None:
    """Report no progress."""
