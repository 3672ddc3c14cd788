"""The interface of the clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The clock of a store with streams."""

    def now(self) -> int:
        """Return the reading, in microseconds since 1970."""
        ...

    def wake_at(self, when: int | None) -> None:
        """Note the next time at which the clock alone changes a watermark; None if there is none."""
        ...
