"""Rows of a view, and the documents of a view of a view.

A row is a tuple of two, so that `for key, value in view.items()` and `dict(view.items())` are what they look like.
Invariants: a row equals the tuple (key, value), whether held or not; it has no `__dict__`, so that millions are cheap,
and, since a tuple can't have slots, the rare held row is a class of its own.
"""

from __future__ import annotations

from typing import Any

from penstock.cache import repr_of


class Row(tuple[Any, Any]):
    """A group or key, and its result or document; `held` where the value is the last good one, not today's.

    >>> row = Row("Joe", 3)
    >>> row.key, row.value, row.held
    ('Joe', 3, False)
    >>> row == ("Joe", 3)
    True
    >>> Row("Joe", 3, held=True)
    Row(key='Joe', value=3, held=True)
    """

    __slots__ = ()
    __match_args__ = ("key", "value")

    def __new__(cls, key: Any, value: Any, held: bool = False) -> Row:
        return tuple.__new__(_HeldRow if held else Row, (key, value))

    @property
    def key(self) -> Any:
        """The group of a view's row, the key of a table's."""
        return self[0]

    @property
    def value(self) -> Any:
        """The result of the group, or the document."""
        return self[1]

    @property
    def held(self) -> bool:
        """Whether something that should count could not be taken, so that the value is the last good one."""
        return False

    def __repr__(self) -> str:
        held = ", held=True" if self.held else ""
        return f"Row(key={repr_of(self.key)}, value={repr_of(self.value)}{held})"

    def __reduce__(self) -> tuple[type[Row], tuple[Any, Any, bool]]:
        return Row, (self[0], self[1], self.held)


class _HeldRow(Row):
    """A row that is held."""

    __slots__ = ()

    @property
    def held(self) -> bool:
        return True
