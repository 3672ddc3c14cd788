"""The changes feed: one change tells the view, the group, its old and new result, and the position.

Invariants:

- each commit gives at most one change per group, and none if the result stays the same;
- changes come in the order of positions. Changes of one position have no meaningful order;
- the rows of `initial`, with all later changes applied, are the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

import msgspec

from penstock.cache import PenstockError, repr_by_fields


class Absent:
    """The type of ABSENT, the result of a group without a row. It is false, and equal only to itself.

    >>> bool(ABSENT), ABSENT
    (False, ABSENT)
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
"""The result of a group without a row."""


Position = Any
"""A position of a store: the number of its last commit. With several partitions, a tuple of one number per partition.

Users treat it as opaque. In JSON a tuple becomes a list.
"""


class Change(msgspec.Struct, frozen=True):
    """A changed group of a view: its result before and after, and the position of the commit.

    >>> change = Change("namecount", "Joe", ABSENT, 1, 7)
    >>> change.new, change.data()
    (1, {'view': 'namecount', 'group': 'Joe', 'new': 1, 'position': 7})
    """

    view: str
    group: Any
    old: Any
    new: Any
    position: Position

    __repr__ = repr_by_fields

    def data(self) -> dict[str, Any]:
        """Return the change as a map, without absent results."""
        out = {"view": self.view, "group": self.group, "old": self.old, "new": self.new, "position": self.position}
        return {name: value for name, value in out.items() if value is not ABSENT}


@dataclass(slots=True, eq=False)
class Changes(Sequence[Change]):
    """A sequence of changes, stored as columns.

    >>> own = Changes()
    >>> own.add("namecount", ["Joe", "Sue"], [ABSENT, 1], [1, 2], 7)
    >>> len(own), own[1].new, [change.group for change in own], own.groups
    (2, 2, ['Joe', 'Sue'], ['Joe', 'Sue'])
    """

    views: list[str] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    old: list[Any] = field(default_factory=list)
    new: list[Any] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)

    __repr__ = repr_by_fields

    @classmethod
    def of(cls, changes: Iterable[Change]) -> Changes:
        """Collect changes."""
        out = cls()
        for one in changes:
            out.add(one.view, (one.group,), (one.old,), (one.new,), one.position)
        return out

    def add(self, view: str, groups: Sequence[Any], old: Sequence[Any], new: Sequence[Any], position: Position) -> None:
        """Append changes of one view and one position."""
        self.views += [view] * len(groups)
        self.groups += groups
        self.old += old
        self.new += new
        self.positions += [position] * len(groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Change]:
        return map(Change, self.views, self.groups, self.old, self.new, self.positions)

    @overload
    def __getitem__(self, place: int) -> Change: ...
    @overload
    def __getitem__(self, place: slice) -> Changes: ...

    def __getitem__(self, place: int | slice) -> Change | Changes:
        if isinstance(place, slice):
            columns = (self.views, self.groups, self.old, self.new, self.positions)
            return Changes(*(column[place] for column in columns))
        return Change(self.views[place], self.groups[place], self.old[place], self.new[place], self.positions[place])


def position_text(position: Position) -> str:
    """Return a position as text that users read and type.

    >>> position_text(17), position_text((3, 4))
    ('17', '[3, 4]')
    """
    return str(position if isinstance(position, int) else list(position))


class PositionExpired(PenstockError):
    """The feed no longer has all changes since the requested position.

    >>> print(PositionExpired(3, 17))
    the feed no longer has all changes since position 3; the oldest that can be followed from is 17: read the views \
first, with changes(…, initial=True)
    """

    def __init__(self, asked: Position, oldest: Position) -> None:
        super().__init__(asked, oldest)
        self.asked = asked
        self.oldest = oldest

    def __str__(self) -> str:
        return (
            f"the feed no longer has all changes since position {position_text(self.asked)}; the oldest that can be "
            f"followed from is {position_text(self.oldest)}: read the views first, with changes(…, initial=True)"
        )


class PositionAhead(PenstockError):
    """The store has not reached the requested position.

    >>> print(PositionAhead(9, 4))
    the store is at position 4, and changes since 9 were asked for; the position is of another store, or of one that \
was restored since
    """

    def __init__(self, asked: Position, position: Position) -> None:
        super().__init__(asked, position)
        self.asked = asked
        self.position = position

    def __str__(self) -> str:
        return (
            f"the store is at position {position_text(self.position)}, and changes since {position_text(self.asked)} "
            "were asked for; the position is of another store, or of one that was restored since"
        )
