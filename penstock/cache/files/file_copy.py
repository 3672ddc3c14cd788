"""Copy a store on disk: from one snapshot, beside running writers. The copy is read back before it gets its name.

A copy is a folder with one file, `data.mdb`, and is itself a store. Invariants:

- a copy is written beside its target under the name of an unfinished copy. It gets its name after every page and row
  was read back from the disk;
- a store's file is replaced only by a rename, and only if no process has it open. A process that opens it meanwhile
  waits;
- nothing is overwritten unless the caller asks for it.
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
from penstock.cache.files.folder_mark import clear_folder, delete_marked_folder, opened_folder
from penstock.cache.lmdb.data_file import DATA
from penstock.cache.lmdb.lmdb_environment import is_open
from penstock.cache.lmdb.lmdb_errors import MORE_FILES, translated
from penstock.cache.lmdb.lmdb_store import open_lmdb
from penstock.cache.lmdb.read_snapshot import LmdbReader
from penstock.cache.messages import size_text
from penstock.cache.permissions import PRIVATE
from penstock.cache.store.replacement_lock import gate, process_that_reads

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
    """A copy could not be made, or could not be moved to its target.

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
    """Copy the rows of a snapshot into a new folder, and read the copy back. Return its size in bytes."""
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
    """Return the absolute path. Raise CopyFailed for a relative path if the working folder was deleted."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        step = "go to another folder, or name a path from the root"
        raise CopyFailed(path, "the working folder is gone", step) from None


def put_in_place(copy: str, path: str, tell: Tell, judge: Callable[[str], object] | None = None) -> int:
    """Make a copy the data file of the store at a path. Return its size in bytes.

    The caller holds the writer lock. The copy is read back beside its target before it replaces anything. `judge` gets
    the folder that was read back, and raises an error if its content must not replace the store.
    """
    source = os.path.join(copy, DATA)
    if not os.path.isfile(source):
        raise StoreMissing(copy)
    with beside(os.path.join(path, "restored"), path) as folder:
        file = os.path.join(folder, DATA)
        _copy_file(source, file, path, tell)
        check_file(folder, None, tell)
        if judge is not None:
            judge(folder)
        size = os.path.getsize(file)
        other = _replace(path, file)
        if other is not None:
            raise CopyFailed(path, f"process {other} reads it", "end that one, and restore again")
    return size


def shrink_file(path: str, tell: Tell) -> int | None:
    """Rewrite the file of a store without its free pages. Return its new size in bytes.

    The caller holds the writer lock. Return None if another process has the file open, or if less than a tenth of it is
    free.
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
    """Replace the file of a store. If a process has it open, do nothing and return the id of that process."""
    with gate(path, alone=True):
        other = process_with(path)
        if other is None:
            with suppress(FileNotFoundError):
                os.chmod(file, stat.S_IMODE(os.stat(os.path.join(path, DATA)).st_mode))
            os.rename(file, os.path.join(path, DATA))
            sync_folder(path)
        return other


def _write_copy(snap: LmdbReader, folder: str, named: str, tell: Tell) -> dict[str, int]:
    """Write the data file of a snapshot. Return the number of rows of each database."""
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
        os.close(out)  # this ends the giver if the reader stopped early
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
    """Write all blocks to the disk and drop them from the page cache, so that a later read comes from the disk."""
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
    """Raise CopyFailed if the disk of a folder has fewer free bytes than `size`."""
    about = os.statvfs(folder)
    free = about.f_bavail * about.f_frsize
    if size > free:
        reason = f"the copy takes {size_text(size)} and {size_text(free)} are free on that disk"
        raise CopyFailed(named, reason, "free some room, or use another disk")


def _failed(named: str, error: OSError) -> CopyFailed:
    reason = os.strerror(error.errno or 0).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return CopyFailed(named, reason, "free some room, or use another disk")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return CopyFailed(named, reason, MORE_FILES)
    return CopyFailed(named, reason, "see that this user may write there, or name another folder")


@contextmanager
def built_beside(target: str) -> Iterator[str]:
    """Yield a folder beside a path that has no store. At the end the folder gets that name in one step.

    If the block fails or the process ends, the path stays empty. The next call for this path deletes the remains.
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
    """Raise CopyFailed unless a path is absent or an empty folder."""
    if os.path.islink(target) or (os.path.exists(target) and not (os.path.isdir(target) and not os.listdir(target))):
        raise CopyFailed(target, "it is there already and not empty", remedy)


@contextmanager
def beside(target: str, named: str) -> Iterator[str]:
    """Yield a temporary folder beside a path, and delete it at the end.

    It is inside an outer folder, which is locked: a store that is opened inside locks its own folder. The outer folder
    has a mark. If an outer folder without a mark exists, ForeignFolder is raised.
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
        stack.callback(delete_marked_folder, outer)
        yield folder


def _alone(folder: int, path: str) -> bool:
    """Lock an open folder. Return False if another process has the lock, or has deleted the folder."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(folder), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


def process_with(path: str) -> int | None:
    """Return the id of a process that has the store at a path open, which may be this one. None if no process has."""
    return os.getpid() if is_open(path) else process_that_reads(path)


def synced(folder: str) -> None:
    """Flush a data file in a folder to the disk. It was written without syncs and is closed."""
    with open(os.path.join(folder, DATA), "rb") as file:
        os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(path: str) -> None:
    """Flush the names in a folder to the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
