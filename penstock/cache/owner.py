"""One writer: who holds the lock on `<path>/owner` may write the store at `path`, and nobody else.

The lock is the kernel's (flock), so the death of its holder frees it, whatever killed it. What the file says is for
people, and counts only while the lock is held. Invariants:

- the file is never deleted: a lock on a deleted file would exclude nobody;
- a forked child closes what it inherited: it does not own the store, nor keep it owned when its parent is dead.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Self
from weakref import WeakSet

from penstock.cache.errors import PenstockError, StoreInUse

__all__ = ["Owner", "owner_of", "owner_pid"]

_FILE = "owner"
_LOOK = 0.02  # seconds after which whoever only looked at the lock has let go of it


class Owner:
    """The right to write the store at a path, from here until `close`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path, Owner(path):
    ...     Owner(path)
    Traceback (most recent call last):
    penstock.cache.errors.StoreInUse: ...
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._fd = self._take()
        _held.add(self)

    def _take(self) -> int:
        name = os.path.join(self._path, _FILE)
        try:
            os.makedirs(self._path, exist_ok=True)
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PenstockError(
                f"can't write {name}: {error.strerror}; give this user the right to write there, or choose another path"
            ) from error
        try:
            if not _locked(fd, fcntl.LOCK_EX):
                time.sleep(_LOOK)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._say(fd)
        except BlockingIOError:
            holder = _holder(Path(name))
            os.close(fd)
            raise StoreInUse(self._path, holder) from None
        except OSError as error:
            os.close(fd)
            raise PenstockError(f"can't lock {name}: {error.strerror}; choose a path on a local disk") from error
        return fd

    @staticmethod
    def _say(fd: int) -> None:
        """Who holds it, for the error that another one will get."""
        about = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
            "program": sys.argv[0] or "python",
        }
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(about).encode(), 0)

    def close(self) -> None:
        """Let others write. Closing twice is nothing."""
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


def owner_of(path: str | os.PathLike[str]) -> str | None:
    """Who may write the store at a path now, in words; None: nobody.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     with Owner(path):
    ...         before = owner_of(path)
    ...     before is not None, owner_of(path)
    (True, None)
    """
    name = os.path.join(os.fspath(path), _FILE)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _locked(fd, fcntl.LOCK_SH) else _holder(Path(name))
    finally:
        os.close(fd)


def owner_pid(path: str | os.PathLike[str]) -> int | None:
    """The process of this machine that may write the store at a path now; None where nobody does, or nobody says who.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path, Owner(path):
    ...     owner_pid(path) == os.getpid()
    True
    """
    name = os.path.join(os.fspath(path), _FILE)
    if owner_of(path) is None:
        return None
    try:
        about = json.loads(Path(name).read_text())
        return int(about["pid"]) if about["host"] == socket.gethostname() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: Path) -> str:
    """The holder in words; it may not have said yet who it is."""
    try:
        about = json.loads(file.read_text())
        return f"process {about['pid']} on {about['host']} since {about['since']} ({about['program']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


_held: WeakSet[Owner] = WeakSet()


def _disown() -> None:
    for owner in list(_held):
        owner.close()


os.register_at_fork(after_in_child=_disown)
