"""Rows of a view, and the documents of a chained view.

A row is a tuple of two, so `for key, value in view.items()` and `dict(view.items())` work as expected. Invariants: a
row equals the tuple (key, value), held or not. It has no `__dict__`, so that millions of rows stay small. A tuple can't
have slots, so a held row, which is rare, has its own class.
"""

from __future__ import annotations

from typing import Any

from penstock.cache import repr_of


class Row(tuple[Any, Any]):
    """A group or key, and its result or document. If `held` is true, the value is the last good one, not the current
    one.

    >>> row = Row("Joe", 3)
    >>> row.key, row.value, row.held
    ('Joe', 3, False)
    >>> row == ("Joe", 3)
    True
    >>> Row("Joe", 3, held=True)
    Row(key='Joe', value=3, held=True)

    `final` is true if the group begins with a window, and the watermark has passed its end.
    """

    __slots__ = ()
    __match_args__ = ("key", "value")

    def __new__(cls, key: Any, value: Any, held: bool = False, final: bool = False) -> Row:
        return tuple.__new__(_CLASSES[held, final], (key, value))

    @property
    def key(self) -> Any:
        """The group of a view's row, or the key of a document."""
        return self[0]

    @property
    def value(self) -> Any:
        """The result of the group, or the document."""
        return self[1]

    @property
    def held(self) -> bool:
        """True if the view could not accept a contribution, so the value is the last good one."""
        return False

    @property
    def final(self) -> bool:
        """True if the window of the group is closed."""
        return False

    def __repr__(self) -> str:
        more = "".join(f", {name}=True" for name in ("held", "final") if getattr(self, name))
        return f"Row(key={repr_of(self.key)}, value={repr_of(self.value)}{more})"

    def __reduce__(self) -> tuple[type[Row], tuple[Any, Any, bool, bool]]:
        return Row, (self[0], self[1], self.held, self.final)


class _HeldRow(Row):
    """A row whose value is the last good one."""

    __slots__ = ()

    @property
    def held(self) -> bool:
        return True


class _FinalRow(Row):
    """A row of a closed window."""

    __slots__ = ()

    @property
    def final(self) -> bool:
        return True


class _HeldFinalRow(_HeldRow):
    """A row of a closed window whose value is the last good one."""

    __slots__ = ()

    @property
    def final(self) -> bool:
        return True


_CLASSES: dict[tuple[bool, bool], type[Row]] = {
    (False, False): Row,
    (True, False): _HeldRow,
    (False, True): _FinalRow,
    (True, True): _HeldFinalRow,
}
