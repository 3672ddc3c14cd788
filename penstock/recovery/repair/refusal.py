"""Why a view can't be repaired, or not yet."""

from __future__ import annotations

from penstock.cache import PenstockError

__all__ = ["Again", "NotComplete", "Unreadable"]


class NotComplete(PenstockError):
    """A view was to be repaired that is being built.

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
    """Rows of the view that a view is on can't be read."""

    def __init__(self, keys: list[bytes]) -> None:
        super().__init__(keys)
        self.keys = keys


class Again(Exception):
    """What was heard is not all there was."""
