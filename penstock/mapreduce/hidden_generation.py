"""A view whose generation readers don't see yet: it takes part in every batch, as far as it was told what was before.

A view of a table leaves that to the gateway, which knows which documents it was told of. One of a view that readers do
see is told the rows of that view in the order of their keys, and of changes those of rows before the one that comes
next. Invariant: nothing of it is fed; what differs when it takes its place is read from the rows of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

__all__ = ["Building"]


class _Keyed(Protocol):
    @property
    def key(self) -> bytes: ...
    @property
    def old(self) -> object | None: ...


_Delta = TypeVar("_Delta", bound=_Keyed)


@dataclass(slots=True)
class Building:
    """How far a view is built: with the rows of its source before the key `until`; None: with all there are.

    `ahead` is how many rows came since the last step that the next ones have to tell.
    """

    until: bytes | None = None
    ahead: int = 0

    def told(self, deltas: list[_Delta]) -> list[_Delta]:
        """The changes of rows that the view was told of."""
        until = self.until
        if until is None:
            return deltas
        self.ahead += sum(delta.old is None and delta.key >= until for delta in deltas)
        return [delta for delta in deltas if delta.key < until]

    @staticmethod
    def label(name: str) -> str:
        """What a view is called in the state until readers see it."""
        return f"{name}+"
