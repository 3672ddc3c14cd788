"""Positions as sinks keep them: out of JSON, and which of two has all that the other one has.

A position is one number, or of a store of several partitions the numbers of all. Within a run they are a chain, each
number of which only grows, and it begins where the run before it held. What that one gave beyond, until it was killed,
need not lie on it: each run reads the partitions in an order of its own.
"""

from __future__ import annotations

from penstock.views import Position

__all__ = ["has_all", "joined", "position_of", "width_of"]


def position_of(data: object) -> Position | None:
    """The position that JSON has; None where that is none.

    >>> position_of(7), position_of([3, 4]), position_of([3, "4"]), position_of(None)
    (7, (3, 4), None, None)
    """
    if isinstance(data, list):
        return tuple(data) if data and all(_is_number(one) for one in data) else None
    return data if _is_number(data) else None


def has_all(position: Position, other: Position) -> bool:
    """Whether who was given all up to a position was given all up to the other one.

    >>> has_all(7, 7), has_all((3, 4), (3, 5)), has_all((4, 5), (3, 5))
    (True, False, True)
    """
    return bool(joined(position, other) == position)


def joined(one: Position, other: Position) -> Position:
    """The least position that has all that both have.

    >>> joined(7, 8), joined((3, 5), (4, 1))
    (8, (4, 5))
    """
    if isinstance(one, int):
        return max(one, other)
    return tuple(max(own) for own in zip(one, other, strict=True))


def width_of(position: Position) -> int:
    """Of how many numbers it is, 0 where it is one alone.

    >>> width_of(7), width_of((3, 4))
    (0, 2)
    """
    return 0 if isinstance(position, int) else len(position)


def _is_number(data: object) -> bool:
    return type(data) is int and data >= 0
