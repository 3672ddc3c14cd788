"""The pending results of a batch: rows to write, updates of memory, and parts for other partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.cache import Writer
from penstock.mapreduce.fold.feed_rows import FeedChanges
from penstock.mapreduce.group_crossing import Part, TransactionContributions


@dataclass(slots=True)
class Writes:
    """The pending writes of a batch, and the updates of memory after the commit."""

    puts: list[tuple[str, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    new: dict[int, list[bytes]] = field(default_factory=dict)  # by index in `puts`: the keys that have no row yet
    deletes: list[tuple[str, list[bytes]]] = field(default_factory=list)
    during: list[Callable[[Writer], None]] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    changed: bool = False
    planning: bool = False  # a dry run, which only computes the early sets for other partitions
    feeding: bool = False
    fed: list[FeedChanges] = field(default_factory=list)
    held_groups: dict[str, int] = field(default_factory=dict)  # by view: increase of the number of held groups
    kept: dict[str, int] = field(default_factory=dict)  # by table: increase of the number of records in quarantine
    numbered: int = 0  # number of these records that are not older than this batch
    gathered: dict[int, TransactionContributions] = field(
        default_factory=dict
    )  # by number of a view: its contributions to fold
    before: list[Part] | None = None  # the contributions that early sets replace, if they must be kept
    leaving: dict[int, list[Part]] = field(default_factory=dict)  # by partition: the parts for it
    derived: dict[int, list[Part]] = field(default_factory=dict)  # of these, those that follow from rows

    def put(self, db: str, rows: list[tuple[bytes, bytes]], new: list[bytes] | None) -> None:
        """Put these rows, if any. `new` has the keys that have no row yet, or None if they are unknown."""
        if rows:
            if new is not None:
                self.new[len(self.puts)] = new
            self.puts.append((db, rows))

    def write(self, writer: Writer) -> None:
        """Write everything."""
        for place, (db, rows) in enumerate(self.puts):
            writer.put_many(db, rows, new=self.new.get(place))
        for db, keys in self.deletes:
            writer.delete_many(db, keys)
        for step in self.during:
            step(writer)

    def committed(self) -> None:
        """Update memory after the commit of the transaction."""
        for step in self.after:
            step()
