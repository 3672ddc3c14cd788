"""The part of the engine that takes what spouts deliver, a batch after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator

from penstock.core import Batch, Resume, check_fence, delivered, helped
from penstock.engine.calls.envelopes import wired
from penstock.engine.calls.quarantine_calls import Quarantining
from penstock.spout import Remembered, SourceMoved, SpoutBatch
from penstock.views import Counts

__all__ = ["Loading"]


class Loading(Quarantining):
    """An engine that reads from spouts, too."""

    @abstractmethod
    def _write(
        self, tables: dict[str, list[Batch]], sources: dict[str, Resume] | None, strict: bool, atomic: bool = True
    ) -> Counts:
        """One transaction of these batches; their counts."""

    @property
    def holder(self) -> None:
        """The process that holds the store: None, for this process holds it."""

    def remembered(self, source: str) -> Remembered | None:
        """Give the offset and the spout state that the store has of a source; None if it has none.

        engine.remembered("file:a")
        """
        with self.snapshot() as snap:
            return snap.remembered(source)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches, each with the offset after it in one transaction; gives its counts as it is durable.

        A batch below the offset that is committed already is a redelivery: it changes nothing and counts as late. One
        that does not begin there raises SourceMoved. Under `envelope` each record goes to the table that it names, and
        one with ts 0 is a repost, which is done before the rest and counts as equal. `long` says whether there is
        enough for another core to help, or with None that it will show; `batches` is then read ahead, so it should end
        where no more is there yet.

        for batch, counts in engine.load("users", batches):
            spout.committed(batch)
        """
        self._writable(table)
        self.flush()
        coming: deque[SpoutBatch] = deque()

        def parts() -> Iterator[Batch]:
            for batch in batches:
                coming.append(batch)
                yield delivered(batch, self._core.app.table_of(table))

        with helped(parts(), long, self._core.tables[table]) as ahead:
            for part in ahead:
                batch = coming.popleft()
                yield batch, self._load(table, batch, part)
                del batch, part  # so that no more is in memory than what is read ahead

    def _load(self, table: str, batch: SpoutBatch, part: Batch) -> Counts:
        if not batch.envelope:
            return self._load_tables(batch, {table: [part]}, part.size)
        found = wired(self._core.app, table, part)
        if found.values and batch.start == self._core.state.sources.get(batch.source or "", batch.start):
            self._repost(found.values)
        size = part.size
        counts = self._load_tables(batch, found.tables, size)
        return counts if counts.late == size else counts + Counts(equal=found.reposts)

    def _load_tables(self, batch: SpoutBatch, tables: dict[str, list[Batch]], size: int) -> Counts:
        if batch.source is None:
            return self._write(tables, None, False)
        with self._lock:
            self._core.ready()
            done = self._core.state.sources.get(batch.source, 0)
            if batch.fenced:
                with self.snapshot() as snap:
                    check_fence(batch, snap.remembered(batch.source))
            if batch.start != done and not batch.again:
                if batch.resume <= done:
                    return Counts(late=size)
                raise SourceMoved(batch.source, batch.start, done)
            resume = Resume(batch.resume, batch.note, batch.again)
            return self._write(tables, {batch.source: resume}, False)
