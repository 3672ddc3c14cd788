"""A writer that survives the end of the holder: this process opens the store, or connects to the next holder.

Invariants:

- a call returns after its commit, whichever process made it. A call that was cut off raises, and its records may be
  committed or not;
- `renew` waits no longer than an opening may. A caller that reached no holder calls it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from penstock.cache import Closed, StoreInUse
from penstock.remote import HolderLost, HolderSilent, Operation, OperationWriter, RemoteWriter, StoreWriter
from penstock.spout import Remembered, SpoutBatch
from penstock.views import Counts

__all__ = ["LOST", "Loads", "StandbyWriter"]

A = TypeVar("A")
LOST = (HolderLost, HolderSilent, Closed)
"""The errors of a call that the end of the holder cut off."""


class Loads(Protocol):
    """A store that takes the batches of spouts."""

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take the batches of a spout; yield each with its counts after its commit."""
        ...

    def rest(self, sources: Sequence[str], ended: bool = False) -> None:
        """Report that nothing is left to read from source partitions of streams."""
        ...

    def remembered(self, source: str) -> Remembered | None:
        """Return the offset and the spout state that the store has for a source."""
        ...


class StandbyWriter(OperationWriter):
    """The store in this process or at its holder; `reopen` opens it, or connects to its holder."""

    def __init__(self, reopen: Callable[[], StoreWriter]) -> None:
        self._reopen = reopen
        self._writer = reopen()
        self._turn = threading.Lock()

    @property
    def holder(self) -> str | None:
        """The process that holds the store, in words; None if this process does."""
        return self._writer.holder

    def call(self, operation: Operation[A], progress: Callable[..., None] | None = None, /, **arguments: Any) -> A:
        """Perform an operation at the present writer."""
        return operation.call(self._writer, arguments, progress)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take the batches of a spout; yield each with its counts after its commit."""
        return self._writer.load(table, batches, long)

    def renew(self) -> str | None:
        """Open the store, or connect to its next holder, if the last one ended; the reason if neither works yet."""
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
