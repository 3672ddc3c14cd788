"""Create a store's data file completely, check it before LMDB maps it, and watch it while it is open.

LMDB trusts the file. If it reads a page beyond the end, SIGBUS ends the process. If it writes to a file that was
deleted, the commit is lost. Invariants:

- a store's file gets its name after both meta pages are on the disk, so an empty file is always damage;
- after a file became shorter, no further transaction reads it;
- a commit is acknowledged only if the file still has its name.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from contextlib import suppress

import lmdb

from penstock.cache.errors import Closed, PenstockError, StoreDamaged, StoreMissing, StoreReplaced
from penstock.cache.lmdb.lmdb_errors import MAX_DBS, MAX_READERS, translated
from penstock.cache.lmdb.lmdb_meta import check_last
from penstock.cache.permissions import file_mode, make_private, must_be_own, must_be_plain
from penstock.cache.store.replacement_lock import gate

__all__ = ["DATA", "SCRUB", "DataFile", "check_beginning", "empty_file", "make_file", "open_file"]

DATA, LOCK = "data.mdb", "lock.mdb"
SCRUB = "scrub"
"""The name of the file with the result of the last scrub."""
_HEAD = struct.Struct("=QHHLLLQQ")  # page number, padding, flags, bounds; magic, version, address, size of the map
_DATABASE = struct.Struct("=LHHQQQQQ")  # padding, flags, depth, branches, leaves, overflow pages, entries, root
_LAST = struct.Struct("=QQ")  # the last page, the transaction
_META_SIZE = _HEAD.size + 2 * _DATABASE.size + _LAST.size
_META_PAGE, _MAGIC, _VERSION, _INT_KEYS, _NO_ROOT = 0x08, 0xBEEFC0DE, 1, 0x08, (1 << 64) - 1
_LOOK = 1.0  # seconds between two checks of the file's name by readers


def empty_file(page: int = mmap.PAGESIZE) -> bytes:
    """Return the bytes of an empty store as LMDB writes them: two meta pages of this size."""
    free = _DATABASE.pack(page, _INT_KEYS, 0, 0, 0, 0, 0, _NO_ROOT)
    main = _DATABASE.pack(0, 0, 0, 0, 0, 0, 0, _NO_ROOT)
    heads = [_HEAD.pack(number, 0, _META_PAGE, 0, _MAGIC, _VERSION, 0, 1 << 20) for number in (0, 1)]
    return b"".join((head + free + main + _LAST.pack(1, 0)).ljust(page, b"\0") for head in heads)


def make_file(folder: str, sync: bool, mode: int) -> None:
    """Create the data file of a store in a folder, if there is none. The caller is the only writer."""
    name = os.path.join(folder, DATA)
    if os.path.lexists(name):
        return
    make_private(folder, mode)
    fresh = f"{name}.new"  # a killed process leaves this file, and the next one overwrites it
    must_be_own(fresh, empty_file())
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with gate(folder), os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
        os.fchmod(file.fileno(), file_mode(mode))
        file.write(empty_file())
        file.flush()
        if sync:
            os.fsync(file.fileno())
        os.rename(fresh, name)


def check_beginning(folder: str) -> None:
    """Check the start of the data file.

    Raise StoreDamaged if it is cut within its meta pages. LMDB itself refuses other files.
    """
    must_be_plain(os.path.join(folder, DATA))
    with suppress(PermissionError):  # LMDB reports this, if it needs the file
        must_be_own(os.path.join(folder, LOCK), struct.pack("=L", _MAGIC))
    try:
        with open(os.path.join(folder, DATA), "rb", buffering=0) as file:
            head, size = file.read(_META_SIZE), os.fstat(file.fileno()).st_size
            page: int = _DATABASE.unpack_from(head, _HEAD.size)[0] if len(head) == _META_SIZE else 0
            metas = [head, os.pread(file.fileno(), _META_SIZE, page)]
    except FileNotFoundError:
        raise StoreMissing(folder) from None
    if not size:
        raise _truncated(folder, 0, len(empty_file()))
    if len(head) == _META_SIZE and _HEAD.unpack_from(head)[4] == _MAGIC:
        if size < 2 * page:
            raise _truncated(folder, size, 2 * page)
        for number, meta in enumerate(metas):
            if len(meta) == _META_SIZE:
                check_last(folder, number, _LAST.unpack_from(meta, _META_SIZE - _LAST.size)[0], page)


def _truncated(folder: str, size: int, needed: int) -> StoreDamaged:
    return StoreDamaged(f"{folder}, {DATA}, it was cut to {size} bytes of at least {needed}")


def _place_of(name: str) -> tuple[int, int] | None:
    try:
        about = os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return about.st_dev, about.st_ino


class DataFile:
    """The data file of an open store."""

    def __init__(self, folder: str, had_lock: bool = True) -> None:
        self._folder = folder
        self._name = os.path.join(folder, DATA)
        self._lock_name = os.path.join(folder, LOCK)
        self._file = os.open(self._name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            about = os.fstat(self._file)
            if not had_lock:
                os.chmod(self._lock_name, file_mode(about.st_mode))
            self._lock_place = _place_of(self._lock_name)
        except BaseException:
            self.close()
            raise
        self._place = about.st_dev, about.st_ino
        self._size = about.st_size
        self._next = 0.0

    def check(self) -> None:
        """Raise StoreDamaged if the file became shorter. From time to time also check its name."""
        if self._file < 0:
            raise Closed(f"the store at {self._folder}")
        size = os.lseek(self._file, 0, os.SEEK_END)
        if size < self._size:
            raise _truncated(self._folder, size, self._size)
        self._size = size
        if time.monotonic() > self._next:
            self.check_name()
            self._next = time.monotonic() + _LOOK

    def check_name(self) -> None:
        """Raise StoreReplaced if the name belongs to another file or to none."""
        try:
            place = _place_of(self._name)
        except OSError as error:
            raise translated(self._folder, error) from error
        if place != self._place:
            raise StoreReplaced(self._folder)

    def check_commit(self) -> None:
        """Refuse to acknowledge a commit unless the name still belongs to this file."""
        try:
            self.check_name()
        except StoreReplaced:
            raise
        except PenstockError as error:
            raise PenstockError(f"{error}; the last put may be in the store, so put that again") from error

    def is_replaced(self) -> bool:
        """Return whether the names of the data file and of the lock file both belong to other files or to none.

        If the lock file is the same, the answer is False. The kernel drops all locks of a process on a file when the
        process closes the file once, so that file must not be opened a second time.
        """
        return _place_of(self._name) != self._place and _place_of(self._lock_name) != self._lock_place

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def open_file(
    folder: str, map_size: int, readonly: bool, metasync: bool, sync: bool
) -> tuple[lmdb.Environment, DataFile]:
    """Open the LMDB environment and the data file that it maps. After an error neither is open."""
    try:
        with gate(folder):
            check_beginning(folder)
            had_lock = os.path.exists(os.path.join(folder, LOCK))
            env = lmdb.open(
                folder,
                map_size=map_size,
                readonly=readonly,
                metasync=metasync,
                sync=sync,
                readahead=False,
                create=False,
                max_dbs=MAX_DBS,
                max_readers=MAX_READERS,
                lib_version=0,
            )
            try:
                return env, DataFile(folder, had_lock)
            except BaseException:
                env.close()
                raise
    except (lmdb.Error, OSError) as error:
        raise translated(folder, error) from error
