"""Protocols of the parts that a core works with and higher rooms implement: builds, exchanges, refills, listeners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.cache import Reader, Writer
from penstock.core.metadata.catalog import BuildState
from penstock.core.metadata.store_state import StateRow
from penstock.join import JoinNode
from penstock.mapreduce import KeyRanges, ViewNode, Watch, Writes

__all__ = ["Exchange", "Listener", "RefillRun", "ViewBuild"]


class ViewBuild(Protocol):
    """Builds the views that changed, in steps between batches."""

    built: BuildState
    """The progress that the last step stored."""
    owed: int
    """Rows to process before others write again: as many came since the last step."""

    @property
    def waits(self) -> bool:
        """Return True if a switch waits for other partitions: of all views, or of the sides of a join."""
        ...

    @property
    def waits_for(self) -> str:
        """Return the join whose sides wait to be switched; "" for the switch of all views."""
        ...

    def step(self, limit: int) -> None:
        """Take the next step, of about so many documents or rows."""
        ...

    def switch(self) -> None:
        """Switch the sides of a join that are complete, or make all that was built visible to readers."""
        ...


class Exchange(Protocol):
    """Exchanges productions between a core, which is one partition of several, and the other partitions."""

    partition: int
    """The number of this partition."""
    ranges: KeyRanges
    """The ranges of hashes that partitions own."""

    def recall(self, reader: Reader, state: StateRow) -> None:
        """Read from the store all that memory keeps."""
        ...

    def arrange(self, views: Sequence[ViewNode], joins: Sequence[JoinNode]) -> None:
        """Make these the views that fold contributions, and the joins that run between them, with their sides."""
        ...

    def begin(self, state: StateRow) -> None:
        """Prepare to announce the last batch to other partitions, after a writer opened this one."""
        ...

    def fold(self, reader: Reader, writes: Writes) -> None:
        """Fold the contributions that a transaction gathered."""
        ...

    def save(self, writer: Writer, writes: Writes, state: StateRow) -> StateRow:
        """Save the productions of a transaction for other partitions, and return the state after it."""
        ...


class RefillRun(Protocol):
    """A refill under way, which reads another store."""

    def close(self) -> None:
        """Close the other store."""
        ...


class Listener(Watch, Protocol):
    """Hears the contributions to a view while a repair rebuilds it."""

    lost: bool
    """True if it may have missed contributions."""
