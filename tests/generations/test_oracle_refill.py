"""Tables refilled in another store and taken over by a live store, against one store that took all records in order.

Histories cover all merges. The records are those of the live store, those that the other store read, and those that the
live store got after the refill began. The refill applies the last ones again. It removes former content of a table that
the other store did not read.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import PenstockError, open_lmdb
from penstock.core.schema import described
from penstock.engine import open_on
from penstock.views import Merge
from tests.harness.worlds import RICH, TINY, World
from tests.mapreduce.trees.tree_worlds import TREES
from tests.spark.backfill_job.test_agreement_backfill import rich_record, tree_record
from tests.spark.both import same

Records = list[ps.Record]


def given_to(engine: Any, records: Records) -> None:
    """Put records, a few at a time, each time at the next offset of a test source."""
    for at in range(0, len(records), 5):
        part = [ps.Record(r.table, r.key, r.doc, ts=r.ts) for r in records[at : at + 5]]
        engine.ingest(part, source=f"test{records[0].offset}", resume=at + 5)


def history(world: World, choose: Random, first: int, n: int) -> Records:
    """Return records with different ts, so that no two versions tie."""
    make = rich_record if world is RICH else tree_record
    stamped = {table.name for table in world.app().tables() if table.has_ts}
    out: Records = []
    for i in range(first, first + n):
        record = make(choose, i)
        late = choose.choice([0, 0, 0, 3, 25])
        doc = record.doc
        gone = doc is None and record.table in stamped  # each store would have its own version of such a deletion
        ts = 100 * i - late if gone or record.ts is not None else None
        if doc is not None and "ts" in doc:
            doc = {**doc, "ts": 100 * i - late}
        out.append(ps.Record(record.table, record.key, doc, ts=ts, offset=i))
    return out


def made_elsewhere(app: ps.App, path: Path, seed: int, tables: list[str], records: Records) -> None:
    """Make a store that read these records of these tables."""
    engine, _ = open_on(app, open_lmdb(str(path)), TINY, seed=seed)
    with engine:
        for name in tables:
            own = [r for r in records if r.table == name]
            if own:
                given_to(engine, own)


def repeats(live: Any, tables: list[str], choose: Random) -> dict[str, list[Any]]:
    """Put some documents once more, which changes nothing. Return them by table."""
    out: dict[str, list[Any]] = {}
    for name in tables:
        table = live.store.core.app.table_of(name)
        if table.ts is not None or not table.has_ts:  # else the ts is not in the document
            with live.snapshot() as snap:
                out[name] = [doc for _, doc in snap.table(name).items() if choose.random() < 0.3]
            assert live.put_many(name, out[name]).equal == len(out[name])
    return out


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1 << 32),
    world=st.sampled_from([RICH, TREES]),
    sizes=st.tuples(st.integers(0, 80), st.integers(0, 60), st.sampled_from([0, 3, 90])),
)
def test_it_has_what_was_read_elsewhere_and_what_came_since(
    seed: int, world: World, sizes: tuple[int, int, int]
) -> None:
    choose, app = Random(seed), world.app()
    before = history(world, choose, 1, sizes[0])
    more = history(world, choose, 1 + sizes[0], sizes[1])
    since = history(world, choose, 1 + sizes[0] + sizes[1], sizes[2])
    patched = {table.name for table in app.tables() if table.merge is Merge.PATCH}
    merging = {name for name in patched if not app.table_of(name).has_ts}  # the refill applies whole documents there
    tables = [t.name for t in app.tables() if t.name not in merging and choose.random() < 0.8] or ["users"]
    lost = [r for r in before if r.table not in patched and choose.random() < 0.2]
    read = [r for r in before + more if r.table in tables and r not in lost]
    with TemporaryDirectory() as folder, ps.open(app, None) as oracle:
        live: Any = ps.open(app, Path(folder) / "live", limits=TINY)
        with live:
            if before:
                given_to(live, before)
            mark = live.begin_refill(tables, described(app))
            noted = dict(live.store.core.catalog.refill.since)
            again = repeats(live, [name for name in tables if name not in patched], choose)
            if since:
                given_to(live, since)
            made_elsewhere(app, Path(folder) / "fresh", mark, tables, read)
            passed = [t for t in tables if not app.table_of(t).has_ts and live.store.core.tables[t].log.head > noted[t]]
            if passed:  # later deletions may be gone, without a trace
                with pytest.raises(PenstockError, match="compacting has passed over deletions"):
                    live.refill(Path(folder) / "fresh")
                assert not live.check().wrong
                return
            done = live.refill(Path(folder) / "fresh")
            assert live.status()["position"] == done.position
            more_after = history(world, choose, 1000, 20)
            for part in ([r for r in before if r.table not in tables], read):
                if part:
                    given_to(oracle, part)
            for name, docs in again.items():
                oracle.put_many(name, docs)
            for part in (since, more_after):
                if part:
                    given_to(oracle, part)
            given_to(live, more_after)
        same(app, oracle, Path(folder) / "live")
