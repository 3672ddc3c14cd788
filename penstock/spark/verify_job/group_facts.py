"""Facts about groups, sent to the tasks that compare them: contributions, stored rows, and doubts.

Invariants:

- A group and all facts about it go to one task.
- The counts of tables and views are sent with the facts, once.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from zlib import crc32

from penstock.spark.verify_job.tallies import Described, ViewTallies
from penstock.views import View

__all__ = ["SCHEMA", "Fact", "Facts", "Known"]

SCHEMA = "p int, blob binary"
_WAIT = 1 << 17  # facts in memory before they are sent
Known = tuple[str, bytes, list[tuple[Any, ...]]]


class Fact(IntEnum):
    """The kind of a fact about a group. Tasks exchange its number."""

    GIVEN = 0
    """A contribution: the key, its rank, the value, and the ts."""
    SHOWN = 1
    """A row: its result, and the number of its contributions."""
    HELD = 2
    """A doubt: a held document contributed to the group, or its reducer fails."""
    DIFFERENT = 3
    """A doubt: a function yields something else now."""
    COUNT = 4
    """Counts of a table or view: documents read, rows read, documents held, documents with another emission now."""
    TALLY = 5
    """Some contributions, tallied."""


@dataclass(slots=True)
class Facts:
    """Facts in memory, to be sent to the task that compares their group."""

    many: int
    wanted: dict[str, frozenset[bytes]] | None = None
    rows: dict[tuple[str, bytes], list[tuple[Any, ...]]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    counting: dict[str, ViewTallies | None] = field(default_factory=dict)
    n: int = 0

    def add(self, view: str, group: bytes, fact: Fact, *more: Any) -> None:
        """Add a fact about a group."""
        if self.wanted is None or group in self.wanted.get(view, ()):
            self.rows.setdefault((view, group), []).append((fact, *more))
            self.n += 1

    def counting_of(self, view: View, described: Sequence[Described]) -> ViewTallies | None:
        """Return the tallies of a view over all parts of a task, or None if the view can't be tallied."""
        if view.name not in self.counting:
            self.counting[view.name] = ViewTallies.of(view, described)
        return self.counting[view.name]

    @property
    def full(self) -> bool:
        """Test whether the facts should be sent."""
        return self.n + sum(own.size for own in self.counting.values() if own is not None) >= _WAIT

    def count(self, name: str, documents: int = 0, rows: int = 0, held: int = 0, different: int = 0) -> None:
        """Add to the counts of a table or view."""
        known = self.counts.get(name, [0, 0, 0, 0])
        self.counts[name] = [a + b for a, b in zip(known, (documents, rows, held, different), strict=True)]

    def last(self) -> Iterator[Any]:
        """Yield the remaining facts and the counts."""
        if self.wanted is None:
            for name, counts in self.counts.items():
                self.add(name, b"", Fact.COUNT, *counts)
        yield from self.blobs()

    def blobs(self) -> Iterator[Any]:
        """Yield all facts in memory as blobs."""
        import pyarrow as pa

        for name, counting in self.counting.items():
            for group, tally in () if counting is None else counting.tallies():
                self.add(name, group, Fact.TALLY, tally)
        parts: dict[int, list[Known]] = {}
        for (view, group), facts in self.rows.items():
            parts.setdefault(crc32(group) % self.many, []).append((view, group, facts))
        for number, known in sorted(parts.items()):
            data = pickle.dumps(known, pickle.HIGHEST_PROTOCOL)
            arrays = [pa.array([number], pa.int32()), pa.array([data], pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, names=["p", "blob"])
        self.rows, self.n = {}, 0
