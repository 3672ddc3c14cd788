"""Return memory to the system that only holds copies of the disk, or that is free."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

__all__ = ["drop_mapped", "trim_heap"]

_MADV_DONTNEED = 4
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def drop_mapped(file: str) -> None:
    """Drop this process's pages of a file that is mapped read-only. A later read fetches them again."""
    if _libc is None:
        return
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(f" {file}"):
            first, last = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
            _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED)


def trim_heap() -> None:
    """Return free heap memory to the system. Only glibc supports this."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)
