"""The next generation of a view: it takes part in every batch, as far as it is built.

For a view of a table the gateway knows which documents the generation has processed. A chained generation processes the
rows of its parent view in key order, and of each batch only changes of rows before the next key. Invariant: it writes
nothing to the feed. The switch reads the differences from the rows of both generations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

__all__ = ["HiddenGeneration"]


class _Keyed(Protocol):
    @property
    def key(self) -> bytes: ...
    @property
    def old(self) -> object | None: ...


_Delta = TypeVar("_Delta", bound=_Keyed)


@dataclass(slots=True)
class HiddenGeneration:
    """The progress of a build: it has processed the parent's rows before the key `until`, or all rows if that is None.

    `ahead` counts rows that were added beyond `until` since the last step.
    """

    until: bytes | None = None
    ahead: int = 0

    def covered(self, deltas: list[_Delta]) -> list[_Delta]:
        """Return the changes of rows that the build has processed."""
        until = self.until
        if until is None:
            return deltas
        self.ahead += sum(delta.old is None and delta.key >= until for delta in deltas)
        return [delta for delta in deltas if delta.key < until]

    @staticmethod
    def label(name: str) -> str:
        """Return the name of the generation in the state before its switch."""
        return f"{name}+"
