"""Copies of a store on disk: made from one snapshot while others write, read back first, then put in place whole.

A copy is a folder with one file, `data.mdb`, and is a store itself. Invariants:

- it is written beside its place, under a name that says that it is not done, and gets its name when every page and
  every row of it was read back from the disk;
- a store's file is replaced only while no process has it open, by a rename; whoever opens it meanwhile waits;
- nothing that is there already is overwritten, unless that was asked for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import BinaryIO

import lmdb

from penstock.cache.errors import PenstockError, StoreMissing
from penstock.cache.files.file_check import Tell, check_file
from penstock.cache.files.folder_mark import clear_folder, opened_folder, sweep_folder
from penstock.cache.lmdb.data_file import DATA
from penstock.cache.lmdb.lmdb_environment import is_open
from penstock.cache.lmdb.lmdb_errors import MORE_FILES, translated
from penstock.cache.lmdb.lmdb_snapshot import LmdbReader
from penstock.cache.lmdb.lmdb_store import open_lmdb
from penstock.cache.messages import shown_size
from penstock.cache.permissions import PRIVATE
from penstock.cache.store.replace_gate import gate, process_that_reads

__all__ = [
    "CopyFailed",
    "beside",
    "built_beside",
    "copy_snapshot",
    "must_have_room",
    "process_with",
    "put_in_place",
    "shrink_file",
    "sync_folder",
    "synced",
]

_BLOCK = 1 << 20


class CopyFailed(PenstockError):
    """A copy that could not be made, or not be put where it was to go.

    >>> print(CopyFailed("backup", "it is not empty", "name a new folder"))
    backup: it is not empty; name a new folder
    """

    def __init__(self, path: str, reason: str, remedy: str) -> None:
        super().__init__(path, reason, remedy)
        self.path = path
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; {self.remedy}"


def copy_snapshot(snap: LmdbReader, target: str, tell: Tell) -> int:
    """Copy what a snapshot sees into a new folder, and read the copy back; its bytes."""
    target = _absolute(target)
    _must_be_free(target, "name a new folder, a copy overwrites nothing")
    with beside(target, target) as folder:
        counts = _write_copy(snap, folder, target, tell)
        check_file(folder, counts, tell)
        size = os.path.getsize(os.path.join(folder, DATA))
        sync_folder(folder)
        os.rename(folder, target)
    sync_folder(os.path.dirname(target))
    return size


def _absolute(path: str) -> str:
    """The path from the root; CopyFailed for a relative one whose working folder is gone."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        step = "go to another folder, or name a path from the root"
        raise CopyFailed(path, "the working folder is gone", step) from None


def put_in_place(copy: str, path: str, tell: Tell) -> int:
    """Make a copy the file of the store at a path, whose owner the caller is; its bytes.

    It is read back where it is put, before it replaces anything.
    """
    source = os.path.join(copy, DATA)
    if not os.path.isfile(source):
        raise StoreMissing(copy)
    with beside(os.path.join(path, "restored"), path) as folder:
        file = os.path.join(folder, DATA)
        _copy_file(source, file, path, tell)
        check_file(folder, None, tell)
        size = os.path.getsize(file)
        other = _replace(path, file)
        if other is not None:
            raise CopyFailed(path, f"process {other} reads it", "end that one, and restore again")
    return size


def shrink_file(path: str, tell: Tell) -> int | None:
    """Write the file of a store anew without its free pages, where no process has it open; its bytes.

    The caller is the store's owner. None where another process has it open, or where it would not become smaller by a
    tenth.
    """
    if process_with(path) is not None:
        return None
    with beside(os.path.join(path, "smaller"), path) as folder:
        store = open_lmdb(path, readonly=True)
        try:
            info = store.info()
            if 10 * info["used"] > 9 * info["bytes"]:
                return None
            with store.read() as snap:
                counts = _write_copy(snap, folder, path, tell)
        finally:
            store.close()
        check_file(folder, counts, tell)
        file = os.path.join(folder, DATA)
        size = os.path.getsize(file)
        return size if _replace(path, file) is None else None


def _replace(path: str, file: str) -> int | None:
    """Put a file in the place of a store's, unless a process has that open: then nothing is done, and it is told."""
    with gate(path, alone=True):
        other = process_with(path)
        if other is None:
            with suppress(FileNotFoundError):
                os.chmod(file, stat.S_IMODE(os.stat(os.path.join(path, DATA)).st_mode))
            os.rename(file, os.path.join(path, DATA))
            sync_folder(path)
        return other


def _write_copy(snap: LmdbReader, folder: str, named: str, tell: Tell) -> dict[str, int]:
    """Write the data file of a snapshot; how many rows each of its databases has."""
    total = snap.used()
    must_have_room(folder, named, total)
    counts = {name: snap.count(name) for name in snap.names()}
    try:
        out, into = os.pipe()
    except OSError as error:
        raise _failed(named, error) from error
    failed: list[lmdb.Error] = []

    def give() -> None:
        try:
            snap.copy_to(into)
        except lmdb.Error as error:
            failed.append(error)
        finally:
            os.close(into)

    giver = threading.Thread(target=give, name="penstock-copy", daemon=True)
    giver.start()
    try:
        with _new_file(os.path.join(folder, DATA)) as file:
            _pass_on(partial(os.read, out, _BLOCK), file, total, tell)
    except OSError as error:
        raise _failed(named, error) from error
    finally:
        os.close(out)  # which ends the giver, where nobody takes any more
        giver.join()
    if failed:
        raise translated(named, failed[0]) from failed[0]
    return counts


def _copy_file(source: str, target: str, named: str, tell: Tell) -> None:
    total = os.path.getsize(source)
    must_have_room(os.path.dirname(target), named, total)
    try:
        with open(source, "rb", buffering=0) as read, _new_file(target) as file:
            _pass_on(partial(read.read, _BLOCK), file, total, tell)
    except OSError as error:
        raise _failed(named, error) from error


def _pass_on(read: Callable[[], bytes], file: BinaryIO, total: int, tell: Tell) -> None:
    """Write all that is read; onto the disk, and out of the system's cache, so that what is read back is from there."""
    done = 0
    while block := read():
        file.write(block)
        done += len(block)
        tell("copying", min(done, total), total)
    file.flush()
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _new_file(name: str) -> BinaryIO:
    return os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def must_have_room(folder: str, named: str, size: int) -> None:
    """CopyFailed where so many bytes are not free on the disk of a folder."""
    about = os.statvfs(folder)
    free = about.f_bavail * about.f_frsize
    if size > free:
        reason = f"the copy takes {shown_size(size)} and {shown_size(free)} are free on that disk"
        raise CopyFailed(named, reason, "free some room, or use another disk")


def _failed(named: str, error: OSError) -> CopyFailed:
    why = os.strerror(error.errno or 0).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return CopyFailed(named, why, "free some room, or use another disk")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return CopyFailed(named, why, MORE_FILES)
    return CopyFailed(named, why, "see that this user may write there, or name another folder")


@contextmanager
def built_beside(target: str) -> Iterator[str]:
    """A folder beside a path where no store is yet: what is in it at the end gets that name, all at once.

    Where the block fails, or the process ends on the way, nothing is there; the next one to this path clears it away.
    """
    target = _absolute(target)
    _must_be_free(target, "name a folder that is not there yet")
    with beside(target, target) as folder:
        yield folder
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, "lock.mdb"))
        sync_folder(folder)
        os.rename(folder, target)
    sync_folder(os.path.dirname(target))


def _must_be_free(target: str, remedy: str) -> None:
    """Raise CopyFailed if a path is anything but an empty folder."""
    if os.path.islink(target) or (os.path.exists(target) and not (os.path.isdir(target) and not os.listdir(target))):
        raise CopyFailed(target, "it is there already and not empty", remedy)


@contextmanager
def beside(target: str, named: str) -> Iterator[str]:
    """A folder of one's own beside a path, for what is to get that name; it is gone at the end.

    It is inside one that is locked, since opening what is in it locks it as any store is. The outer folder has a mark.
    If one is there without a mark, ForeignFolder is raised.
    """
    outer = f"{target}.partial"
    folder = os.path.join(outer, "copy")
    with ExitStack() as stack:
        try:
            os.makedirs(os.path.dirname(os.path.abspath(outer)), exist_ok=True)
            lock = stack.enter_context(opened_folder(outer, make=True))
            if not _alone(lock, outer):
                raise CopyFailed(named, "another process is copying to it", "let that one finish")
            clear_folder(lock, outer)
            os.mkdir(folder, PRIVATE)
        except OSError as error:
            raise _failed(named, error) from error
        stack.callback(sweep_folder, outer)
        yield folder


def _alone(folder: int, path: str) -> bool:
    """Lock an open folder; False if another process has the lock, or has deleted the folder."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(folder), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


def process_with(path: str) -> int | None:
    """A process that has the store at a path open, this one among them; None if none has."""
    return os.getpid() if is_open(path) else process_that_reads(path)


def synced(folder: str) -> None:
    """Have the data file in a folder on the disk, which was written without that and is closed."""
    with open(os.path.join(folder, DATA), "rb") as file:
        os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(path: str) -> None:
    """Have the names in a folder on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
