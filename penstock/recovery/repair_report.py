"""The report of a repair: each repaired group with its view, its result before and its result after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.cache import repr_by_fields
from penstock.views import ABSENT


class Mended(Enum):
    """The kind of fault that a group had.

    >>> Mended("tree").why
    'its result stayed; nodes of its tree were not what its contributions make'
    """

    RESULT = "result"
    CONTENT = "content"
    TREE = "tree"
    UNREADABLE = "unreadable"
    REMEMBERED = "remembered"

    @property
    def why(self) -> str:
        """Describe the fault in words."""
        return _WHY[self]


_WHY = {
    Mended.RESULT: "its result was not what its contributions make",
    Mended.CONTENT: "its result stayed; what its row keeps was not what its contributions make",
    Mended.TREE: "its result stayed; nodes of its tree were not what its contributions make",
    Mended.UNREADABLE: "its row was damaged and could not be read",
    Mended.REMEMBERED: "its result stayed; what was remembered of its documents was damaged, and is made anew",
}


@dataclass(frozen=True, slots=True)
class Repaired:
    """One repaired group: its view, its result before and after, and the kind of fault.

    ABSENT stands for a missing row, and before the repair also for an unreadable row. The group is ABSENT if remembered
    emissions were replaced and no group counts any of them.

    >>> Repaired("namecount", "Sam", 1, ABSENT).data()
    {'view': 'namecount', 'group': 'Sam', 'old': 1, 'what': 'result'}
    """

    view: str
    group: Any
    old: Any
    new: Any
    what: Mended = Mended.RESULT

    __repr__ = repr_by_fields

    def data(self) -> dict[str, Any]:
        """Return the repair as a map, without absent values."""
        out = {"view": self.view, "group": self.group, "old": self.old, "new": self.new, "what": self.what.value}
        return {name: value for name, value in out.items() if value is not ABSENT}

    def after(self, earlier: Repaired | None) -> Repaired:
        """Merge this repair with an earlier one of the same group."""
        if earlier is None:
            return self
        kinds = {self.what, earlier.what}
        what = next(kind for kind in _FIRST if kind in kinds)
        return Repaired(self.view, self.group, earlier.old, self.new, what)


_FIRST = (Mended.UNREADABLE, Mended.RESULT, Mended.CONTENT, Mended.TREE, Mended.REMEMBERED)
