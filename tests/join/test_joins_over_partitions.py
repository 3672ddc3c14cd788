"""Joins in stores of several partitions: equal to those of one store, under every operation, and on bad wires."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine import Engine
from penstock.mapreduce import Writes
from penstock.partitions import repartition
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.run_kinds import KINDS
from penstock.testing.seeds.seed_search import Seeds
from penstock.views import Merge
from tests.harness.planting import Bug
from tests.join.crossing_planted import BUGS, SEEDS, finds
from tests.join.engine_histories import chained, judged, nested, records, shop
from tests.join.test_join_operations import shop as small_shop

JOINED = "joined-partitions"


# -- histories


def contributions(engine: Engine) -> list[Any]:
    """Return the contributions of all groups."""
    out: list[Any] = []
    with engine.snapshot() as snap:
        for view in snap.schema.app.views():
            for row in snap.view(view.name).items():
                why = snap.view(view.name).why(row.key)
                out.append((view.name, row.key, [(one.key, one.rank, one.value, one.document) for one in why]))
    return out


def listed(engine: Engine) -> list[str]:
    """Return the entries of quarantine."""
    return sorted(repr((one.id, one.view, one.key, one.reason, one.document)) for one in engine.quarantine())


@pytest.mark.parametrize(("app_of", "partitions"), [(shop, 2), (nested, 3), (chained, 3)])
def test_partitions_show_the_same_as_one_store(app_of: Callable[..., ps.App], partitions: int) -> None:
    rng = random.Random(0)
    app = app_of(rng.choice(list(Merge)), rng.choice(["ts", None]), rng.random() < 0.5)
    oracle = Oracle(app)
    with ps.open(app, None, partitions=partitions) as engine, ps.open(app, None) as one:
        for step in range(5):
            batch = records(rng, step * 2, rng.choice([3, 8, 40]))
            oracle.take(batch)
            for own in engine, one:
                own.ingest(batch, "spout", step + 1)
            engine.settle()
            assert judged(engine, oracle) is None
        assert engine.digest() == one.digest()
        assert repr(contributions(engine)) == repr(contributions(one))
        assert listed(engine) == listed(one)
        assert engine.check().ok
        joins, others = engine.status()["joins"], one.status()["joins"]
        assert {name: (own["held"], own["above_limit"]) for name, own in joins.items()} == {
            name: (own["held"], own["above_limit"]) for name, own in others.items()
        }


# -- operations


def filled(engine: Engine) -> Engine:
    """Put documents whose matches lie in several partitions."""
    engine.put_many("customers", [{"id": key, "country": "no" if key % 2 else "se"} for key in range(8)])
    engine.put_many("orders", [{"id": key, "c": key % 8, "a": key} for key in range(40)])
    engine.settle()
    return engine


def rows(engine: Engine, view: str) -> dict[Any, Any]:
    with engine.snapshot() as snap:
        return dict(snap.view(view).items())


def damage(engine: Engine) -> None:
    """Remove an entry of a side at each partition."""
    for member in engine.store.handles:
        core: Any = member.core

        def change(writer: Any, writes: Writes, core: Any = core) -> None:
            index = core.joins.sides["sold:order"].index
            entries = next(iter(index.all(writer)))
            index.stage(writer, entries.slice(0, 1), entries.slice(0, 0), writes)
            writes.changed = True

        core.amend(change)


@pytest.mark.parametrize("mend", ["check", "restate", "key", "repost"])
def test_wrong_entries_are_found_and_replaced(mend: str) -> None:
    with filled(ps.open(small_shop(), None, partitions=3)) as engine:
        damage(engine)
        assert "side 'order': 3 entries" in str(engine.check().damaged)
        if mend == "check":
            engine.check(fix=True)
        elif mend == "restate":
            engine.restate("sold")
        elif mend == "key":
            engine.restate("orders", 2)
        else:
            engine.repost("orders", {"id": 2, "c": 2, "a": 2})
        assert engine.check().ok
        engine.put("customers", {"id": 1, "country": "dk"})
        engine.settle()
        assert rows(engine, "sums") == rows(engine, "kept") == {"dk": 85, "no": 315, "se": 380}


def test_a_row_is_held_and_released_at_the_owner_of_its_value() -> None:
    with filled(ps.open(small_shop(), None, partitions=3)) as engine:
        engine.put_many("orders", [{"id": key, "c": key % 8, "a": key, "word": 7} for key in range(8)])
        engine.settle()
        found = list(engine.quarantine(view="words"))
        assert sorted(entry.key for entry in found) == [(key, key) for key in range(8)]
        assert all(entry.document["order"]["word"] == 7 for entry in found)
        assert engine.retry(view="words").left == 8
        engine.put_many("orders", [{"id": key, "c": (key + 1) % 8, "a": key, "word": "s"} for key in range(8)])
        engine.settle()
        assert list(engine.quarantine()) == []
        assert rows(engine, "words") == {"no": 16, "nos": 4, "se": 16, "ses": 4}
        assert engine.check().ok


def test_processes_and_a_later_opening_show_the_same(tmp_path: Path) -> None:
    with filled(ps.open(small_shop(), None)) as one, ps.open(small_shop(), tmp_path, partitions=2) as engine:
        filled(engine)
        for own in one, engine:
            own.put("customers", {"id": 3, "country": "dk"})
            own.delete("customers", 5)
        engine.settle()
        assert engine.digest() == one.digest()
        assert rows(engine, "sums") == rows(one, "sums")
        with ps.open(small_shop(), tmp_path, readonly=True) as reader:
            assert rows(reader, "words") == rows(one, "words")
    with ps.open(small_shop(), tmp_path, processes=False) as engine:
        assert engine.check().ok
        for name in ("sums", "kept", "words"):
            with engine.snapshot() as snap:
                assert [one.key for one in snap.view(name).why("dk")] == [(key, 3) for key in range(3, 40, 8)]


# -- repartition


def above(engine: Engine) -> dict[str, int]:
    """Return the number of condition values above the limit by join."""
    return {name: join["above_limit"] for name, join in engine.status()["joins"].items()}


@pytest.mark.parametrize("app_of", [shop, nested, chained])
def test_a_repartition_moves_entries_and_rows(app_of: Callable[..., ps.App], tmp_path: Path) -> None:
    rng, step = random.Random(18), 0
    app = app_of(rng.choice(list(Merge)), rng.choice(["ts", None]), rng.random() < 0.5)
    oracle = Oracle(app)
    for to in 3, 1:
        with ps.open(app, tmp_path, processes=False) as engine:
            batch = records(rng, step * 2, 40)
            oracle.take(batch)
            engine.ingest(batch, "spout", step := step + 1)
            engine.settle()
            assert judged(engine, oracle) is None
            before = engine.digest(), repr(contributions(engine)), listed(engine), above(engine)
            assert any(above(engine).values()) or app_of is not shop
        repartition(tmp_path, to)
        with ps.open(app, tmp_path, processes=False) as engine:
            assert (engine.digest(), repr(contributions(engine)), listed(engine), above(engine)) == before
            assert engine.check().ok


def test_a_repartition_moves_rows_with_long_keys(tmp_path: Path) -> None:
    with ps.open(small_shop(), tmp_path) as engine:
        engine.put_many("customers", [{"id": "k" * size, "country": "no"} for size in (600, 700, 800)])
        engine.put_many("orders", [{"id": "m" * size, "c": "k" * size, "a": 1} for size in (600, 700, 800)])
        engine.put("orders", {"id": "held", "c": "k" * 800, "a": 1, "word": 7})
        digest = engine.digest()
    repartition(tmp_path, 3)
    with ps.open(small_shop(), tmp_path, processes=False) as engine:
        assert engine.digest() == digest
        assert [entry.key for entry in engine.quarantine()] == [("held", "k" * 800)]
        for size in (600, 700, 800):
            engine.put("customers", {"id": "k" * size, "country": "se"})
        engine.put("orders", {"id": "held", "c": "k" * 800, "a": 1, "word": "s"})
        engine.settle()
        assert rows(engine, "words") == {"se": 3, "ses": 1}
        assert list(engine.quarantine()) == []
        assert engine.check().ok


# -- the simulator


def test_no_seed_finds_anything() -> None:
    for seed in (seeds := Seeds(0, 5)):
        found = KINDS[JOINED](seed, seeds.totals)
        if found is not None:
            pytest.fail(f"seed {seed}; replay with: {found.replay}\n{found.story()}")
    assert seeds.totals.faults > seeds.totals.seeds / 2, "faults must strike"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert finds(SEEDS[bug.name]) is not None
