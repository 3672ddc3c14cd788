"""Read one source into a table, in a thread of its own.

Invariants:

- Batches that were read are committed before the thread ends, and before it reports that it is paused.
- A member of a group continues with any holder of the store, at the store's offsets. Any other source ends with an
  error when its holder ends.
- A thread that waits for the store gives signs of life. A source that hangs gives none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

from penstock.cache import hidden, size_text
from penstock.cli.rows_output import cell_text
from penstock.cli.running.source_batches import LIMIT, check_columns
from penstock.engine import LOST, Loads, StandbyWriter
from penstock.remote import ENDED, PAUSED, READING, Claim
from penstock.spout import (
    Enveloped,
    FileSpout,
    KafkaMember,
    KafkaSpout,
    ListeningSpout,
    ParquetSpout,
    SourceMoved,
    Spout,
    SpoutBatch,
)
from penstock.views import Counts, Stream, Table

SHOWN = 5  # rejections shown of a source
_WAIT = 0.2  # seconds to wait for records


class SourceThread(threading.Thread):
    """The thread of one source. `stopped` and `paused` return the user's requests; `claim` receives the progress."""

    def __init__(
        self,
        writer: Loads,
        text: str,
        table: Table,
        spout: Spout,
        stopped: Callable[[], bool],
        paused: Callable[[], bool] = lambda: False,
        claim: Claim | None = None,
    ) -> None:
        super().__init__(name=f"penstock-{hidden(text)}", daemon=True)
        self.text = hidden(text)
        self.counts = Counts()
        self.lag: int | None = None
        self.error: BaseException | None = None
        self.notes: deque[str] = deque()
        self._writer = writer
        self._table = table
        self._spout = spout
        self._source = _inner(spout)
        if isinstance(spout, KafkaSpout):
            spout.timed = table.broker_ts
        if isinstance(self._source, FileSpout):  # unpacking may take long before the first batch
            self._source.stopped = stopped
        if isinstance(self._source, ListeningSpout):
            host, port = self._source.address
            self.notes.append(f"{self.text}: {self._source.peers} connect to {host}:{port}")
        self._stopped = stopped
        self._paused = paused
        self._claim = claim
        self._idle = threading.Event()
        self._seen: dict[str, None] = {}  # the source partitions of a stream
        self._unrested: dict[str, None] = {}  # of these, those with records since the last report
        self._waits = False  # for the store, or for its holder

    def run(self) -> None:
        """Read until the source ends or a stop is requested."""
        try:
            while not self._read():
                self._recover()
        except BaseException as error:
            self.error = error
        finally:
            if self._claim is not None:
                self._spout.close()  # before another process may continue
                self._claim.end(ENDED)

    def _read(self) -> bool:
        """Read until the source ends or a stop is requested. Return False if a member must open its share again."""
        is_writer = isinstance(self._writer, StandbyWriter) and self._writer.holder is None
        try:
            self._spout.begin(self._writer.remembered)
            while not self._stopped() and not self._spout.ended:
                if self._paused():
                    self._say(PAUSED)
                    self._idle.wait(_WAIT)
                    continue
                self._say()
                first = self._spout.next_batch(LIMIT, _WAIT)
                self.lag = self._spout.lag()
                if first is not None:
                    if isinstance(self._spout, FileSpout | ParquetSpout):
                        check_columns(self._spout, self._spout.name, self._table)
                    self._take(self._from(first))
                elif self._unrested:
                    self._rest(False)
            if self._spout.ended and not self._stopped():
                self._rest(True)
        except (*LOST, SourceMoved) as error:
            # A holder that can't continue ends, so that another process takes over.
            if not isinstance(self._source, KafkaMember) or (is_writer and not isinstance(error, SourceMoved)):
                raise
            return False
        return True

    def _recover(self) -> None:
        """Wait until a process holds the store. This process becomes the holder if no other does."""
        assert isinstance(self._writer, StandbyWriter), "a member's writer is"
        assert isinstance(self._source, KafkaMember), "no other comes here"
        before, self._waits = self._writer.holder, True
        while not self._stopped() and (reason := self._writer.renew()) is not None:
            self._source.trouble = reason
            self._say(PAUSED if self._paused() else None)
            self._idle.wait(_WAIT)
        self._waits = False
        if self._writer.holder != before:
            self.notes.append(f"{self.text}: the store is held by {self._writer.holder or 'this process'} now")

    def _from(self, first: SpoutBatch) -> Iterator[SpoutBatch]:
        """Yield this batch, and those that arrived meanwhile."""
        batch: SpoutBatch | None = first
        while batch is not None:
            self._waits = True
            try:
                yield batch
            finally:
                self._waits = False
            batch = None if self._stopped() or self._paused() else self._spout.next_batch(LIMIT)

    def beat(self) -> None:
        """Give a sign of life for the thread while it waits for the store."""
        if self._waits and self._claim is not None:
            self._claim.beat()

    def _take(self, batches: Iterator[SpoutBatch]) -> None:
        with closing(self._writer.load(self._table.name, batches)) as loaded:
            for batch, counts in loaded:
                self._spout.committed(batch)
                if batch.source is not None and isinstance(self._table, Stream):
                    self._unrested[batch.source] = self._seen[batch.source] = None
                self.lag = self._spout.lag()
                for rejection in counts.rejections[: max(0, SHOWN - self.counts.rejected)]:
                    self.notes.append(f"rejected: {cell_text(f'{rejection.where}: {rejection.reason}')}")
                self.counts += replace(counts, rejections=())
                self._say()

    def _rest(self, ended: bool) -> None:
        """Report the source partitions of a stream from which nothing is left to read."""
        whole = source_of(self._spout) if ended and isinstance(self._table, Stream) else None
        names = [*(self._seen if ended else self._unrested), *([] if whole is None else [whole])]
        if names:
            self._writer.rest(names, ended)
        self._unrested.clear()

    def _say(self, state: str | None = None) -> None:
        if self._claim is not None:
            lag = self.lag if isinstance(self._source, KafkaSpout) else None  # others count bytes or rows
            self._claim.say(state or self._trouble() or READING, lag, self.counts.records)

    def _trouble(self) -> str | None:
        return self._source.trouble if isinstance(self._source, KafkaSpout) else None

    def has_done(self) -> bool:
        """Test whether any record was read."""
        return self.counts.records > 0

    def summary(self) -> str:
        """Return the progress as text."""
        trouble = PAUSED if self._paused() else self._trouble()
        behind = f", {_lag(self._source, self.lag)} behind" if self.lag else ""
        return f"{self.text}: {self.counts}{behind}{f', {trouble}' if trouble else ''}"


def topic_of(spout: Spout) -> tuple[str | None, str | None]:
    """Return the store's name of a spout's topic, and the group. Both are None for other sources."""
    source = _inner(spout)
    return (source.source, source.group) if isinstance(source, KafkaSpout) else (None, None)


def source_of(spout: Spout) -> str | None:
    """Return the store's name of a spout's source, or None if the store doesn't remember it."""
    return getattr(_inner(spout), "source", None)


def _inner(spout: Spout) -> Spout:
    """Return the spout of the source itself, without an envelope."""
    return spout.inner if isinstance(spout, Enveloped) else spout


def _lag(spout: Spout, lag: int) -> str:
    """Return the lag of a source as text, in its own unit if that is known."""
    if isinstance(spout, FileSpout | ListeningSpout):
        return size_text(lag)
    return f"{lag:,} rows" if isinstance(spout, ParquetSpout) else f"{lag:,}"
