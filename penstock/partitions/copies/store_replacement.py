"""New partitions, or a new store of one, that take the place of the store at a path.

    new folders `<turn>-<i>` made beside ─▶ the file `partitions` replaced, or removed ─▶ the former folders deleted

A store of one partition has no such file. Its data file is renamed to its place first, but is ignored while the file
exists. A kill leaves the former store or the new one. The next run deletes the other one. Invariants:

- no other process writes or reads a partition when the file changes;
- a folder or file that is deleted has a mark of this program;
- the new store has the permissions of the former one.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, suppress

from penstock.cache import (
    DATA,
    PRIVATE,
    SCRUB,
    ForeignFolder,
    PenstockError,
    delete_folder,
    file_mode,
    folder_mode,
    gate,
    mark_folder,
    marked_files,
    process_with,
    sync_folder,
    unmark_folder,
)
from penstock.core import NAME, StoreLayout, is_store, read_layout, write_layout

__all__ = ["StoreReplacement", "clear_leftovers", "next_turn"]

_FOLDER = re.compile(r"(\d+)-\d+\Z")
_FILES = (DATA, "lock.mdb", SCRUB)


def next_turn(layout: StoreLayout | None) -> int:
    """Return the turn that names new partitions, which no folder of this layout has."""
    first = None if layout is None else _FOLDER.match(layout.parts[0].folder)
    return 1 if first is None else 1 + int(first[1])


def clear_leftovers(path: str, layout: StoreLayout | None) -> None:
    """Delete the files that a killed run left: stores that are not those of the layout, each with a mark."""
    own = {part.folder for part in layout.parts} if layout is not None else set[str]()
    with suppress(FileNotFoundError):
        delete_folder(os.path.join(path, NAME + ".partial"))
    for entry in sorted(os.listdir(path)):
        if _FOLDER.match(entry) and entry not in own:
            delete_folder(os.path.join(path, entry))
    if layout is not None:
        former = marked_files(path)
        for name in _FILES:
            if name in former:
                os.unlink(os.path.join(path, name))
            elif os.path.lexists(os.path.join(path, name)):
                raise ForeignFolder(path, f"{name!r} lies beside the partitions, which did not replace it")
    unmark_folder(path)


class StoreReplacement:
    """The store at a path, with this layout, that new partitions replace; the caller is the owner of all of it."""

    def __init__(self, path: str, layout: StoreLayout | None) -> None:
        self._path = path
        self._layout = layout
        if layout is not None:
            self.folders = layout.folders(path)
        else:
            self.folders = [path] if is_store(path) else []

    @property
    def mode(self) -> int:
        """The permissions of the former store, or private ones if there is none."""
        try:
            return folder_mode(os.stat(os.path.join(self.folders[0], DATA)).st_mode)
        except (IndexError, FileNotFoundError):
            return PRIVATE

    def must_be_unread(self) -> None:
        """Raise PenstockError if a process has the former store open."""
        for folder in self.folders:
            other = process_with(folder)
            if other is not None:
                raise PenstockError(
                    f"process {other} has the store at {self._path} open to read it; end that one, and run this again"
                )

    def take(self, after: StoreLayout, alone: bool) -> None:
        """Make the new partitions the store, then delete the former one, which has a mark before that.

        With `alone` the one new partition becomes a store of one partition.
        """
        with ExitStack() as stack:
            for folder in self.folders:
                stack.enter_context(gate(folder, alone=True))
            self.must_be_unread()
            mode = self.mode
            for folder in after.folders(self._path):
                os.chmod(folder, mode)
                os.chmod(os.path.join(folder, DATA), file_mode(mode))
            for folder in self.folders if self._layout is not None else ():
                mark_folder(folder)
            if alone:
                [folder] = after.folders(self._path)
                fresh, place = os.path.join(folder, DATA), os.path.join(self._path, DATA)
                mark_folder(self._path, {DATA: fresh})  # until it is the store
                os.rename(fresh, place)
                sync_folder(self._path)
                os.unlink(os.path.join(self._path, NAME))
                sync_folder(self._path)
            else:
                former = {name: os.path.join(self._path, name) for name in _FILES}
                found = {name: file for name, file in former.items() if os.path.exists(file)}
                if self._layout is None and found:
                    mark_folder(self._path, found)
                write_layout(self._path, after, mode)
            now = read_layout(self._path)
            for folder in () if now is None else now.folders(self._path):
                unmark_folder(folder)
            clear_leftovers(self._path, now)
