"""A lock between processes: no process opens a store's file while another replaces it.

LMDB keeps a lock file beside the data file, and both must belong together. A process with a data file from before a
replacement and a lock file from after it would read and write wrong rows. Invariants:

- opening an environment takes the gate as a shared lock, and replacing a file takes it as an exclusive lock;
- the gate is a lock of the kernel on the folder itself, so it leaves no file behind and ends with its process.
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
    """Lock the store in this folder, exclusively with `alone`."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(folder)


def process_that_reads(path: str) -> int | None:
    """Return the id of another process that has the store in this folder open. None if no process has.

    Call this only while this process does not have the store open. Closing the file in this process would release
    LMDB's own lock.
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
