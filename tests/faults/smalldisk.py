"""A disk that is soon full: a small tmpfs, mounted directly with the right to do so, or in a namespace of its own.

If neither is permitted, a limit on the size of files replaces it. The system reports that limit with another error. The
last lines of a test run report the replacement.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from tests.cache.processes import in_fork

ROOM, MORE = 1 << 19, 64 << 20
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000


class Disk(Enum):
    """The way in which a test gets a small disk."""

    MOUNTED = "a tmpfs"
    NAMESPACE = "a tmpfs in a namespace of its own"
    LIMITED = "a limit on the size of files"


def possible(folder: Path) -> Disk:
    """Return the best way that works here. Each way is tried in a process of its own."""
    for way in (Disk.MOUNTED, Disk.NAMESPACE):
        place = folder / way.name
        if in_fork(lambda way=way, place=place: _tried(way, place)) == "True":
            return way
    return Disk.LIMITED


def _tried(way: Disk, path: Path) -> bool:
    try:
        with small_disk(way, path):
            return os.statvfs(path).f_blocks * os.statvfs(path).f_frsize == ROOM
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def small_disk(way: Disk, path: Path) -> Iterator[Callable[[], object]]:
    """Mount a small disk at a path, for a process that ends soon. Yield the function that makes room on it."""
    path.mkdir()
    if way is Disk.LIMITED:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        return
    if way is Disk.NAMESPACE:
        _leave()
    _mount(path, f"size={ROOM}")
    try:
        yield lambda: _mount(path, f"remount,size={MORE}")
    finally:
        subprocess.run(["umount", path], check=True, capture_output=True)


def _mount(path: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True, capture_output=True)


def _leave() -> None:
    """Enter fresh namespaces of users and mounts, as root of them."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "no namespace of its own")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)
