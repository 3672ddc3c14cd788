"""A reader of saved changes at every partition of a simulated store whose records have tokens.

Each record has a unique number as `token`, and rows are lists of tokens. The reader follows the feed of each partition.
It reads at any moment, even while an early set waits for its batch. Invariants:

- a token is in a result only after a partition has saved its record;
- a result loses a token only after another version of its document has replaced the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine import FeedReader
from penstock.testing.simulator.checks import Finding, demand
from penstock.views import ABSENT

if TYPE_CHECKING:
    from penstock.testing.partitions.simulated_processes import PartitionedMachine

TOKENS = "tokens"
"""The name of the app whose records have tokens."""


class SavedReader:
    """Readers of the saved changes of each partition, with the results that they have read."""

    def __init__(self, world: PartitionedMachine, partitions: int) -> None:
        self._world = world
        self._since: list[int | None] = [None] * partitions
        self._known: list[dict[tuple[str, Any], Any]] = [{} for _ in range(partitions)]

    def look(self) -> None:
        """Read the saved changes since the last call."""
        if self._world.app.name == TOKENS:
            for i in range(len(self._since)):
                demand(self._findings(i))

    def _findings(self, i: int) -> Iterator[Finding]:
        world, known = self._world, self._known[i]
        follower = FeedReader(world.members[i].core, [view.name for view in world.app.views()], self._since[i])
        live = {doc["token"] for _, doc in world.oracle.tables["docs"].living()}
        while follower.more:
            for change in (change for part in follower.step() for change in part):
                where = change.view, change.group
                old, new = (set() if value is ABSENT else set(value) for value in (change.old, change.new))
                said = f"view {change.view!r}, group {change.group!r}, at partition {i}"
                if known.get(where, ABSENT) != change.old:
                    yield Finding("saved", said, f"changes {change.old}, and {known.get(where)} was given before")
                if not new <= world.tokens:
                    yield Finding("saved", said, f"has {new - world.tokens} of records that are not saved")
                if (old - new) & live:
                    yield Finding("saved", said, f"lost {(old - new) & live} of records that are still documents")
                known[where] = change.new
        self._since[i] = follower.since
