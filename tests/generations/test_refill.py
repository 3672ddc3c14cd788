"""Tables refilled in another store and taken over: offsets, the feed, quarantine, readers, and kills on the way.

Cases of `kind` run over one store and over partitions in this process. Readers are also tried over processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import Closed, PenstockError, StoreMissing, open_lmdb
from penstock.core.schema import described
from penstock.engine import open_on, writer
from penstock.mapreduce import small_trees
from tests.core.crash.crash_points import unsynced
from tests.generations.app_pair import followed, shown
from tests.generations.refills import in_small_steps
from tests.harness.worlds import TINY
from tests.partitions.stores import misplaced
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE

SOURCE = "users=file:users.jsonl"
ONE, PARTITIONS, PROCESSES = "one store", "partitions", "processes"
OPENED: dict[str, dict[str, Any]] = {
    ONE: {},
    PARTITIONS: {"partitions": 3, "processes": False},
    PROCESSES: {"partitions": 2},
}


@pytest.fixture(params=[ONE, PARTITIONS])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name a kind of store. Partitions in this process take small steps and have small trees."""
    with ExitStack() as stack:
        if request.param == PARTITIONS:
            in_small_steps(monkeypatch)
            stack.enter_context(unsynced())
            stack.enter_context(small_trees())
        yield request.param


def shop(ts: str | None = "ts") -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts=ts)
    names = users.view("names", key="name", reduce=ps.count())
    users.view("largest", key="name", value="amount", reduce=ps.max())
    names.view("sizes", key="value", reduce=ps.count())
    app.table("orders", key="id").view("total", key=(), value="amount", reduce=ps.sum())
    return app


def docs(first: int, last: int, name: str = "n") -> list[dict[str, Any]]:
    return [{"id": i, "name": f"{name}{i % 3}", "amount": i, "ts": i} for i in range(first, last)]


def elsewhere(app: ps.App, path: Path, seed: int, rows: list[Any], offset: int = 0) -> str:
    """Make a store that read these rows of users from the source. Return its folder."""
    engine, _ = open_on(app, open_lmdb(os.fspath(path)), TINY, seed=seed)
    with engine:
        if rows:
            engine.put_many("users", rows)
        if offset:
            engine.ingest([], source=SOURCE, resume=offset)
    return os.fspath(path)


def live_at(app: ps.App, path: Path, offset: int, kind: str = ONE) -> Any:
    engine: Any = ps.open(app, path, **OPENED[kind])
    engine.put_many("users", docs(0, 20, "old"))
    engine.put_many("orders", [{"id": 1, "amount": 7}])
    if offset:
        engine.ingest([], source=SOURCE, resume=offset)
    engine.settle()
    return engine


SOURCES = [
    pytest.param(0, 0, 50, 50, (), id="a source that the store had not"),
    pytest.param(30, 30, 50, 50, (), id="behind what was read"),
    pytest.param(30, 80, 50, 80, (), id="beyond it, and no gap between"),
    pytest.param(60, 80, 50, 50, (SOURCE,), id="a gap between: it goes back"),
]


@pytest.mark.parametrize(("before", "meanwhile", "read", "goes_on", "back"), SOURCES)
def test_where_a_source_goes_on(
    tmp_path: Path, kind: str, before: int, meanwhile: int, read: int, goes_on: int, back: tuple[str, ...]
) -> None:
    app = shop()
    with live_at(app, tmp_path / "live", before, kind) as live:
        seed = live.begin_refill(["users"], described(app))
        live.put("users", {"id": 97, "name": "since", "ts": 99})
        record = ps.Record("users", 99, {"id": 99, "name": "since", "ts": 99})
        applied = live.ingest([record], source=SOURCE, resume=meanwhile).applied
        assert applied == (before == 0 or meanwhile > before), "else it is a redelivery"
        done = live.refill(elsewhere(app, tmp_path / "fresh", seed, docs(0, 9), read))
        assert (done.sources, done.back) == ({SOURCE: goes_on}, back)
        remembered = live.remembered(SOURCE)
        assert remembered is not None
        assert remembered.offset == goes_on
        with live.snapshot() as snap:
            assert snap.sources == {SOURCE: goes_on}
            assert snap.position == done.position
            assert dict(snap.view("names").items()) == {"n0": 3, "n1": 3, "n2": 3, "since": 1 + applied}
            assert snap.view("total")[()] == 7, "a table that was not named stays"
        late = ps.Record("users", 98, {"id": 98, "name": "next", "ts": 99}, offset=goes_on - 1)
        assert live.ingest([late], source=SOURCE, resume=goes_on).late == 1
        next_record = ps.Record("users", 98, {"id": 98, "name": "next", "ts": 99}, offset=goes_on)
        assert live.ingest([next_record], source=SOURCE, resume=goes_on + 1).applied == 1
        assert not live.check().wrong


def test_writes_that_change_nothing_meanwhile_are_kept(tmp_path: Path, kind: str) -> None:
    """The other store read none of these keys, or read a key that was deleted here."""
    for ts in ("ts", None):
        app, folder = shop(ts), tmp_path / str(ts)
        folder.mkdir()
        with live_at(app, folder / "live", 0, kind) as live:
            live.put("users", {"id": 30, "name": "gone", "amount": 1, "ts": 1})
            live.delete("users", 30)
            seed = live.begin_refill(["users"], described(app))
            assert live.put("users", docs(7, 8, "old")[0]).equal == 1
            assert live.put_many("users", docs(0, 20, "old")[12:15]).equal == 3
            assert live.delete("users", 30).equal == 1
            if ts is not None:
                assert live.put("users", {"id": 16, "name": "late", "ts": 1}).late == 1
            live.put("users", {"id": 13, "name": "later", "amount": 13, "ts": 99})
            live.refill(elsewhere(app, folder / "fresh", seed, [*docs(0, 2), *docs(30, 31)]))
            with live.snapshot() as snap:
                names = {key: doc["name"] for key, doc in snap.table("users").items()}
            late = {} if ts is None else {16: "old1", 30: "n0"}  # the other store read a later version of 30
            assert names == {0: "n0", 1: "n1", 7: "old1", 12: "old0", 13: "later", 14: "old2", **late}
            assert not live.check().wrong
            live.begin_refill(["users"], described(app))
            assert live.put("users", {"id": 13, "name": "later", "amount": 13, "ts": 99}).equal == 1
            seed = live.begin_refill(["users"], described(app))
            live.refill(elsewhere(app, folder / "other", seed, docs(0, 2)))
            with live.snapshot() as snap:
                assert len(snap.table("users")) == 2, "keys of an earlier refill are not kept"


@pytest.mark.parametrize("kind", OPENED, indirect=True)
def test_readers_and_followers_see_one_change(tmp_path: Path, kind: str) -> None:
    app = shop()
    views = [view.name for view in app.views()]
    with live_at(app, tmp_path / "live", 0, kind) as live, ps.open(app, tmp_path / "live", readonly=True) as other:
        seed = live.begin_refill(["users"], described(app))
        old = live.snapshot()
        since = live.status()["position"]
        base = {(change.view, change.group): change.new for change in live.changes(initial=True, since=None)}
        seen: list[dict[Any, Any]] = []

        def look(what: str, done: int, total: int) -> None:
            with other.snapshot() as snap:
                seen.append(dict(snap.view("names").items()))

        done = live.refill(elsewhere(app, tmp_path / "fresh", seed, docs(0, 9)), look)
        was, now = {f"old{i}": 7 - (i == 2) for i in range(3)}, {f"n{i}": 3 for i in range(3)}
        assert [one for i, one in enumerate(seen) if not i or one != seen[i - 1]] == [was, now]
        assert dict(old.view("names").items()) == was
        assert old.table("users")[15]["name"] == "old0"
        old.close()
        assert kind != ONE or done.position == since + 1
        for engine in (live, other):
            rows = followed(list(engine.changes(since=since)), dict(base))
            assert rows == {(view, row[0]): row[1] for view in views for row in shown(engine, views)[view]}
            found = {(c.group, c.old, c.new) for c in engine.changes("names", since=since)}
            assert found == {(g, n, ps.ABSENT) for g, n in was.items()} | {(g, ps.ABSENT, n) for g, n in now.items()}
        live.put("users", {"id": 0, "name": "x", "ts": 100})
        live.settle()
        assert {c.group for c in other.changes("names", since=done.position)} == {"n0", "x"}
        assert live.status()["tables"]["users"]["documents"] == 9
        live.migrate()
        assert kind == ONE or not misplaced(live)


def test_what_is_in_quarantine_stays_and_counts_as_older(tmp_path: Path) -> None:
    app = shop(ts=None)
    with live_at(app, tmp_path / "live", 0) as live:
        live.put_many("users", [b'{"id": 3, "name": "late"', {"name": "no key"}])
        live.put_many("users", docs(0, 20))
        seed = live.begin_refill(["users"], described(app))
        live.refill(elsewhere(app, tmp_path / "fresh", seed, [*docs(0, 9), b'{"id"']))
        assert sorted(entry.id for entry in live.quarantine("record")) == ["r0", "r1", "r2"]
        assert live.status()["tables"]["users"]["rejected"] == 3
        assert live.retry("r0").left == 1
        assert live.drop(kind="record").dropped == 3


def images(folder: Path, live: Path) -> Any:
    """Copy the store at each step, as a kill of the process there would leave it."""
    steps: list[Path] = []

    def take(what: str, done: int, total: int) -> None:
        steps.append(folder / f"{len(steps)}-{what.replace(' ', '-')}")
        shutil.copytree(live, steps[-1], ignore=shutil.ignore_patterns("*.sock", "socket*"))

    return steps, take


def test_killed_at_any_step_it_is_what_it_was_and_may_be_refilled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["penstock.generations.refill"], "_STEP_LINES", 4)
    app = shop()
    with live_at(app, tmp_path / "live", 0) as live:
        seed = live.begin_refill(["users"], described(app))
        live.put_many("users", [{"id": i, "name": "since", "ts": 500} for i in range(9, 30)])
        fresh = elsewhere(app, tmp_path / "fresh", seed, docs(0, 9))
        before = live.digest()
        steps, take = images(tmp_path, tmp_path / "live")
        live.refill(fresh, take)
        after = live.digest()
    assert {"copying", "carrying-over", "switching"} == {path.name.partition("-")[2] for path in steps}
    for path in steps:
        with ps.open(app, path) as again:
            switched = path.name.endswith("switching")
            assert again.digest() == (after if switched else before), path.name
            assert not again.check().wrong
            again.migrate()  # this empties the filled databases
            if not switched:
                assert strays(again) == []
                again.refill(fresh)
                assert again.digest() == after
            again.migrate()
            assert all(db.startswith("view:") for db in strays(again)), "of these the feed has changes"


def strays(engine: Any) -> list[str]:
    """Return the databases with rows that belong to no entry of the catalog."""
    with engine.snapshot() as snap:
        numbers = {entry.number for entry in snap.schema.catalog.entries.values()}
        dbs = [db for db in snap.reader().names() if db.partition(":")[2].isdigit()]
        return [db for db in dbs if int(db.partition(":")[2]) not in numbers and snap.reader().count(db)]


DRIVER = """
import os, signal, sys
import penstock as ps
from penstock.engine import writer
from tests.generations.test_refill import shop

def tell(what, done, total):
    if what == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

with writer(sys.argv[1], shop()) as writing:
    writing.refill(sys.argv[2], tell)
"""


@pytest.mark.parametrize("stage", ["copying", "carrying over"])
def test_whoever_asked_is_killed_and_the_holder_goes_on(
    tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refilling = sys.modules["penstock.generations.refill"]
    monkeypatch.setattr(refilling, "_STEP_LINES", 4)
    app = shop()
    with live_at(app, tmp_path / "live", 0) as live:
        with writer(tmp_path / "live", app) as writing:
            assert writing.holder is not None
            seed = writing.begin_refill(["users"], described(app))
            live.put_many("users", [{"id": i, "name": "since", "ts": 500} for i in range(9, 400)])
            fresh = elsewhere(app, tmp_path / "fresh", seed, docs(0, 400))
            before, names = live.digest(), dict(live.snapshot().view("names").items())
            killed = subprocess.run(
                [sys.executable, "-c", DRIVER, str(tmp_path / "live"), fresh, stage],
                cwd=ROOT,
                timeout=PATIENCE,
                check=False,
            )
            assert killed.returncode == -signal.SIGKILL
            live.put("orders", {"id": 2, "amount": 1})
            live.delete("orders", 2)
            assert writing.begin_refill(["users"], described(app)) == seed  # this ends the refill in progress
            with live.snapshot() as snap:
                switched = dict(snap.view("names").items()) != names
            assert (live.digest() == before) is not switched
            assert not switched or stage == "carrying over", "who holds the store may end it, it had all of it"
            live.put("users", {"id": 7, "name": "again", "ts": 900})
            done = writing.refill(fresh)
        with live.snapshot() as snap:
            assert snap.position == done.position
            assert snap.view("names")["again"] == 1
            assert "since" not in snap.view("names")
        assert not live.check().wrong


@pytest.mark.parametrize("stage", ["copying", "switching"])
def test_an_error_of_the_caller_discards_it(tmp_path: Path, kind: str, stage: str) -> None:
    """An error after the switch reaches the caller, and the refill stands."""
    app = shop()
    with live_at(app, tmp_path / "live", 0, kind) as live:
        seed = live.begin_refill(["users"], described(app))
        fresh = elsewhere(app, tmp_path / "fresh", seed, docs(0, 9))
        before = live.digest()

        def fail(what: str, done: int, total: int) -> None:
            if what == stage:
                raise Closed("the test")

        with pytest.raises(Closed):
            live.refill(fresh, fail)
        assert (live.digest() == before) is (stage != "switching")
        live.put("users", {"id": 50, "name": "x"})
        live.delete("users", 50)
        with pytest.raises(PenstockError, match="no refill under way"):
            live.refill(fresh)
        assert live.check().ok


def test_a_store_that_the_refill_is_not_for(tmp_path: Path, kind: str) -> None:
    app = shop()
    with live_at(app, tmp_path / "live", 0, kind) as live:
        seed = live.begin_refill(["users"], described(app))
        fresh = elsewhere(app, tmp_path / "fresh", seed, docs(0, 9))
        before = live.digest()
        with pytest.raises(PenstockError, match=r"no refill under way that .* is for"):
            live.refill(elsewhere(app, tmp_path / "other", seed + 1, docs(0, 9)))
        with pytest.raises(StoreMissing):
            live.refill(tmp_path / "nothing")
        with pytest.raises(ps.UnknownName):
            live.begin_refill(["usres"], described(app))
        with pytest.raises(PenstockError, match="has other definitions than this app"):
            live.begin_refill(["users"], described(shop(ts=None)))
        texts = [{"id": 1, "name": "x", "ts": "2024-01-01T00:00:00Z"}]
        with pytest.raises(PenstockError, match="are of kind 'text', and those in the store 'number'"):
            live.refill(elsewhere(app, tmp_path / "texts", seed, texts))
        assert live.check().ok
        assert live.digest() == before
        live.begin_refill(["users"], described(app))

        def another(what: str, done: int, total: int) -> None:
            if what == "copying":
                live.begin_refill(["users"], described(app))

        with pytest.raises(PenstockError, match="another backfill of this store was begun meanwhile"):
            live.refill(fresh, another)
        assert live.refill(fresh).sources == {}
        assert live.check().ok
        live.migrate()
        assert live.digest() != before


def test_deletions_whose_ts_are_texts_are_laid_over(tmp_path: Path, kind: str) -> None:
    app = shop()

    def doc(key: int, day: str) -> dict[str, Any]:
        return {"id": key, "name": "x", "amount": 1, "ts": f"{day}T00:00:00.000000001Z"}

    live: Any
    with ps.open(app, tmp_path / "live", **OPENED[kind]) as live:
        live.put_many("users", [doc(1, "2024-01-02"), doc(2, "0988-01-02")])
        seed = live.begin_refill(["users"], described(app))
        live.delete("users", 1, ts="2024-02-01T00:00:00.5Z")
        live.delete("users", 2, ts="0988-01-02T00:00:00.000000002Z")
        read = [doc(1, "2024-01-31"), doc(2, "0988-01-02"), doc(3, "1969-12-31")]
        live.refill(elsewhere(app, tmp_path / "fresh", seed, read))
        with live.snapshot() as snap:
            assert [row.key for row in snap.table("users").items()] == [3]
        assert live.put("users", doc(1, "2024-02-01")).late == 1
        assert live.put("users", doc(2, "0988-01-02")).late == 1
