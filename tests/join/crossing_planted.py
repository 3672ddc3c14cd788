"""Bugs planted where entries and joined rows cross between partitions, each with a seed that finds it."""

from __future__ import annotations

from penstock.testing.inputs.joined_trial import joined, joined_early, layered
from penstock.testing.partitions.partitioned_run import PartitionedFailure
from tests.harness.planting import Bug
from tests.testing.partitioned_planted import finds as finds_in

TRIALS = (joined(), joined_early(), joined(), layered())

BUGS = [
    Bug(
        "a contribution source without the condition value",
        "join.joined_columns:encoded_keys",
        "(values[i] if i >= 0 else others[j])",
        "_part(None)",
    ),
    Bug(
        "a receiver retracts rows by the new projection",
        "join.side_node:applied_sets",
        "changed_entries(before, sets.put())",
        "(sets.put().take(np.zeros(0, np.int64)), sets.put())",
    ),
    Bug(
        "an entry that leaves a condition value stays at its owner",
        "join.side_node:divided_entries",
        "minus.take(went == other)",
        "minus.take(np.zeros(0, np.int64))",
    ),
    Bug(
        "an entry goes to the owner of its key",
        "join.side_node:entry_owners",
        "entries.values()",
        "entries.keys()",
    ),
    Bug(
        "an entry that left is kept here too",
        "join.side_node:divided_entries",
        "plus.take(came == home)",
        "plus",
    ),
    Bug(
        "rows for other partitions are lost if this one has none",
        "join.joined_view:RowInput.fold",
        "self._leaving.items()",
        "(self._leaving.items() if self.own.plus or self.own.deltas else ())",
    ),
    Bug(
        "rows that this partition keeps replace those that came",
        "join.joined_view:RowInput.fold",
        "gathered.minus += self.own.minus",
        "gathered.minus[:] = self.own.minus",
    ),
    Bug(
        "a join runs before the views that are its sides",
        "partitions.exchange.exchange:PartitionExchange.arrange",
        "(join.join.order, join.run)",
        "(-1, join.run)",
    ),
    Bug(
        "a repair compares an index with the documents of its own partition",
        "recovery.repair.side_repair:side_differences",
        "home, (own, reader) in enumerate(parts)",
        "home, (own, reader) in list(enumerate(parts))[:1]",
    ),
]


def finds(seed: int) -> PartitionedFailure | None:
    """Return the failure of a seed, or None."""
    return finds_in(seed, TRIALS)


SEEDS = dict(zip((bug.name for bug in BUGS), (0, 1, 1, 0, 0, 0, 24, 3, 0), strict=True))
"""By name of a bug, a seed that finds it."""
