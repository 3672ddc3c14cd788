"""Lock a store for one writer: only the process with the lock on `<path>/owner` may write the store at `path`.

The lock is the kernel's (flock), so it ends with its process. The content of the file is for messages only, and is
valid only while the lock is held. Invariants:

- the file is never deleted: a lock on a deleted file would exclude no other process;
- only users who may write the store can open the file, since opening is enough to lock it;
- a forked child closes the inherited lock: it is not the writer, and must not keep the lock after its parent's death.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

from penstock.cache.errors import PenstockError, StoreInUse
from penstock.cache.lmdb.data_file import DATA
from penstock.cache.lmdb.lmdb_errors import too_many_files
from penstock.cache.permissions import PRIVATE, lock_mode, make_private, must_be_own

__all__ = ["WriterLock", "writer_name", "writer_pid"]

_FILE = "owner"
_BEGINNING = b'{"pid": '
_LOOK_AT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe would block
_LOOK = 0.02  # seconds after which a process that only tested the lock has released it


class WriterLock:
    """The writer lock of the store at a path, held until `close`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path, WriterLock(path):
    ...     WriterLock(path)
    Traceback (most recent call last):
    penstock.cache.errors.StoreInUse: ...
    """

    def __init__(self, path: str | os.PathLike[str], mode: int = PRIVATE) -> None:
        self._path = os.fspath(path)
        self._mode = mode
        self._fd = self._take()
        _held.add(self)

    def _take(self) -> int:
        name = os.path.join(self._path, _FILE)
        try:
            fd = self._opened(name)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise PenstockError(too_many_files(self._path)) from error
            raise PenstockError(
                f"can't write {name}: {error.strerror}; give this user the right to write there, or choose another path"
            ) from error
        try:
            if not _locked(fd, fcntl.LOCK_EX):
                time.sleep(_LOOK)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._say(fd)
        except BlockingIOError:
            holder = _holder(fd)
            os.close(fd)
            raise StoreInUse(self._path, holder) from None
        except OSError as error:
            os.close(fd)
            raise PenstockError(f"can't lock {name}: {error.strerror}; choose a path on a local disk") from error
        return fd

    def _opened(self, name: str) -> int:
        """Open or make the lock file. Users who may read the file but not write it lose the right to read."""
        make_private(self._path, self._mode)
        must_be_own(name, _BEGINNING)
        with suppress(FileExistsError):
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.fchmod(fd, lock_mode(self._mode_of_data()))
            return fd
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        about = os.fstat(fd)
        own = stat.S_IMODE(about.st_mode)
        if own != lock_mode(own) and about.st_uid == os.geteuid():
            os.fchmod(fd, lock_mode(own))
        return fd

    def _mode_of_data(self) -> int:
        try:
            return os.lstat(os.path.join(self._path, DATA)).st_mode
        except FileNotFoundError:
            return self._mode

    @staticmethod
    def _say(fd: int) -> None:
        """Write the holder's description, which other processes show in their errors."""
        about = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
            "program": sys.argv[0] or "python",
        }
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(about).encode(), 0)

    def close(self) -> None:
        """Release the lock. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _held.discard(self)
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


def writer_name(path: str | os.PathLike[str]) -> str | None:
    """Describe the process that may write the store at a path now. Return None if there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     with WriterLock(path):
    ...         before = writer_name(path)
    ...     before is not None, writer_name(path)
    (True, None)
    """
    name = os.path.join(os.fspath(path), _FILE)
    try:
        fd = os.open(name, _LOOK_AT)
    except OSError:
        return None
    try:
        return None if _locked(fd, fcntl.LOCK_SH) else _holder(fd)
    finally:
        os.close(fd)


def writer_pid(path: str | os.PathLike[str]) -> int | None:
    """Return the id of the process on this machine that may write the store at a path now. None if it is absent or
    unknown.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path, WriterLock(path):
    ...     writer_pid(path) == os.getpid()
    True
    """
    try:
        fd = os.open(os.path.join(os.fspath(path), _FILE), _LOOK_AT)
    except OSError:
        return None
    try:
        if _locked(fd, fcntl.LOCK_SH):
            return None
        about = _lock_text(fd)
        own_host = about is not None and about["host"] == socket.gethostname()
        return _locker(fd) or (int(about["pid"]) if about is not None and own_host else None)
    finally:
        os.close(fd)


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(fd: int) -> str:
    """Describe the process that has the lock. The content of the file is used only if that process wrote it."""
    about, pid = _lock_text(fd), _locker(fd)
    if about is not None and pid in (None, about["pid"]):
        return f"process {about['pid']} on {about['host']} since {about['since']} ({about['program']})"
    if pid is None:
        return "another process"
    with suppress(OSError, IndexError):
        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        return f"process {pid} on {socket.gethostname()} ({program})"
    return f"process {pid} on {socket.gethostname()}"


def _lock_text(fd: int) -> dict[str, Any] | None:
    """Return the content of the lock file. It may belong to a former holder, or be incomplete."""
    try:
        about = json.loads(os.pread(fd, 1 << 12, 0))
        return {"pid": int(about["pid"]), **{name: str(about[name]) for name in ("host", "since", "program")}}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _locker(fd: int) -> int | None:
    """Return the process that holds the lock of this file, as /proc/locks lists it. None if it is not listed."""
    about = os.fstat(fd)
    device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            match line.split():
                case [_, "FLOCK", _, _, pid, at, *_] if at == device and int(pid) > 0:
                    return int(pid)
    return None


_held: WeakSet[WriterLock] = WeakSet()


def _disown() -> None:
    for owner in list(_held):
        owner.close()


os.register_at_fork(after_in_child=_disown)
