"""Copy and shrink a store. These operations need no app: the catalog defines it.

Any process can make a copy beside the writer, from one read transaction. It doesn't need the holder, so a stopped store
can be copied too.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass

from penstock.cache import (
    DATA,
    Reader,
    StoreMissing,
    Tell,
    WriterLock,
    checked,
    copy_snapshot,
    must_have_room,
    open_lmdb,
    shrink_file,
)
from penstock.core import must_be_alone, must_be_whole, read_catalog, read_layout, read_state
from penstock.views import Position

__all__ = ["Copied", "about", "copy_of", "copy_size", "shrink"]


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
    with closing(open_lmdb(path, readonly=True)) as store, store.read() as snap:
        app, position = about(snap, path)
        return Copied(target, copy_snapshot(snap, target, tell or _nobody), app, position)


def copy_size(path: str, target: str) -> int:
    """Return the bytes that a copy of a store takes; raise CopyFailed if there is no room for it at `target`."""
    layout = read_layout(path)
    size = 0
    for folder in [path] if layout is None else layout.folders(path):
        with closing(open_lmdb(folder, readonly=True)) as store, store.read() as snap:
            size += snap.used()
    must_have_room(os.path.dirname(os.path.abspath(target)), target, size)
    return size


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


def about(reader: Reader, path: str) -> tuple[str, int]:
    """Return the app and position of a store; raise an error if there is none, or if it has another format."""
    catalog = read_catalog(reader, path)
    if catalog is None:
        raise StoreMissing(path)
    must_be_alone(catalog, path)
    return catalog.app, read_state(reader).position


def _nobody(what: str, done: int, total: int) -> None:
    """Report no progress."""
