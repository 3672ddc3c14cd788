"""The settings with which a store is opened."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from penstock.cache import PRIVATE, DefinitionError, Limits, key_text
from penstock.core.feed_log import CHANGES
from penstock.flow import Clock, SystemClock

__all__ = ["Scrubbing", "Settings"]


@dataclass(frozen=True, slots=True)
class Scrubbing:
    """The scrubs of an open store: one every `every` seconds, at `rate` bytes of its file per second.

    >>> Scrubbing(every=3600).rate
    33554432
    """

    every: float = 24 * 3600.0
    rate: float = 32 << 20

    def __post_init__(self) -> None:
        for name in ("every", "rate"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise DefinitionError(f"{name}= of a scrub is {key_text(value)}; write a number above 0")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of an opening: bytes of memory, limits of the work between batches, length of the feed, scrubs."""

    memory: int
    limits: Limits
    changes: int = CHANGES
    mode: int = PRIVATE  # permissions of new files
    scrub: Scrubbing | None = None
    clock: Clock = field(default_factory=SystemClock)  # of a store with streams

    def share(self, partitions: int) -> Self:
        """Return the settings of one of so many partitions, which share memory and the rate of scrubs."""
        scrub = None if self.scrub is None else replace(self.scrub, rate=self.scrub.rate / partitions)
        return replace(self, memory=max(self.memory // partitions, 1), scrub=scrub)
