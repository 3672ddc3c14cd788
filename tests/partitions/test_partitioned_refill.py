"""A refill of a store of several partitions has the content of a refilled store of one."""

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
from penstock.cache import MemoryStore, open_lmdb
from penstock.core.schema import described
from penstock.engine import PartitionedStore, open_on
from penstock.mapreduce import small_trees
from penstock.views import ProductionName
from tests.core.crash.crash_points import unsynced
from tests.generations.app_pair import shown
from tests.generations.refills import in_small_steps
from tests.generations.test_refill import shop as small_shop
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


def compare(partitioned: Any, whole: Any) -> None:
    """Check that both have the same content, and that the store of several partitions has no fault."""
    assert partitioned.digest() == whole.digest()
    views = [view.name for view in partitioned.store.state.app.views()]
    assert shown(partitioned, views) == shown(whole, views)
    for name in ("users", "plain"):
        own, other = (engine.status()["tables"][name] for engine in (partitioned, whole))
        assert (own["documents"], own["rejected"]) == (other["documents"], other["rejected"])
    own, other = (sorted((one.place, one.reason) for one in e.quarantine("record")) for e in (partitioned, whole))
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
    with ps.open(app, None, partitions=partitions) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        seed = partitioned.store.layout.seed
        whole, _ = open_on(app, MemoryStore(), seed=seed)
        both: tuple[Any, Any] = partitioned, whole
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
                give(partitioned, given)

        done = partitioned.refill(folder / "parts", progress)
        assert partitioned.status()["position"] == done.position
        give(whole, meanwhile)
        whole.refill(folder / "whole")
        compare(partitioned, whole)
        given = changes(choose, 9)
        for engine in both:
            give(engine, given)
        compare(partitioned, whole)
        assert partitioned.check().ok
        whole.close()
