"""Mark the folders that this program made, and may therefore delete.

A copy, a repartition, a repair and a backfill work in temporary folders. A killed run leaves its folder behind. The
next run deletes the folder if it has a mark. Invariants:

- a mark names its folder and the parent folder by inode, so a folder that was copied or moved has no valid mark;
- only files under names that this program gives are deleted: any other file makes the whole folder foreign;
- no symlink is followed, and none is deleted.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec

from penstock.cache.errors import PenstockError
from penstock.cache.permissions import PRIVATE

__all__ = [
    "ForeignFolder",
    "clear_folder",
    "delete_folder",
    "delete_marked_folder",
    "make_folder",
    "mark_folder",
    "marked_files",
    "must_have_no_other",
    "opened_folder",
    "unmark_folder",
]

_log = logging.getLogger("penstock.cache")
_NAME = "made-by-penstock"
_NOTE = "penstock made this folder, or these files of it, and may delete them"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILES = re.compile(
    rf"{_NAME}|data\.mdb(\.new)?|lock\.mdb|scrub(\.\d+)?|owner|socket|partitions|(documents|groups)-[\d-]+(\.\w+)?"
)
_FOLDERS = re.compile(r"copy|\d+-\d+|(restored|smaller|partitions)\.partial|repair-\w+|runs-[0-9a-f]{8}-[0-9a-f]{32}")


class ForeignFolder(PenstockError):
    """A folder is in the way, and this program did not make it, or did not make all of its files.

    >>> print(ForeignFolder("backup.partial", "it has no mark of penstock"))
    backup.partial: it has no mark of penstock; move it elsewhere or delete it, and run this again
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; move it elsewhere or delete it, and run this again"


class _Mark(msgspec.Struct, frozen=True):
    """The inodes of a folder and its parent. With `files`, the mark covers only these files, by inode."""

    note: str
    folder: int
    parent: int
    files: dict[str, int] | None = None


def make_folder(path: str) -> None:
    """Make a folder with a mark."""
    os.mkdir(path, PRIVATE)
    mark_folder(path)


def mark_folder(path: str, files: Mapping[str, str] | None = None) -> None:
    """Mark a folder, or only some files in it, as deletable by this program.

    `files` maps each name to the path of the file that has, or will get, that name.
    """
    inodes = None if files is None else {name: os.lstat(now).st_ino for name, now in files.items()}
    with opened_folder(path) as folder:
        _write(folder, _mark_of(folder, inodes))


def unmark_folder(path: str) -> None:
    """Remove the mark of a folder, so that the folder stays."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(path, _NAME))


def marked_files(path: str) -> list[str]:
    """Return the files of a folder that its mark names."""
    with opened_folder(path) as folder:
        mark = _read(folder)
        if mark is None or mark.files is None or mark != _mark_of(folder, mark.files):
            return []
        return [name for name, inode in mark.files.items() if _inode(folder, name) == inode]


def clear_folder(folder: int, path: str) -> None:
    """Delete all files in an open folder that has a mark, and mark it again. An empty folder gets a mark."""
    _must_be_own(folder, path)
    _delete(folder)
    _write(folder, _mark_of(folder, None))


def delete_folder(path: str) -> None:
    """Delete a folder that has a mark. If it holds foreign files, raise ForeignFolder and delete nothing."""
    with opened_folder(path) as folder:
        _must_be_own(folder, path)
        whole = _delete(folder)
    if whole:
        os.rmdir(path)


def delete_marked_folder(path: str) -> None:
    """Delete a folder that has a mark, and leave any other folder alone. After a failure the next run deletes it."""
    try:
        delete_folder(path)
    except (FileNotFoundError, ForeignFolder):
        pass
    except OSError as error:
        _log.warning("%s stays until the next run: %s", path, error)


@contextmanager
def opened_folder(path: str, make: bool = False) -> Iterator[int]:
    """Open a folder, or make it first; ForeignFolder is raised for a symlink and for a file."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(path, PRIVATE)
    try:
        folder = os.open(path, _OPEN)
    except NotADirectoryError:  # the kernel reports a symlink this way too
        reason = "it is a symlink" if os.path.islink(path) else "it is a file"
        raise ForeignFolder(path, reason) from None
    try:
        yield folder
    finally:
        os.close(folder)


def _mark_of(folder: int, files: dict[str, int] | None) -> _Mark:
    return _Mark(_NOTE, os.fstat(folder).st_ino, os.stat("..", dir_fd=folder).st_ino, files)


def _read(folder: int) -> _Mark | None:
    """Return the mark in an open folder, or None if the folder has no valid mark file."""
    try:
        file = os.open(_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(file, "rb") as data:
        try:
            return msgspec.json.decode(data.read(1 << 16), type=_Mark)
        except (msgspec.DecodeError, OSError):
            return None


def _write(folder: int, mark: _Mark) -> None:
    """Replace the mark of an open folder. The mark is durable on return, because data without it would be foreign."""
    with suppress(FileNotFoundError):
        os.unlink(_NAME, dir_fd=folder)
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(_NAME, new, 0o600, dir_fd=folder), "wb") as file:
        file.write(msgspec.json.encode(mark) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _must_be_own(folder: int, path: str) -> None:
    """Raise ForeignFolder if this program may not delete all of an open folder."""
    names = os.listdir(folder)
    if not names or (names == [_NAME] and not os.lstat(_NAME, dir_fd=folder).st_size):
        return  # a process was killed before it wrote the mark
    if _read(folder) != _mark_of(folder, None):
        raise ForeignFolder(path, "it has no mark of penstock, which deletes only folders that it made")
    must_have_no_other(folder, path)


def must_have_no_other(folder: int, path: str) -> None:
    """Raise ForeignFolder if an open folder contains a file that this program does not make."""
    other = _other(folder)
    if other is not None:
        raise ForeignFolder(path, f"{other!r} is in it, which penstock did not make")


def _other(folder: int) -> str | None:
    """Return the first entry below an open folder that this program does not make."""
    for name in sorted(os.listdir(folder)):
        if _is_folder(folder, name):
            with _inner(folder, name) as inner:
                below = _other(inner)
            if below is not None:
                return f"{name}/{below}"
        elif not _is_file(folder, name):
            return name
    return None


def _delete(folder: int) -> bool:
    """Delete the files of this program below an open folder, the mark last; False if any other is there."""
    whole = True
    for name in sorted(os.listdir(folder), key=lambda name: name == _NAME):
        if _is_folder(folder, name):
            with _inner(folder, name) as inner:
                empty = _delete(inner)
            try:
                if empty:
                    os.rmdir(name, dir_fd=folder)
            except OSError:  # a task of a killed backfill still writes to it
                empty = False
            whole = whole and empty
        elif not _is_file(folder, name):
            whole = False
        elif name != _NAME or whole:
            os.unlink(name, dir_fd=folder)
    return whole


def _is_folder(folder: int, name: str) -> bool:
    return _FOLDERS.fullmatch(name) is not None and stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)


def _is_file(folder: int, name: str) -> bool:
    mode = os.lstat(name, dir_fd=folder).st_mode
    return _FILES.fullmatch(name) is not None and (stat.S_ISREG(mode) or stat.S_ISSOCK(mode))


@contextmanager
def _inner(folder: int, name: str) -> Iterator[int]:
    inner = os.open(name, _OPEN, dir_fd=folder)
    try:
        yield inner
    finally:
        os.close(inner)


def _inode(folder: int, name: str) -> int | None:
    try:
        return os.lstat(name, dir_fd=folder).st_ino
    except FileNotFoundError:
        return None
