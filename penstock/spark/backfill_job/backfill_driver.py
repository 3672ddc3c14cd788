"""Fill a store in bulk. Parallel tasks compute the content that the engine would have after all records.

    records ──by key──▶ buckets: versions, segments, contributions ──by group──▶ ranges: rows and trees ─┐
                                   │                  ▲                                                  │
                                   │                  ├────── contributions to the views on a view ──────┤
                                   │                  │                                                  │
                                   └─by condition value──▶ ranges: side indexes, joined rows ◀── entries ┘

Tasks run the engine's own nodes over buckets of keys and ranges of groups. They write their results to files, which
this process appends to a new store. Invariants:

- Content is a function of the winning versions: rows, nodes and documents are those of the incremental path.
- The store is built beside its path and gets its name when it is complete. Until then the path is empty.
- A live store takes over the rebuilt tables and views in one transaction. Until then it is unchanged.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from functools import reduce as fold
from typing import Any
from zlib import crc32

import msgspec

from penstock.cache import (
    DefinitionError,
    PenstockError,
    StoreMissing,
    Tell,
    beside,
    built_beside,
    delete_marked_folder,
    make_folder,
    open_lmdb,
)
from penstock.engine import described, is_store, open_on, read_catalog, transferred, writer
from penstock.mapreduce import rows_db
from penstock.spark.backfill_job.bucket_documents import REPORT, BucketTask
from penstock.spark.backfill_job.records_by_key import SCHEMA, IntakeTask
from penstock.spark.backfill_job.result_loader import ResultLoader
from penstock.spark.backfill_job.source_levels import SourceLevel, levels
from penstock.spark.backfill_job.table_inputs import TableInput, table_input
from penstock.spark.job_progress import report_progress
from penstock.spark.spark_session import awake, blob_batches, in_tasks, map_arrow, ran, session
from penstock.spark.task_messages import JobPlan, TablePlan, TaskReport
from penstock.views import App, Position, Table, check_no_streams, check_together

__all__ = ["Backfilled", "backfill", "fill_documents"]

BUCKET = 4 << 20  # approximate bytes of records in a bucket
_MOST_BITS = 12
_RANGE = 1 << 18  # approximate contributions, or entries of sides, in a range
_report = msgspec.msgpack.Decoder(TaskReport).decode


@dataclass(slots=True)
class Backfilled:
    """The result of a backfill.

    `ties` counts records of a source without order with equal ts and different bytes. `seconds` has the duration of
    each stage, with the start of Spark as a stage of its own. `sources` are the offsets from which sources continue. If
    a source is in `back`, its offset in the live store was greater before.
    """

    path: str
    position: Position = 0
    records: int = 0
    documents: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    rejected: int = 0
    held: dict[str, int] = field(default_factory=dict)
    ties: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    back: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{sum(self.documents.values()):,} documents, {sum(self.rows.values()):,} rows of views"
        more = [("rejected", self.rejected), ("held", sum(self.held.values())), ("ties", self.ties)]
        return ", ".join([text, *(f"{n:,} {what}" for what, n in more if n)])


def backfill(
    app: App,
    store: str | os.PathLike[str],
    /,
    *,
    spark: Any = None,
    master: str | None = None,
    staging: str | os.PathLike[str] | None = None,
    progress: Tell | None = None,
    refill: bool = False,
    offsets: Mapping[str, int] | None = None,
    tables: Mapping[str, Any] | None = None,
    **more: Any,
) -> Backfilled:
    """Fill a new store at a path, or refill tables of one that is live.

    Each table is filled from a DataFrame, a file or folder, a topic, or a list of these.

    - Rows of a DataFrame are documents, without order: of equal ts the greater canonical bytes win. A DataFrame with
      the columns of Spark's Kafka source has the records of a topic: a null value deletes the key, and offsets give the
      order.
    - Named files are read in order, as `load` reads them, and `load` continues from there. A folder has no order.
    - A topic, kafka://host:9092/users, is read to its end, or to a time under `until=`. Its spout continues there.

    `offsets` gives the offsets of other sources, by the names of their spouts. `spark` is a session, else one is
    started on `master`. Tasks write their results to the folder `staging` until they are loaded. All workers and this
    process share it. By default it is beside the store. `progress` is called with the stage, the work done, and the
    total.

    With `refill` the store exists, and this process or another may write to it meanwhile. The named tables, and all
    views and joins on them, are built again beside it. Name all tables of a join. Records since the start are applied
    to them. Then readers see all of it from one position on, and the feed has the differences. Other tables stay. The
    partitions of a store switch together.

    ps.spark.backfill(app, "state", users=df, orders="orders.jsonl")
    """
    given, path, tell = {**(tables or {}), **more}, os.fspath(store), progress or _nobody
    if not given:
        raise DefinitionError("backfill() got no table; write backfill(app, store, users=df)")
    wanted = {app.table_of(name): source for name, source in given.items()}
    check_no_streams(app.streams(), "a backfill", "fill the store with `penstock load` instead")
    if refill:
        check_together(app.joins(), list(given))
    began = time.monotonic()
    spark = session(master) if spark is None else spark
    awake(spark)
    out = Backfilled(path)
    out.seconds["start"] = time.monotonic() - began
    if refill and not is_store(path):
        raise StoreMissing(path)
    with beside(f"{os.path.realpath(path)}.refill", path) if refill else built_beside(path) as folder:
        # begun under the lock of this folder, because a second start would omit records put before it
        seed = _begun(app, path, wanted) if refill else None
        with (
            _runs(os.path.dirname(folder) if staging is None else os.fspath(staging), path) as runs,
            blob_batches(spark),
        ):
            _Backfill(app, spark, folder, runs, tell, out).run(wanted, seed, offsets or {})
        if refill:
            _switch(app, path, folder, tell, out)
    return out


def fill_documents(app: App, path: str, tables: Mapping[str, Any], spark: Any, progress: Tell | None = None) -> None:
    """Fill a new store with documents alone: its views and joins stay empty."""
    wanted = {app.table_of(name): source for name, source in tables.items()}
    awake(spark)
    with (
        built_beside(path) as folder,
        _runs(os.path.dirname(folder), path) as runs,
        blob_batches(spark),
    ):
        _Backfill(app, spark, folder, runs, progress or _nobody, Backfilled(path), documents_only=True).run(
            wanted, None, {}
        )


def _begun(app: App, path: str, wanted: Mapping[Table, Any]) -> int:
    """Start to record the writes to these tables, for use after the refill. Return the seed for the rebuilt store."""
    with writer(path, app, migrate="refuse") as writing:
        return writing.begin_refill([table.name for table in wanted], described(app))


def _switch(app: App, path: str, folder: str, tell: Tell, out: Backfilled) -> None:
    """Let the writer of the store switch to the complete rebuild."""
    began = time.monotonic()
    with writer(path, app, migrate="refuse") as writing:
        done = writing.refill(folder, tell)
    out.seconds["switching"] = time.monotonic() - began
    out.position, out.sources, out.back = done.position, done.sources, done.back


def _nobody(what: str, done: int, total: int) -> None:
    """Ignore the progress."""


@contextmanager
def _runs(staging: str, store: str) -> Iterator[str]:
    """Yield a folder for results of tasks in this run alone, because tasks of a killed run may still write results."""
    own = f"runs-{crc32(os.fsencode(os.path.abspath(store))):08x}-"
    os.makedirs(staging, exist_ok=True)
    for name in os.listdir(staging):
        if name.startswith(own):
            delete_marked_folder(os.path.join(staging, name))
    folder = os.path.join(staging, own + uuid.uuid4().hex)
    make_folder(folder)
    try:
        yield folder
    finally:
        delete_marked_folder(folder)


class _Backfill:
    """One backfill. With `documents_only` views and joins stay empty."""

    def __init__(
        self,
        app: App,
        spark: Any,
        folder: str,
        runs: str,
        tell: Tell,
        out: Backfilled,
        documents_only: bool = False,
    ) -> None:
        self._app = app
        self._levels = [] if documents_only else levels(app)
        self._spark = spark
        self._folder = folder
        self._runs = runs
        self._tell = tell
        self._out = out

    def run(self, wanted: Mapping[Table, Any], seed: int | None, offsets: Mapping[str, int]) -> None:
        """Run all stages. `seed` is the seed of the store that takes the result over."""
        engine, _ = open_on(self._app, open_lmdb(self._folder), seed=seed)
        engine.close()
        store = open_lmdb(self._folder)
        try:
            with store.read() as reader:
                catalog = read_catalog(reader, self._folder)
            assert catalog is not None, "the store was just made"
            self._tell("looking", 0, 0)
            given = self._stage("looking", lambda: self._given(wanted))
            numbers = {name: entry.number for name, entry in catalog.entries.items()}
            layout = self._layout(given, numbers, catalog.seed)
            filling = ResultLoader(store, layout.views, layout.origins)
            reports = self._stage("documents", lambda: self._documents(given, layout))
            self._stage("loading documents", lambda: self._fill(filling, layout, reports))
            self._readers(layout, filling, reports)
            state = filling.finish(offsets)
            self._out.position, self._out.sources = state.position, dict(state.sources)
        finally:
            store.close()

    def _stage(self, name: str, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        done = work()
        self._out.seconds[name] = self._out.seconds.get(name, 0.0) + time.monotonic() - began
        return done

    # -- documents

    def _given(self, wanted: Mapping[Table, Any]) -> list[TableInput]:
        out: list[TableInput] = []
        for table, source in wanted.items():
            origin = sum(len(own.origins) for own in out)
            look = partial(table_input, self._spark, table, source, origin)
            out.append(ran(f"reading the input of table {table.name!r}", look))
        return out

    def _layout(self, given: Sequence[TableInput], numbers: dict[str, int], seed: int) -> JobPlan:
        tables: dict[str, TablePlan] = {}
        first = 0
        for own in given:
            bits = min(_MOST_BITS, (own.size // BUCKET).bit_length())
            plan = TablePlan(numbers[own.table.name], first, bits, own.ts_kind, own.ordered)
            tables[own.table.name] = plan
            first += plan.buckets
        views = {name: numbers[name] for level in self._levels for name in level.names}
        origins = tuple(origin for own in given for origin in own.origins)
        return JobPlan(transferred(self._app), seed, os.path.abspath(self._runs), tables, views, origins)

    def _documents(self, given: Sequence[TableInput], layout: JobPlan) -> list[TaskReport]:
        total = sum(plan.buckets for plan in layout.tables.values())
        blobs = [map_arrow(frame, IntakeTask(layout, rows), SCHEMA) for own in given for frame, rows in own.frames]
        parted = in_tasks(fold(lambda a, b: a.unionAll(b), blobs), "p", total)
        reports = self._collected("documents", map_arrow(parted, BucketTask(layout), REPORT))
        for name in layout.tables:
            kinds = {r.ts_kind for r in reports if layout.table_of(r.number) == name} - {None}
            if len(kinds) > 1:
                raise PenstockError(
                    f"table {name!r}: its ts are numbers in some records and RFC 3339 texts in others, and the first "
                    "thousand rows don't say which it is to be; make them one kind"
                )
        return reports

    def _fill(self, filling: ResultLoader, layout: JobPlan, reports: Sequence[TaskReport]) -> None:
        for table in self._app.tables():
            plan = layout.tables.get(table.name)
            if plan is None:
                continue
            own = [r for r in reports if layout.table_of(r.number) == table.name]
            keys = sum(r.present + r.tombstones for r in own)
            filling.documents(table, plan, keys, self._announced("loading documents", own))
            self._out.documents[table.name] = sum(r.present for r in own)
            self._count(own)

    def _count(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            self._out.records += report.records
            self._out.rejected += report.rejected
            self._out.ties += report.ties
        self._count_held(reports)

    # -- views

    def _readers(self, layout: JobPlan, filling: ResultLoader, files: list[TaskReport]) -> None:
        """Fill views and joins, each after its sources. `files` have the contributions of the documents."""
        for number, level in enumerate(self._levels, 1):
            frames = level.frames(self._spark, layout, number, files, _RANGE)
            reports: list[TaskReport] = []
            for what, frame in frames.items():
                own = self._stage(what, partial(self._collected, what, frame))
                self._stage(f"loading {what}", partial(filling.groups, self._announced(f"loading {what}", own)))
                reports += own
            for view in level.views:
                db = rows_db(layout.views[view.name])
                self._out.rows[view.name] = sum(report.rows.get(db, 0) for report in reports)
            self._count_held(reports)
            files = self._still_read([*files, *reports], self._levels[number:])

    @staticmethod
    def _still_read(files: Sequence[TaskReport], left: Sequence[SourceLevel]) -> list[TaskReport]:
        """Delete the files that no later level reads, and return the others."""
        names = {name for level in left for name in level.readers}
        out = [report for report in files if not names.isdisjoint(report.shares)]
        for report in files:
            if names.isdisjoint(report.shares):
                os.unlink(report.path)
        return out

    def _count_held(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            for name, held in report.held.items():
                self._out.held[name] = self._out.held.get(name, 0) + held

    def _collected(self, what: str, frame: Any) -> list[TaskReport]:
        """Return the reports of a job, in the order of their numbers. Their files must be readable here."""
        with report_progress(self._spark, what, self._tell):
            rows = ran(f"making {what}", frame.collect)
        reports = sorted((_report(bytes(row["report"])) for row in rows), key=lambda report: report.number)
        for report in reports:
            if not os.path.exists(report.path):
                raise PenstockError(
                    f"a worker wrote {report.path}, which is not there for this process; name a folder that all share, "
                    "as staging="
                )
        return reports

    def _announced(self, what: str, reports: Sequence[TaskReport]) -> Iterator[TaskReport]:
        for i, report in enumerate(reports):
            self._tell(what, i, len(reports))
            yield report
        self._tell(what, len(reports), len(reports))
