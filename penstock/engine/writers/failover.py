"""A writer of a store that goes on with the next holder when the process that holds the store ends.

Invariants:

- a call returns after its commit, whichever process made it;
- a call that no holder answered is made again. Records that come again change nothing;
- a call that ends several holders one after the other is an error, so that a fatal call does not go on for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Self, TypeVar

from penstock.cache import Closed, Tell
from penstock.core.upkeep.compaction import Compacted, Progress
from penstock.generations.refill import Refilled
from penstock.recovery import Checked, Repaired, Settled, Wanted
from penstock.remote.remote_writer import RemoteWriter
from penstock.remote.writer_protocol import HolderLost, Writer
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import App, Counts, Migrated

__all__ = ["Failover"]

T = TypeVar("T")
_LOSSES = 5  # holders that one call may lose without an answer


class Failover:
    """The store in this process or at its holder; `reopen` opens it, or connects to its holder."""

    def __init__(self, reopen: Callable[[], Writer]) -> None:
        self._reopen = reopen
        self._writer = reopen()
        self._closed = False

    @property
    def holder(self) -> str | None:
        """The process that holds the store, in words; None where this process does."""
        return self._writer.holder

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts:
        """Put one document."""
        return self._call(lambda writer: writer.put(table, doc, ts))

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete the document with this key."""
        return self._call(lambda writer: writer.delete(table, key, ts))

    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts:
        """Put many documents."""
        known = docs if isinstance(docs, Sequence) else list(docs)  # another holder is given them again
        return self._call(lambda writer: writer.put_many(table, known, strict, batch))

    def post(self, records: Iterable[Record]) -> Counts:
        """Take records of any tables as one transaction; reposts among them before that."""
        known = list(records)
        return self._call(lambda writer: writer.post(known))

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take records of several tables, and the offset after them."""
        known = list(records)
        return self._call(lambda writer: writer.ingest(known, source, resume))

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches; gives each with its counts as it is durable."""
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

    def remembered(self, source: str) -> Remembered | None:
        """Where the store stands in a source."""
        return self._call(lambda writer: writer.remembered(source))

    def settle(self) -> None:
        """Wait until all that was taken before shows in every view."""
        self._call(lambda writer: writer.settle())

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Give back what old versions take."""
        return self._call(lambda writer: writer.compact(progress))

    def repost(self, values: Mapping[str, Sequence[Any]], progress: Progress | None = None) -> list[Repaired]:
        """Post values of tables that may once have been told."""
        return self._call(lambda writer: writer.repost(values, progress))

    def restate(self, name: str, key_or_group: Any = None, progress: Progress | None = None) -> list[Repaired]:
        """Make right what views say."""
        return self._call(lambda writer: writer.restate(name, key_or_group, progress))

    def retry(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Try again what is in quarantine."""
        return self._call(lambda writer: writer.retry(wanted, progress))

    def drop(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Let go of what is in quarantine."""
        return self._call(lambda writer: writer.drop(wanted, progress))

    def check(self, fix: bool = False, progress: Progress | None = None) -> Checked:
        """Read all of the store and hold views against the documents."""
        return self._call(lambda writer: writer.check(fix, progress))

    def migrate(self, app: App, progress: Progress | None = None) -> Migrated:
        """Build what is left of views that are to be as this app has them."""
        return self._call(lambda writer: writer.migrate(app, progress))

    def begin_refill(self, tables: Sequence[str], app: App) -> int:
        """Tables of this app are made anew elsewhere from now on; the seed that they are made with."""
        return self._call(lambda writer: writer.begin_refill(tables, app))

    def refill(self, folder: str, progress: Tell | None = None) -> Refilled:
        """Take over the tables in this folder. A second call would find the folder taken: this one is made once."""
        return self._writer.refill(folder, progress)

    def close(self) -> None:
        """Let go of the store, or of its holder."""
        self._closed = True
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, call: Callable[[Writer], T]) -> T:
        """Make a call, again at each next holder until one answers."""
        losses = 0
        while True:
            try:
                return call(self._writer)
            except (HolderLost, Closed) as error:
                losses += self._fail_over(error, losses)

    def _fail_over(self, error: HolderLost | Closed, losses: int) -> int:
        """Connect to the next holder, or open the store here; return 1 where the former one ended without a word."""
        lost = isinstance(error, HolderLost)
        if self._closed or not isinstance(self._writer, RemoteWriter) or losses + lost >= _LOSSES:
            raise error
        self._writer.close()
        self._writer = self._reopen()
        return lost
