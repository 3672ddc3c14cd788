"""Choose map sizes that fit the address space. The host may limit it, and all maps of a process share it."""

from __future__ import annotations

import mmap

__all__ = ["LARGEST", "fitting", "room"]

LARGEST = 1 << 40
_FEW, _SMALLER = 32, 1 << 36  # so many maps of the largest size per process, and the size of later maps
_SMALLEST = 1 << 26


def room(size: int) -> bool:
    """Return whether the host gives this process `size` more bytes of address space."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def fitting(size: int, maps: int) -> int:
    """Return a map size that fits beside `maps` others. Only the default size is reduced.

    Many maps get a smaller size, so that 1,000 of them fit into the 128 TiB of address space. If the host refuses this
    size too, the result is halved until it leaves the same amount free for other uses.
    """
    if size != LARGEST:
        return size
    if maps >= _FEW:
        size = _SMALLER
    if room(size):
        return size
    while size > _SMALLEST and not room(2 * size):
        size //= 2
    return size
