"""Users who may read and write a store: its folder and files are private, unless `mode=` says otherwise.

Invariants:

- users may open the file of a lock only if they may write: a user who opens it can hold the lock against all others;
- no file of a store is a symlink or a pipe: a symlink leads elsewhere, and an opening of a pipe waits for ever;
- a file that another program made is neither written over nor deleted.
"""

from __future__ import annotations

import os
import stat

from penstock.cache.errors import PenstockError

__all__ = ["PRIVATE", "file_mode", "folder_mode", "lock_mode", "make_private", "must_be_own", "must_be_plain"]

PRIVATE = 0o700
_KINDS = {
    stat.S_IFLNK: "a symlink",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
}


def make_private(path: str, mode: int = PRIVATE) -> None:
    """Make a folder with these permissions; one that is there and empty gets them."""
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.lexists(parent):
        os.makedirs(parent, exist_ok=True)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path) or os.listdir(path) or os.stat(path).st_uid != os.geteuid():
            return
    os.chmod(path, mode)  # the system's mask took some away


def file_mode(mode: int) -> int:
    """The permissions of a file in a folder that has these."""
    return mode & 0o666


def folder_mode(mode: int) -> int:
    """The permissions of a folder whose files have these."""
    return stat.S_IMODE(mode) | (mode & 0o444) >> 2


def lock_mode(mode: int) -> int:
    """Permissions of a lock's file beside files that have these: a class of users that can't write gets none."""
    writers = mode & 0o222
    return writers | writers << 1


def must_be_plain(name: str) -> None:
    """Raise if there is something else than a file under this name."""
    try:
        kind = stat.S_IFMT(os.lstat(name).st_mode)
    except FileNotFoundError:
        return
    if kind != stat.S_IFREG:
        raise PenstockError(
            f"{name} is {_KINDS.get(kind, 'a device')}, and a store has a plain file there; move it away, or choose "
            "another path"
        )


def must_be_own(name: str, beginning: bytes) -> None:
    """Raise if a file under this name does not begin as this program, or LMDB, begins it.

    A process or a machine that stopped while it wrote the file left it short, or full of zeros.
    """
    must_be_plain(name)
    try:
        with open(name, "rb", buffering=0) as file:
            found = file.read(len(beginning))
    except FileNotFoundError:
        return
    if not beginning.startswith(found) and found.strip(b"\0"):
        raise PenstockError(
            f"{name} is a file of another program, and a store has a file of its own there; move it away, or choose "
            "another path"
        )
