"""Errors that stop a repair, or start it again."""

from __future__ import annotations

from penstock.cache import PenstockError

__all__ = ["NotComplete", "RebuildIncomplete", "Unreadable"]


class NotComplete(PenstockError):
    """An error for the repair of a view that is being built.

    >>> print(NotComplete("namecount"))
    view 'namecount' is being built from the documents, and what readers see of it until then is fixed; run penstock \
migrate to its end, then this again
    """

    def __init__(self, view: str) -> None:
        super().__init__(view)
        self.view = view

    def __str__(self) -> str:
        return (
            f"view {self.view!r} is being built from the documents, and what readers see of it until then is fixed; "
            "run penstock migrate to its end, then this again"
        )


class Unreadable(Exception):
    """A signal: rows of the parent view can't be read."""

    def __init__(self, keys: list[bytes]) -> None:
        super().__init__(keys)
        self.keys = keys


class RebuildIncomplete(Exception):
    """A signal: the spool of arriving contributions is incomplete."""
