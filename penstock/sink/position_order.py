"""Positions in sinks: parse them from JSON, and compare which of two covers the other.

A position is one number, or with several partitions one number per partition. The positions of a run form a chain: each
number only grows. The chain starts at the position that the former run held. If the former run was killed, its later
positions need not be in the chain, because each run reads the partitions in its own order.
"""

from __future__ import annotations

from penstock.views import Position

__all__ = ["has_all", "joined", "position_of", "width_of"]


def position_of(data: object) -> Position | None:
    """Return the position in decoded JSON, or None if it is none.

    >>> position_of(7), position_of([3, 4]), position_of([3, "4"]), position_of(None)
    (7, (3, 4), None, None)
    """
    if isinstance(data, list):
        return tuple(data) if data and all(_is_number(one) for one in data) else None
    return data if _is_number(data) else None


def has_all(position: Position, other: Position) -> bool:
    """Return whether all changes up to `position` include all changes up to the other one.

    >>> has_all(7, 7), has_all((3, 4), (3, 5)), has_all((4, 5), (3, 5))
    (True, False, True)
    """
    return bool(joined(position, other) == position)


def joined(one: Position, other: Position) -> Position:
    """Return the least position that covers both.

    >>> joined(7, 8), joined((3, 5), (4, 1))
    (8, (4, 5))
    """
    if isinstance(one, int):
        return max(one, other)
    return tuple(max(own) for own in zip(one, other, strict=True))


def width_of(position: Position) -> int:
    """Return the count of numbers in a position, 0 for a single number.

    >>> width_of(7), width_of((3, 4))
    (0, 2)
    """
    return 0 if isinstance(position, int) else len(position)


def _is_number(data: object) -> bool:
    return type(data) is int and data >= 0
