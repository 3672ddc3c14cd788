"""Verify a whole store: recompute it from a copy, and compare it group by group.

The recomputation shares no code with the incremental path. The copy is made in one read transaction while others write.
Tasks map its documents and fold its groups in plain Python. The differences are reported. With `fix` these groups are
restated by the holder of the store. Invariant: a group that differs from its tally is called wrong only after the
oracle has examined each of its documents.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from penstock.cache import DefinitionError, PenstockError, Tell, decode_key, pack, unpack
from penstock.engine import (
    Engine,
    Snapshot,
    copy_any,
    is_store,
    open_engine,
    partitions_of,
    snapshots_at_rest,
    transferred,
    writer,
)
from penstock.mapreduce import same_result
from penstock.recovery import ReducerInput, Repaired, rank, read_by, refolded
from penstock.spark.job_progress import report_progress
from penstock.spark.spark_session import blob_batches, in_tasks, map_arrow, ran, session
from penstock.spark.verify_job.group_facts import SCHEMA, Fact, Known
from penstock.spark.verify_job.join_frames import JoinFrames, joins_below, side_sources
from penstock.spark.verify_job.remap_task import CopyPart, RemapTask, VerifyJob
from penstock.spark.verify_job.side_facts import IndexTask, sides_by_name
from penstock.spark.verify_job.source_comparison import Against, Stale, compare_with_source
from penstock.spark.verify_job.spans import Span, spans_of, spans_of_log
from penstock.spark.verify_job.tallies import Tally, folded
from penstock.views import (
    ABSENT,
    App,
    Join,
    Position,
    Table,
    View,
    check_no_streams,
    difference,
    position_text,
    stored_definition,
)

__all__ = ["Difference", "Verified", "verify"]

_SHOWN = 10  # documents named for each group
_PART = 1 << 15  # approximate documents or rows per task
_MOST = 1 << 10
FOUND = "found binary"


@dataclass(frozen=True, slots=True)
class Difference:
    """A group whose result differs from the one that its documents give. ABSENT stands for no row.

    `by` has the keys of the first few documents behind it.
    """

    view: str
    group: Any
    expected: Any
    stored: Any
    by: tuple[Any, ...] = ()


@dataclass(slots=True)
class Verified:
    """The result of a verification. `held` and `told` are counted by view, and are not wrong."""

    position: Position = 0
    documents: int = 0
    rows: int = 0
    wrong: list[Difference] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    repaired: list[Repaired] = field(default_factory=list)
    stale: list[Stale] = field(default_factory=list)
    beyond: dict[str, int] = field(default_factory=dict)  # from table to the number of documents that its source lacks

    @property
    def ok(self) -> bool:
        """Test whether everything was right."""
        return not self.wrong and not self.stale

    def __str__(self) -> str:
        found = [(len(self.wrong), "groups differ"), (len(self.stale), "documents are missing or stale")]
        text = ", ".join(f"{n:,} {what}" for n, what in found if n) or "nothing is wrong"
        more = [("held", self.held), ("with another emission now", self.told)]
        own = "".join(f"; {sum(by.values()):,} {what}" for what, by in more if by)
        at = f"position {position_text(self.position)}"
        return f"{self.documents:,} documents and {self.rows:,} rows at {at}: {text}{own}"


def verify(
    app: App,
    store: str | os.PathLike[str],
    views: Sequence[str] = (),
    *,
    spark: Any = None,
    master: str | None = None,
    snapshot: str | os.PathLike[str] | None = None,
    against: Mapping[str, Any] | None = None,
    fix: bool = False,
    progress: Tell | None = None,
) -> Verified:
    """Recompute views of a store, all of them unless some are named, and report the groups that differ.

    The store may have several partitions. The function reads a copy, which it makes and removes, if there is room for
    it. `snapshot` is a folder with a copy, or for one that stays. `against` gives the sources of tables, as for a
    backfill: then documents that are missing or older than there are found as well. With `fix` those are put, and the
    groups that differ are restated, by the process that holds the store if there is one. The report still has them, in
    `stale` and `wrong`.

    ps.spark.verify(app, "state").wrong
    """
    tell = progress or _nobody
    check_no_streams(app.streams(), "a verification", "check the store with `penstock check` instead")
    with _copy(app, os.path.abspath(store), snapshot, tell) as path:
        spark = session(master) if spark is None else spark
        with open_engine(app, path, readonly=True) as engine:
            asked = _asked(app, engine, views)
            parts, position = _parts(app, engine, asked)
        work = VerifyJob(transferred(app), path, tuple(view.name for view in asked), len(parts), partitions_of(path))
        out = Verified(position)
        with blob_batches(spark):
            _compare(spark, work, parts, tell, out)
        found = Against()
        if against:
            found = compare_with_source(app, path, against, os.path.dirname(os.path.abspath(store)), spark, tell)
        out.stale, out.beyond = found.stale, found.beyond
    if fix and not out.ok:
        with writer(store, app) as writing:
            found.post(writing)
            for done, one in enumerate(out.wrong):
                tell("restating", done, len(out.wrong))
                out.repaired += writing.restate(*_restated(app, one))
    return out


def _restated(app: App, wrong: Difference) -> tuple[str, Any]:
    """Return the name and the key or group to restate for a difference."""
    side = sides_by_name(app.joins()).get(wrong.view)
    if side is not None:
        return side.source.name, wrong.group[1]
    return wrong.view, wrong.group[0] if app.view_of(wrong.view).index else wrong.group


def _nobody(what: str, done: int, total: int) -> None:
    """Ignore the progress."""


@contextmanager
def _copy(app: App, store: str, snapshot: str | os.PathLike[str] | None, tell: Tell) -> Iterator[str]:
    """Yield the path of the copy to read."""
    if snapshot is None:
        with tempfile.TemporaryDirectory(prefix="penstock-verify-", dir=os.path.dirname(store)) as folder:
            path = os.path.join(folder, "copy")
            _copied(app, store, path, tell)
            yield path
        return
    path = os.path.abspath(snapshot)
    if not is_store(path):
        _copied(app, store, path, tell)
    with open_engine(app, path, readonly=True) as engine, engine.snapshot() as snap:
        if not snapshots_at_rest(snap.parts):
            raise PenstockError(
                f"{path} was copied with contributions in flight between its partitions, which its views lack; open it "
                f"once, with `penstock migrate --store {path}`, or let verify make a copy"
            )
    yield path


def _copied(app: App, store: str, path: str, tell: Tell) -> None:
    """Copy the store. A copy of several partitions is opened once, so that nothing is in flight between them."""
    copy_any(store, path, tell)
    if partitions_of(path) > 1:
        open_engine(app, path, processes=False, listen=False, migrate="refuse").close()


def _asked(app: App, engine: Engine, names: Sequence[str]) -> list[View]:
    """Return the requested views as the app defines them. Raise DefinitionError if the store has another definition."""
    views = [app.view_of(name) for name in names] or list(app.views())
    with engine.snapshot() as snap:
        for view in views:
            entry = snap.schema.catalog.entries.get(view.name)
            own = _as_stored(stored_definition(view))
            if entry is None or entry.as_of is not None or difference(entry.definition, own):
                raise DefinitionError(
                    f"view {view.name!r} is not in the store as the app has it; run `penstock migrate`, or take a copy "
                    "that was made since"
                )
        for join in joins_below(app, [view.name for view in views]):
            entry = snap.schema.catalog.entries.get(join.name)
            if entry is None or difference(entry.definition, _as_stored(join.describe())):
                raise DefinitionError(
                    f"join {join.name!r} is not in the store as the app has it; run `penstock migrate`, or take a copy "
                    "that was made since"
                )
    return views


def _as_stored(definition: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(definition))


def _parts(app: App, engine: Engine, views: Sequence[View]) -> tuple[list[CopyPart], Position]:
    """Return the parts for tasks: documents of the views' tables, rows of the views and of their parent views."""
    with engine.snapshot() as snap:
        joins = joins_below(app, [view.name for view in views])
        out = [part for i, own in enumerate(snap.parts) for part in _parts_of(own, i, views, joins)]
        return out, snap.position


def _parts_of(snap: Snapshot, partition: int, views: Sequence[View], joins: Sequence[Join]) -> Iterator[CopyPart]:
    """Yield the parts of one partition."""
    reader, schema = snap.reader(), snap.schema
    read = [view.source for view in views] + side_sources(joins)
    sources = {source.name: source for source in read if isinstance(source, Table)}
    for name in sources:
        many = min(_MOST, 1 + len(snap.table(name)) // _PART)
        for span in spans_of_log(reader, schema.table(name).number, many):
            yield CopyPart(partition, name, span)
    rows = dict.fromkeys([v.name for v in views] + [source.name for source in read if isinstance(source, View)])
    for name in rows:
        db = schema.view(name, reader).reduce.db
        many = min(_MOST, 1 + reader.count(db) // _PART)
        for span in spans_of(reader, db, many):
            yield CopyPart(partition, name, span)


def _compare(spark: Any, work: VerifyJob, parts: Sequence[CopyPart], tell: Tell, out: Verified) -> None:
    with report_progress(spark, "verifying", tell):
        wrong, again = _compared(spark, work, parts, out)
    if again:
        views = tuple(dict.fromkeys(view for view, _ in again))
        groups = {name: frozenset(group for view, group in again if view == name) for name in views}
        asked = replace(work, views=views, groups=groups)
        with report_progress(spark, "examining the differences", tell):
            wrong += _compared(spark, asked, parts, out)[0]
    out.wrong = sorted(map(_difference, wrong), key=lambda one: (one.view, pack(_listed(one.group))))


def _compared(
    spark: Any, work: VerifyJob, parts: Sequence[CopyPart], out: Verified
) -> tuple[list[list[Any]], list[tuple[str, bytes]]]:
    """Return the groups that differ, and those for which the oracle is needed."""
    app = work.app.app()
    joins = joins_below(app, work.views)
    facts = _mapped(spark, parts, RemapTask(work))
    if joins:
        sides = sides_by_name(joins)
        indexes = [CopyPart(i, name, Span(b"", None)) for i in range(work.partitions) for name in sides]
        for more in (_mapped(spark, indexes, IndexTask(work)), *JoinFrames(spark, work, parts).facts(joins)):
            facts = facts.unionAll(more)
    facts = in_tasks(facts, "p", work.parts)
    wrong: list[list[Any]] = []
    again: list[tuple[str, bytes]] = []
    for row in ran("verifying", map_arrow(facts, CompareTask(work), FOUND).collect):
        counts, differing, unsure = unpack(bytes(row["found"]))
        for view, (documents, rows_read, held, different) in counts.items():
            out.documents += documents
            out.rows += rows_read
            _count(out.held, view, held)
            _count(out.told, view, different)
        wrong += differing
        again += [(view, group) for view, group in unsure]
    return wrong, again


def _mapped(spark: Any, parts: Sequence[CopyPart], task: RemapTask | IndexTask) -> Any:
    """Return the facts of parts of the copy."""
    rows = [(i, bytearray(part.data())) for i, part in enumerate(parts)]
    frame = in_tasks(spark.createDataFrame(rows, "i int, part binary"), "i", len(rows))
    return map_arrow(frame, task, SCHEMA)


def _count(counts: dict[str, int], view: str, n: int) -> None:
    if n:
        counts[view] = counts.get(view, 0) + n


def _listed(group: Any) -> Any:
    return [_listed(part) for part in group] if isinstance(group, tuple) else group


def _difference(data: list[Any]) -> Difference:
    view, group, expected, stored, by = data
    known = [ABSENT if not own else own[0] for own in (expected, stored)]
    return Difference(view, decode_key(group), known[0], known[1], tuple(decode_key(key) for key in by))


@dataclass(frozen=True, slots=True)
class CompareTask:
    """The task that turns all facts of some groups into differences."""

    work: VerifyJob

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the differences and the counts."""
        import pyarrow as pa

        groups: dict[tuple[str, bytes], list[tuple[Any, ...]]] = {}
        counts: dict[str, list[int]] = {}
        for batch in batches:
            for blob in batch.column("blob").to_pylist():
                known: list[Known] = pickle.loads(blob)
                for view, group, facts in known:
                    groups.setdefault((view, group), []).extend(facts)
        for (view, _), facts in groups.items():
            for fact, *more in facts:
                if fact != Fact.COUNT:
                    break
                own = counts.setdefault(view, [0, 0, 0, 0])
                counts[view] = [a + b for a, b in zip(own, more, strict=True)]
        wrong: list[list[Any]] = []
        again: list[tuple[str, bytes]] = []
        sides = sides_by_name(self.work.app.app().joins())
        for (view, group), facts in groups.items():
            found = self._compared(view, group, facts, view in sides)
            if found is not None and any(fact[0] == Fact.TALLY for fact in facts):
                again.append((view, group))
            elif found is not None:
                wrong.append(found)
        data = pack([counts, wrong, [list(own) for own in again]])
        yield pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], names=["found"])

    def _compared(self, name: str, group: bytes, facts: Sequence[tuple[Any, ...]], side: bool) -> list[Any] | None:
        kinds = {fact[0] for fact in facts}
        if kinds & {Fact.HELD, Fact.DIFFERENT, Fact.COUNT}:
            return None
        rows = [fact[1:] for fact in facts if fact[0] == Fact.SHOWN]
        given = [fact[1:] for fact in facts if fact[0] == Fact.GIVEN]
        if side:
            return _compared_entry(name, group, given, rows)
        tallies = [fact[1] for fact in facts if fact[0] == Fact.TALLY]
        expected: list[Any] = []
        if given or tallies:
            try:
                expected = [self._expected(self.work.app.app().view_of(name), group, given, tallies)]
            except Exception:
                if not tallies:
                    return None  # its reducer fails, so the row shows the last good result
                expected = []  # the oracle will compute it
        stored = [rows[0][0]] if rows else []
        same = len(stored) == len(expected) and (not stored or same_result(stored[0], expected[0]))
        if same and (not rows or rows[0][1] == len(given) + sum(n for n, _ in tallies)):
            return None
        return [name, group, expected, stored, [own[0] for own in given[:_SHOWN]]]

    @staticmethod
    def _expected(view: View, group: bytes, given: Sequence[tuple[Any, ...]], tallies: Sequence[Tally]) -> Any:
        """Return the result of a group from all its contributions."""
        if not tallies:
            return refolded(view, decode_key(group), [_task_inputs(*own) for own in given])
        own = [
            [
                ReducerInput(read_by(view, reducer, value), (rank(decode_key(key)), number))
                for key, number, value, _ in given
            ]
            for reducer in view.reducers
        ]
        return folded(view, [reducer.describe() for reducer in view.reducers], tallies, own)


def _compared_entry(name: str, group: bytes, given: Sequence[Any], rows: Sequence[Any]) -> list[Any] | None:
    """Return the difference of an entry of a side index, if its document gives another one."""
    expected, stored = [own[2] for own in given], [own[0] for own in rows]
    if expected == stored:
        return None
    return [name, group, list(map(unpack, expected)), list(map(unpack, stored)), [own[0] for own in given]]


def _task_inputs(key: bytes, number: int, value: Any, moment: Any) -> tuple[Any, int, Any, Any]:
    return decode_key(key), number, value, moment
