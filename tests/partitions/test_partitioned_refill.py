"""A refill of a store of several partitions has the content of a refilled store of one, and readers see one switch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import Closed, MemoryStore, PenstockError, StoreMissing, open_lmdb
from penstock.core.schema import described
from penstock.engine import PartitionedStore, open_on
from penstock.mapreduce import small_trees
from penstock.views import ProductionName
from tests.core.crash.crash_points import unsynced
from tests.generations.app_pair import followed, shown
from tests.generations.refills import in_small_steps
from tests.generations.test_refill import SOURCE, docs, elsewhere
from tests.generations.test_refill import shop as small_shop
from tests.partitions.stores import misplaced
from tests.partitions.test_partitions import KINDS, documents, shop

PARTS = 3
VIEWS = [view.name for view in small_shop().views()]
Change = tuple[str, list[dict[str, Any]], Any]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    in_small_steps(monkeypatch)
    with unsynced(), small_trees():
        yield


def changes(choose: Random, now: int) -> list[Change]:
    """Return some documents of each table, and a key to delete."""
    pairs = [{"a": choose.randrange(3), "b": choose.randrange(4), "c": choose.randrange(2)} for _ in range(5)]
    return [
        ("users", documents(choose, choose.randrange(1, 9), now), choose.choice([None, choose.randrange(12)])),
        ("plain", pairs, choose.choice([None, (0, 0)])),
    ]


def give(engine: Any, given: list[Change]) -> None:
    for table, rows, gone in given:
        engine.put_many(table, rows)
        if gone is not None:
            engine.delete(table, gone)


def compare(parts: Any, whole: Any) -> None:
    """Check that both have the same content, and that the store of several partitions has no fault."""
    assert parts.digest() == whole.digest()
    views = [view.name for view in parts.store.state.app.views()]
    assert shown(parts, views) == shown(whole, views)
    for name in ("users", "plain"):
        own, other = (engine.status()["tables"][name] for engine in (parts, whole))
        assert (own["documents"], own["rejected"]) == (other["documents"], other["rejected"])
    own, other = (sorted((one.place, one.reason) for one in e.quarantine("record")) for e in (parts, whole))
    assert own == other


@settings(max_examples=6)
@given(choose=st.randoms(use_true_random=False), partitions=st.integers(1, 4), production=st.sampled_from(KINDS))
def test_any_history_leaves_what_a_refilled_store_of_one_partition_has(
    choose: Random, partitions: int, production: ProductionName, tmp_path_factory: pytest.TempPathFactory
) -> None:
    agree(choose, partitions, production, tmp_path_factory.mktemp("refill"))


def agree(choose: Random, partitions: int, production: ProductionName, folder: Path) -> None:
    """Give one history to both stores, with puts during the refill, and compare them."""
    app = shop(production)
    with ps.open(app, None, partitions=partitions) as parts:
        assert isinstance(parts.store, PartitionedStore)
        seed = parts.store.layout.seed
        whole, _ = open_on(app, MemoryStore(), seed=seed)
        both: tuple[Any, Any] = parts, whole
        for now in range(choose.randrange(3)):
            given = changes(choose, now)
            for engine in both:
                give(engine, given)
        tables = choose.choice([["users"], ["plain"], ["users", "plain"]])
        assert [engine.begin_refill(tables, described(app)) for engine in both] == [seed, seed]
        for now in range(2, 2 + choose.randrange(3)):
            given = changes(choose, now)
            for engine in both:
                give(engine, given)
        read = changes(choose, 3) + changes(choose, 4)
        for name in ("parts", "whole"):
            fresh, _ = open_on(app, open_lmdb(os.fspath(folder / name)), seed=seed)
            with fresh:
                for table, rows, _ in read:
                    if table in tables:
                        fresh.put_many(table, [*rows, b'{"id": 1, "a": '])
        meanwhile: list[Change] = []

        def progress(what: str, done: int, total: int) -> None:
            if what in ("copying", "carrying over") and len(meanwhile) < 12:
                given = changes(choose, 5)
                meanwhile.extend(given)
                give(parts, given)

        done = parts.refill(folder / "parts", progress)
        assert parts.status()["position"] == done.position
        give(whole, meanwhile)
        whole.refill(folder / "whole")
        compare(parts, whole)
        given = changes(choose, 9)
        for engine in both:
            give(engine, given)
        compare(parts, whole)
        assert parts.check().ok
        whole.close()


# -- readers, sources, errors


def live_at(path: Path, offset: int = 0, parts: int = PARTS, processes: bool = False) -> Any:
    engine: Any = ps.open(small_shop(), path, partitions=parts, processes=processes)
    engine.put_many("users", docs(0, 20, "old"))
    engine.put_many("orders", [{"id": 1, "amount": 7}])
    if offset:
        engine.ingest([], source=SOURCE, resume=offset)
    engine.settle()
    return engine


@pytest.mark.parametrize(
    ("before", "meanwhile", "read", "goes_on", "back"),
    [
        pytest.param(0, 0, 50, 50, (), id="a source that the store had not"),
        pytest.param(30, 30, 50, 50, (), id="behind what was read"),
        pytest.param(30, 80, 50, 80, (), id="beyond it, and no gap between"),
        pytest.param(60, 80, 50, 50, (SOURCE,), id="a gap between: it goes back"),
    ],
)
def test_where_a_source_goes_on(
    tmp_path: Path, before: int, meanwhile: int, read: int, goes_on: int, back: tuple[str, ...]
) -> None:
    with live_at(tmp_path / "live", before) as live:
        seed = live.begin_refill(["users"], described(small_shop()))
        live.put("users", {"id": 99, "name": "since", "ts": 99})
        live.ingest([], source=SOURCE, resume=meanwhile)
        done = live.refill(elsewhere(small_shop(), tmp_path / "fresh", seed, docs(0, 9), read))
        assert (done.sources, done.back) == ({SOURCE: goes_on}, back)
        remembered = live.remembered(SOURCE)
        assert remembered is not None
        assert remembered.offset == goes_on
        with live.snapshot() as snap:
            assert snap.sources == {SOURCE: goes_on}
            assert snap.position == done.position
            assert dict(snap.view("names").items()) == {"n0": 3, "n1": 3, "n2": 3, "since": 1}
            assert snap.view("total")[()] == 7, "a table that was not named stays"
        late = ps.Record("users", 98, {"id": 98, "name": "next", "ts": 99}, offset=goes_on - 1)
        assert live.ingest([late], source=SOURCE, resume=goes_on).late == 1
        next_record = ps.Record("users", 98, {"id": 98, "name": "next", "ts": 99}, offset=goes_on)
        assert live.ingest([next_record], source=SOURCE, resume=goes_on + 1).applied == 1
        assert not live.check().wrong


def test_readers_and_followers_see_one_change(tmp_path: Path) -> None:
    app = small_shop()
    with live_at(tmp_path / "live") as live, ps.open(app, tmp_path / "live", readonly=True) as other:
        seed = live.begin_refill(["users"], described(app))
        old = live.snapshot()
        since = live.status()["position"]
        base = {(change.view, change.group): change.new for change in live.changes(initial=True, since=None)}
        seen: list[dict[Any, Any]] = []

        def look(what: str, done: int, total: int) -> None:
            with other.snapshot() as snap:
                seen.append(dict(snap.view("names").items()))

        live.refill(elsewhere(app, tmp_path / "fresh", seed, docs(0, 9)), look)
        was, now = {f"old{i}": 7 - (i == 2) for i in range(3)}, {f"n{i}": 3 for i in range(3)}
        assert [one for i, one in enumerate(seen) if not i or one != seen[i - 1]] == [was, now]
        assert dict(old.view("names").items()) == was
        assert old.table("users")[15]["name"] == "old0"
        old.close()
        for engine in (live, other):
            rows = followed(list(engine.changes(since=since)), dict(base))
            assert rows == {(view, row[0]): row[1] for view in VIEWS for row in shown(engine, VIEWS)[view]}
            found = {(c.group, c.old, c.new) for c in engine.changes("names", since=since)}
            assert found == {(g, n, ps.ABSENT) for g, n in was.items()} | {(g, ps.ABSENT, n) for g, n in now.items()}
        assert live.status()["tables"]["users"]["documents"] == 9
        live.migrate()
        assert not misplaced(live)


def test_an_error_on_the_way_discards_it(tmp_path: Path) -> None:
    app = small_shop()
    with live_at(tmp_path / "live") as live:
        seed = live.begin_refill(["users"], described(app))
        fresh = elsewhere(app, tmp_path / "fresh", seed, docs(0, 9))
        before = live.digest()

        def fail(what: str, done: int, total: int) -> None:
            if what == "copying":
                raise Closed("the test")

        with pytest.raises(Closed):
            live.refill(fresh, fail)
        live.put("users", {"id": 50, "name": "x"})
        live.delete("users", 50)
        with pytest.raises(PenstockError, match="no refill under way"):
            live.refill(fresh)
        live.begin_refill(["users"], described(app))
        with pytest.raises(PenstockError, match=r"no refill under way that .* is for"):
            live.refill(elsewhere(app, tmp_path / "other", seed + 1, docs(0, 9)))
        with pytest.raises(StoreMissing):
            live.refill(tmp_path / "nothing")
        with pytest.raises(ps.UnknownName):
            live.begin_refill(["usres"], described(app))
        with pytest.raises(PenstockError, match="has other definitions than this app"):
            live.begin_refill(["users"], described(small_shop(ts=None)))
        texts = [{"id": 1, "name": "x", "ts": "2024-01-01T00:00:00Z"}]
        with pytest.raises(PenstockError, match="are of kind 'text', and those in the store 'number'"):
            live.refill(elsewhere(app, tmp_path / "texts", seed, texts))
        assert live.check().ok
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
