"""One source on its way into a table, in a thread of its own.

Invariants:

- what was read is committed before it ends, and before it says that it is paused;
- a member of a group goes on whoever holds the store, at the store's offsets; any other source ends with an error where
  its holder does;
- who waits for the store gives signs of life, and a source that hangs gives none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

from penstock.cache import hidden, shown_size
from penstock.cli.commands.load import LIMIT, check_columns
from penstock.cli.rows_output import shown_cell
from penstock.cli.running.claims import Claim
from penstock.engine import LOST, Loads, StandbyWriter
from penstock.spout import (
    Enveloped,
    FileSpout,
    KafkaMember,
    KafkaSpout,
    ParquetSpout,
    SourceMoved,
    Spout,
    SpoutBatch,
)
from penstock.views import Counts, Table

SHOWN = 5  # rejections of a source
READING, PAUSED, ENDED = "reading", "paused", "ended"  # what a process says of a source
_WAIT = 0.2  # seconds until a source that gives nothing is asked whether it has ended


class Pump(threading.Thread):
    """One source; `stopped` and `paused` say what was asked for, `claim` is where it says how it goes."""

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
        if isinstance(self._source, FileSpout):  # it may unpack for long before its first batch
            self._source.stopped = stopped
        self._stopped = stopped
        self._paused = paused
        self._claim = claim
        self._idle = threading.Event()
        self._waits = False  # for the store, or for who holds it

    def run(self) -> None:
        """Until the source ends, or somebody stops it."""
        try:
            while not self._read():
                self._recover()
        except BaseException as error:
            self.error = error
        finally:
            if self._claim is not None:
                self._spout.close()  # before another may read on
                self._claim.end(ENDED)

    def _read(self) -> bool:
        """Read until the source ends or somebody stops it; False where a member's share is to be taken up anew."""
        here = isinstance(self._writer, StandbyWriter) and self._writer.holder is None
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
        except (*LOST, SourceMoved) as error:
            # Who holds the store and can't go on ends, so that another one takes it over.
            if not isinstance(self._source, KafkaMember) or (here and not isinstance(error, SourceMoved)):
                raise
            return False
        return True

    def _recover(self) -> None:
        """Wait until somebody holds the store, this process if nobody else does."""
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
        """This one, and what has come meanwhile."""
        batch: SpoutBatch | None = first
        while batch is not None:
            self._waits = True
            try:
                yield batch
            finally:
                self._waits = False
            batch = None if self._stopped() or self._paused() else self._spout.next_batch(LIMIT)

    def beat(self) -> None:
        """A sign of life in the place of the thread that waits for the store."""
        if self._waits and self._claim is not None:
            self._claim.beat()

    def _take(self, batches: Iterator[SpoutBatch]) -> None:
        with closing(self._writer.load(self._table.name, batches)) as loaded:
            for batch, counts in loaded:
                self._spout.committed(batch)
                self.lag = self._spout.lag()
                for rejection in counts.rejections[: max(0, SHOWN - self.counts.rejected)]:
                    self.notes.append(f"rejected: {shown_cell(f'{rejection.where}: {rejection.reason}')}")
                self.counts += replace(counts, rejections=())
                self._say()

    def _say(self, state: str | None = None) -> None:
        if self._claim is not None:
            lag = self.lag if isinstance(self._source, KafkaSpout) else None  # of others it is no number of records
            self._claim.say(state or self._trouble() or READING, lag, self.counts.records)

    def _trouble(self) -> str | None:
        return self._source.trouble if isinstance(self._source, KafkaSpout) else None

    def has_done(self) -> bool:
        """Whether anything came of it."""
        return self.counts.records > 0

    def said(self) -> str:
        """How far it is, in words."""
        trouble = PAUSED if self._paused() else self._trouble()
        behind = f", {_lag(self._source, self.lag)} behind" if self.lag else ""
        return f"{self.text}: {self.counts}{behind}{f', {trouble}' if trouble else ''}"


def topic_of(spout: Spout) -> tuple[str | None, str | None]:
    """What the store calls the topic of a spout, None of any other source; and the group that it names."""
    source = _inner(spout)
    return (source.source, source.group) if isinstance(source, KafkaSpout) else (None, None)


def source_of(spout: Spout) -> str | None:
    """What the store calls the source of a spout; None of one that it doesn't remember."""
    return getattr(_inner(spout), "source", None)


def _inner(spout: Spout) -> Spout:
    """The spout of the source itself, whatever its records come in."""
    return spout.inner if isinstance(spout, Enveloped) else spout


def _lag(spout: Spout, lag: int) -> str:
    """How far behind a source is, in its own unit where that is known."""
    if isinstance(spout, FileSpout):
        return shown_size(lag)
    return f"{lag:,} rows" if isinstance(spout, ParquetSpout) else f"{lag:,}"
