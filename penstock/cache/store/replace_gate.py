"""Opening a store's file and replacing it exclude each other, across processes.

LMDB keeps a lock file beside the data file, and each must be that of the other: who has one from before a replacement
and one from after it reads, or writes, what isn't there. Invariants:

- an environment is opened inside the gate, together with any others, and a file is replaced inside it alone;
- the gate is a lock of the kernel on the folder itself, so it leaves nothing behind and ends with its holder.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["gate", "process_that_reads"]

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid


@contextmanager
def gate(path: str, alone: bool = False) -> Iterator[None]:
    """The gate of the store in this folder."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(folder)


def process_that_reads(path: str) -> int | None:
    """A process other than this one that has the store in this folder open; None if none has.

    Only while this process has it not open itself: the kernel forgets LMDB's own lock as soon as the file is closed
    anywhere in the process.
    """
    try:
        lock = os.open(os.path.join(path, "lock.mdb"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        raw = fcntl.fcntl(lock, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        kind, _, _, _, pid = _FLOCK.unpack(raw)
        return None if kind == fcntl.F_UNLCK else int(pid)
    finally:
        os.close(lock)
