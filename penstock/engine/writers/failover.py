"""A writer of a store that continues with the next holder when the process that holds the store ends.

Invariants:

- a call returns after its commit, whichever process made it;
- a call that no holder answered is made again. Records that come again change nothing;
- a call that ends several holders one after the other is an error, so that a fatal call is not repeated for ever.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from penstock.cache import Closed, Tell
from penstock.generations import Refilled
from penstock.remote import HolderLost, Operation, OperationWriter, RemoteWriter, StoreWriter
from penstock.spout import SpoutBatch
from penstock.views import Counts

__all__ = ["Failover"]

A = TypeVar("A")
_LOSSES = 5  # holders that one call may lose without an answer


class Failover(OperationWriter):
    """The store in this process or at its holder; `reopen` opens it, or connects to its holder."""

    def __init__(self, reopen: Callable[[], StoreWriter]) -> None:
        self._reopen = reopen
        self._writer = reopen()
        self._closed = False

    @property
    def holder(self) -> str | None:
        """The process that holds the store, as text; None if this process holds it."""
        return self._writer.holder

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Put batches of a spout; yield each with its counts once it is durable."""
        source, unanswered, losses = iter(batches), deque[SpoutBatch](), 0

        def given() -> Iterator[SpoutBatch]:
            yield from tuple(unanswered)
            for batch in source:
                unanswered.append(batch)
                yield batch

        while True:
            try:
                with closing(self._writer.load(table, given(), long)) as loaded:
                    for batch, counts in loaded:
                        unanswered.popleft()
                        losses = 0
                        yield batch, counts
                return
            except (HolderLost, Closed) as error:
                losses += self._fail_over(error, losses)

    def refill(self, folder: str | os.PathLike[str], progress: Tell | None = None) -> Refilled:
        """Take over the tables in this folder. A second call would find the folder taken: this one is made once."""
        return self._writer.refill(folder, progress)

    def close(self) -> None:
        """Let go of the store, or of its holder."""
        self._closed = True
        self._writer.close()

    def call(self, operation: Operation[A], progress: Callable[..., None] | None = None, /, **arguments: Any) -> A:
        """Perform an operation, again at each next holder until one answers."""
        losses = 0
        while True:
            try:
                return operation.call(self._writer, arguments, progress)
            except (HolderLost, Closed) as error:
                losses += self._fail_over(error, losses)

    def _fail_over(self, error: HolderLost | Closed, losses: int) -> int:
        """Connect to the next holder, or open the store here; return 1 if the former one ended without an answer."""
        lost = isinstance(error, HolderLost)
        if self._closed or not isinstance(self._writer, RemoteWriter) or losses + lost >= _LOSSES:
            raise error
        self._writer.close()
        self._writer = self._reopen()
        return lost
