"""Set and check the permissions of a store: its folder and files are private, unless `mode=` says otherwise.

Invariants:

- users can open a lock file only if they may write: any user who can open it can hold the lock against all others;
- no file of a store is a symlink or a pipe: a symlink leads elsewhere, and opening a pipe blocks for ever;
- a file of another program is neither overwritten nor deleted.
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
    """Make a folder with these permissions. An existing empty folder of this user gets them too."""
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.lexists(parent):
        os.makedirs(parent, exist_ok=True)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path) or os.listdir(path) or os.stat(path).st_uid != os.geteuid():
            return
    os.chmod(path, mode)  # the umask removed some of the bits


def file_mode(mode: int) -> int:
    """Return the permissions of a file in a folder with these permissions."""
    return mode & 0o666


def folder_mode(mode: int) -> int:
    """Return the permissions of a folder whose files have these permissions."""
    return stat.S_IMODE(mode) | (mode & 0o444) >> 2


def lock_mode(mode: int) -> int:
    """Return the permissions of a lock file beside files with these.

    Users who can't write the files can't open the lock.
    """
    writers = mode & 0o222
    return writers | writers << 1


def must_be_plain(name: str) -> None:
    """Raise PenstockError if the name belongs to anything but a plain file."""
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
    """Raise PenstockError if a file of this name does not begin with these bytes.

    A file that is shorter, or full of zeros, passes: its writer was stopped while it wrote.
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
