"""What a batch leaves: rows to be written, what memory does then, and what other partitions are owed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.cache import Writer
from penstock.mapreduce.fold.feed_rows import Fed
from penstock.mapreduce.group_crossing import Gathered, Part
from penstock.views import Row


@dataclass(slots=True)
class Writes:
    """What a batch will write, and what memory does once it is committed."""

    puts: list[tuple[str, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    new: dict[int, list[bytes]] = field(default_factory=dict)  # by place in `puts`: the keys without a row so far
    deletes: list[tuple[str, list[bytes]]] = field(default_factory=list)
    during: list[Callable[[Writer], None]] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    changed: bool = False
    planning: bool = False  # nothing of it will be: only what others are to be told early is asked
    feeding: bool = False
    fed: list[Fed] = field(default_factory=list)
    held_groups: dict[str, int] = field(default_factory=dict)  # by view: how many more groups are held than before
    kept: dict[str, int] = field(default_factory=dict)  # by table: how many more records are in quarantine than before
    numbered: int = 0  # how many of them are not older than this batch
    gathered: dict[int, Gathered] = field(default_factory=dict)  # by number of a view: its contributions to fold
    before: list[Part] | None = None  # what was there before what is told early, where that is to be kept
    leaving: dict[int, list[Part]] = field(default_factory=dict)  # by partition: what it is owed
    derived: dict[int, list[Part]] = field(default_factory=dict)  # the contributions to views on views among it

    def put(self, db: str, rows: list[tuple[bytes, bytes]], new: list[bytes] | None) -> None:
        """Put these rows, if there are any; `new` are the keys that have none so far, where that is known."""
        if rows:
            if new is not None:
                self.new[len(self.puts)] = new
            self.puts.append((db, rows))

    def write(self, writer: Writer) -> None:
        """Write all of it."""
        for place, (db, rows) in enumerate(self.puts):
            writer.put_many(db, rows, new=self.new.get(place))
        for db, keys in self.deletes:
            writer.delete_many(db, keys)
        for step in self.during:
            step(writer)

    def committed(self) -> None:
        """The transaction is committed: memory follows."""
        for step in self.after:
            step()


@dataclass(slots=True)
class RowDelta:
    """A row of a source that changed: its group, and the result before and after, where there was one."""

    key: bytes
    group: Any
    old: Row | None
    new: Row | None
