"""A writer that outlives whoever holds the store: when that one ends, this process takes the store over, or follows
whoever did.

Invariants:

- what a call returned is committed, whoever held the store then; a call that was cut off raises, and what it gave may
  be in or not;
- `renew` never waits longer than an opening may: who could reach nobody asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, Self

from penstock.cache import Closed, StoreInUse
from penstock.remote.remote_writer import RemoteWriter
from penstock.remote.writer_protocol import HolderLost, HolderSilent, Writer
from penstock.spout import Remembered, SpoutBatch
from penstock.views import Counts

__all__ = ["LOST", "Loads", "StandbyWriter"]

LOST = (HolderLost, HolderSilent, Closed)
"""What a call raises that was cut off by the end of whoever held the store."""


class Loads(Protocol):
    """What takes the batches of spouts."""

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches; gives each with its counts as it is durable."""
        ...

    def remembered(self, source: str) -> Remembered | None:
        """Where the store stands in a source."""
        ...


class StandbyWriter:
    """Whoever holds the store; `reopen` opens it, or reaches its holder."""

    def __init__(self, reopen: Callable[[], Writer]) -> None:
        self._reopen = reopen
        self._writer = reopen()
        self._turn = threading.Lock()

    @property
    def holder(self) -> str | None:
        """The process that holds the store, in words; None where this one does."""
        return self._writer.holder

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches; gives each with its counts as it is durable."""
        return self._writer.load(table, batches, long)

    def remembered(self, source: str) -> Remembered | None:
        """Where the store stands in a source."""
        return self._writer.remembered(source)

    def settle(self) -> None:
        """Wait until all that was taken before shows in every view."""
        self._writer.settle()

    def renew(self) -> str | None:
        """See to it that somebody holds the store, this process if need be; why nobody can be reached yet."""
        with self._turn:
            if not isinstance(self._writer, RemoteWriter) or not self._writer.lost:
                return None
            try:
                self._writer = self._reopen()
            except (*LOST, StoreInUse) as error:
                return str(error)
            return None

    def close(self) -> None:
        """Let go of the store, or of its holder."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
