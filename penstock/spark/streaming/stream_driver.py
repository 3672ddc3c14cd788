"""The driver of a stream: each micro-batch of Spark becomes one manifest.

Spark writes the offsets of a batch before it, and its end after it. In between the driver runs the stages, compares the
reports, and commits. Invariants:

- a batch whose manifest exists is not run again. Its manifest must be of this query;
- a batch starts from the manifest before it, and only reports that fit together are committed;
- a driver that finds another one's manifest for its batch ends: it is a zombie.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock.cache import ArgumentKind, DefinitionError, Limits, PenstockError
from penstock.core import MEMORY, Settings
from penstock.partitions import BatchTurn, StateVersion, misfit, transferred
from penstock.spark.spark_session import SparkFailed, error_line, session, spark_sql
from penstock.spark.streaming.batch_stages import BatchPlan, StageReport, levels_of, reports_of
from penstock.spark.streaming.manifests import Manifest, PartitionCounts, SparkState, StateHeader, StateOfAnotherStream
from penstock.spark.streaming.state_garbage import remove_garbage
from penstock.spark.streaming.stream_plan import StreamPlan
from penstock.views import App

__all__ = ["SparkStream", "ZombieDriver", "stream"]

_ATTEMPTS = 5
_KEPT = 10  # manifests
_CLEAN = 100  # batches between two removals of garbage
_log = logging.getLogger("penstock.spark")
CommitListener = Callable[[Manifest], None]


class ZombieDriver(PenstockError):
    """Another driver has committed the batch of this one.

    >>> print(ZombieDriver("shop", 7, 3))
    batch 7 of the state shop was committed by driver run 3; that one goes on, and this one ends
    """

    def __init__(self, uri: str, batch: int, run: int) -> None:
        super().__init__(uri, batch, run)
        self.uri, self.batch, self.run = uri, batch, run

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of the state {self.uri} was committed by driver run {self.run}; that one goes on, and "
            "this one ends"
        )


def stream(
    app: App,
    state: str,
    sources: Mapping[str, str],
    *,
    spark: Any = None,
    partitions: int | None = None,
    every: str = "1 second",
    batch: int = 1_000_000,
    local: str | None = None,
    snapshot_every: int = 20,
    on_commit: CommitListener | None = None,
) -> SparkStream:
    """Start to run an app as a Structured Streaming query, over the state at a URI.

    `sources` has a URI by table. `partitions` is the number of a new state, 16 by default. `every` is the interval of
    batches, and `batch` the most records of one. `local` is the folder for local copies on each host. `on_commit` gets
    the manifest of each batch.

    run = ps.spark.stream(app, "shop.state", {"orders": "orders.jsonl"})
    run.finish()
    """
    if not sources:
        raise ArgumentKind("sources", sources, 'name the file of each table: {"orders": "orders.jsonl"}')
    if app.streams():
        name = app.streams()[0].name
        raise DefinitionError(
            f"the app has the stream {name!r}, and a query of Spark takes tables; run it without Spark"
        )
    for table in sources:
        app.table_of(table)
    spark_sql()
    from penstock.spark.streaming.spout_source import opened_spout  # imports PySpark

    for table, uri in sources.items():
        opened_spout(table, uri).close()
    own = SparkState(state)
    header = own.opened(app.name, partitions)
    where = local or os.path.join(tempfile.gettempdir(), f"penstock-{os.getuid()}")
    plan = StreamPlan(
        transferred(app),
        header.state,
        header.ranges().starts,
        header.seed,
        own.files,
        os.path.abspath(where),
        Settings(MEMORY, Limits()),
    )
    return SparkStream(
        app, own, header, plan, dict(sources), spark or session("local[*,4]"), every, batch, snapshot_every, on_commit
    )


class SparkStream:
    """A query that is running. As a context manager it stops at the end of its block."""

    def __init__(
        self,
        app: App,
        state: SparkState,
        header: StateHeader,
        plan: StreamPlan,
        sources: dict[str, str],
        spark: Any,
        every: str,
        batch: int,
        snapshot_every: int,
        on_commit: CommitListener | None,
    ) -> None:
        self.state = state
        self.header = header
        self._plan = plan
        self._levels = levels_of(app)
        self._snapshot_every = snapshot_every
        self._on_commit = on_commit
        self._turn = threading.Lock()  # held during a batch, so that a stop comes between two
        self._known = threading.Event()  # the id of the query is known
        self._failed: PenstockError | None = None
        self._run = state.begin_run()
        self._last = state.newest()
        self._query: Any = None
        self._start(spark, sources, every, batch)

    def _start(self, spark: Any, sources: dict[str, str], every: str, batch: int) -> None:
        from penstock.spark.streaming.spout_source import SpoutSource  # imports PySpark

        tasks = max(1, int(spark.sparkContext.defaultParallelism))
        own: Any = type(
            "SpoutSource", (SpoutSource,), {"plan": self._plan, "sources": sources, "limit": batch, "tasks": tasks}
        )
        spark.dataSource.register(own)
        frame = spark.readStream.format(SpoutSource.name()).load()
        writer = frame.writeStream.foreachBatch(self._batch).trigger(processingTime=every)
        try:
            self._query = writer.option("checkpointLocation", self._checkpoint()).start()
        except Exception as error:
            raise SparkFailed("starting the stream", error_line(error)) from error
        self._known.set()

    def _checkpoint(self) -> str:
        folder = getattr(self.state.files, "folder", None)
        if folder is None:
            raise DefinitionError(f"the state {self.state.uri} can't have Spark's checkpoint; name a folder")
        return f"file://{os.path.join(folder, 'spark')}"

    def _batch(self, frame: Any, number: int) -> None:
        """Run a batch: the function that Spark calls."""
        with self._turn:
            try:
                self._known.wait()
                self._committed(frame, int(number))
            except PenstockError as error:
                self._failed = error
                raise
            except Exception as error:
                self._failed = SparkFailed(f"running batch {number}", f"{type(error).__name__}: {error}")
                raise

    def _committed(self, frame: Any, number: int) -> None:
        query, began = str(self._query.id), time.monotonic()
        found = self.state.manifest(number)
        if found is not None:
            self._must_be_own(found, query)
            self._last = found
            return
        before = self._before(number, query)
        reports = self._reports(frame, number, before)
        manifest = self._manifest(number, query, before, reports, time.monotonic() - began)
        if not self.state.commit(manifest):
            other = self.state.manifest(number)
            raise ZombieDriver(self.state.uri, number, -1 if other is None else other.run)
        kept = self.state.batches()
        if kept[-1] > number:
            raise ZombieDriver(self.state.uri, number, self._run)
        self._last = manifest
        self._tidy(number, kept)
        if self._on_commit is not None:
            self._on_commit(manifest)

    def _must_be_own(self, found: Manifest, query: str) -> None:
        if found.query != query or found.state != self.header.state:
            raise StateOfAnotherStream(self.state.uri, f"batch {found.batch} is of query {found.query}")

    def _before(self, number: int, query: str) -> Manifest | None:
        """Return the manifest before a batch; None for the first batch of a new state."""
        if number == 0:
            if kept := self.state.batches():
                raise StateOfAnotherStream(self.state.uri, f"the checkpoint is new, and the state has batch {kept[-1]}")
            return None
        before = self.state.manifest(number - 1)
        if before is None:
            raise StateOfAnotherStream(
                self.state.uri, f"the checkpoint has batch {number}, and the state lacks the one before"
            )
        self._must_be_own(before, query)
        return before

    def _reports(self, frame: Any, number: int, before: Manifest | None) -> list[StageReport]:
        """Run the stages until the reports of all partitions fit together."""
        many = self._plan.partitions
        bases = (StateVersion(),) * many if before is None else tuple(own.version for own in before.partitions)
        snapshots = frozenset(
            i
            for i in range(many)
            if len(bases[i].chain) >= self._snapshot_every + i % max(1, self._snapshot_every // 4)
        )
        reason = ""
        for attempt in range(_ATTEMPTS):
            turn = BatchTurn(self._run, number, attempt)
            kinds = {} if before is None else before.kinds
            plan = BatchPlan(self._plan, turn, bases, kinds, self._levels, snapshots)
            try:
                reports = reports_of(frame, plan)
            except Exception as error:
                reason = error_line(error)
            else:
                reason = misfit([own.report for own in reports], turn, many) or ""
                if not reason:
                    return sorted(reports, key=lambda own: own.report.partition)
            _log.warning("batch %d, attempt %d: %s", number, attempt, reason)
        raise SparkFailed(f"running batch {number}, {_ATTEMPTS} times", reason)

    def _manifest(
        self, number: int, query: str, before: Manifest | None, reports: list[StageReport], seconds: float
    ) -> Manifest:
        partitions: list[PartitionCounts] = []
        for i, own in enumerate(reports):
            base = StateVersion() if before is None else before.partitions[i].version
            version = base.after(own.report.links)
            if own.snapshot is not None and own.snapshot.id in version.ids:
                version = version.over(own.snapshot)
            partitions.append(PartitionCounts(version, own.report.position, own.host))
        counts = [sum(column) for column in zip(*(row for own in reports for row in own.report.counts), strict=True)]
        first = reports[0].report
        return Manifest(
            number, self.header.state, query, self._run, partitions, first.kinds, first.sources, counts, seconds
        )

    def _tidy(self, number: int, kept: list[int]) -> None:
        for batch in kept[:-_KEPT]:
            self.state.forget(batch)
        if number % _CLEAN == _CLEAN - 1:
            remove_garbage(self.state)

    @property
    def last(self) -> Manifest | None:
        """Return the manifest of the last committed batch; None before the first one."""
        return self._last

    def finish(self) -> None:
        """Wait until all records that are there now are in the state, and stop."""
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self._raise(error)
        self.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the query, so many seconds. Return whether it has ended."""
        try:
            return bool(self._query.awaitTermination(timeout) if timeout else self._query.awaitTermination() or True)
        except Exception as error:
            self._raise(error)
            raise

    def _raise(self, error: Exception) -> None:
        """Raise the reason for which a query failed."""
        if self._failed is not None:
            raise self._failed from None
        raise SparkFailed("running the stream", error_line(error)) from error

    def stop(self) -> None:
        """Stop after the current batch. A second call does nothing."""
        with self._turn, suppress(Exception):  # a query that has failed can't be stopped
            self._query.stop()

    def __enter__(self) -> SparkStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
