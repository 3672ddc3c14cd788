"""How much address space a map may take: the host may bound it, and all maps of a process share it."""

from __future__ import annotations

import mmap

__all__ = ["LARGEST", "fitting", "room"]

LARGEST = 1 << 40
_FEW, _SMALLER = 32, 1 << 36  # maps of the largest size in a process, and the size of those after them
_SMALLEST = 1 << 26


def room(size: int) -> bool:
    """Whether the host lets this process have so much more address space."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def fitting(size: int, maps: int) -> int:
    """This size of a map; beside many maps the largest is smaller, and 1,000 fit into the 128 TiB that there are.

    Where the host refuses that too, it is smaller still and leaves as much again for all else.
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
