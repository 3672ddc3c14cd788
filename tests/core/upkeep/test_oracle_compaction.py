"""Compaction against the oracle: the tombstones that it forgets, later late records, and the unchanged content.

Random histories put and delete records of every kind of table, on both stores. Some records are late. Compaction runs
in steps of a few records. Between steps caches are dropped and the engine is reopened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import Limits
from penstock.core.upkeep import store_compaction
from tests.engine.test_planted_bugs import Edit
from tests.harness.checks import check, counts_of
from tests.harness.histories import small_buckets
from tests.harness.worlds import World
from tests.oracle.reducers import Count
from tests.oracle.tables import BROKER, Table
from tests.oracle.views import View

KEYS = 40
LIMITS = Limits(fold_least=4, fold_most=8, fold_buckets=2, space=3.0, entries=50, segment=4)


def emitting(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield a value from a function. Compaction must move it with its line."""
    yield doc["g"], doc.get("v")


def _views(table: str) -> list[View]:
    return [
        View(f"{table}-by-g", source=table, key="g", reduce=Count()),
        View(f"{table}-told", source=table, fn=emitting, reduce=Count()),
    ]


TABLES = (
    Table("numbers", key="id", ts="ts", tombstones=6),
    Table("floats", key=("a", "id"), ts="at.ts", tombstones=2.5),
    Table("instants", key="id", ts="ts", tombstones=3.25),
    Table("patched", key="id", ts="ts", merge="patch", tombstones=6),
    Table("brokered", key="id", ts=BROKER, tombstones=0),
    Table("lasting", key="id", ts="ts"),
    Table("plain", key="id"),
)
WORLD = World(TABLES, tuple(view for table in TABLES for view in _views(table.name)))


class History:
    """An engine and its oracle."""

    def __init__(self, seed: int, place: Path | None) -> None:
        self.random = Random(seed)
        self.tables = self.random.sample(TABLES, 3)
        self.place = place
        self.model = WORLD.model()
        self.clock = 0
        self.engine = self.open()

    def open(self) -> Any:
        return ps.open(WORLD.app(), self.place, limits=LIMITS)

    def ts(self, table: Table) -> Any:
        """Return a ts near the present, or sometimes long ago."""
        number = self.clock + self.random.choice([0, 0, 1, -1, -5, -9, -30])
        if table.name == "instants":
            return f"2024-01-01T{12 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.5Z"
        return number / 4 if table.name == "floats" else number

    def document(self, table: Table, key: int) -> dict[str, Any]:
        doc = {"id": key, "g": self.random.choice("abc"), "v": self.random.randrange(3)}
        if table.name == "floats":
            return doc | {"a": key % 3, "at": {"ts": self.ts(table)}}
        return doc | {"ts": self.ts(table)} if table.ts == "ts" else doc

    def step(self) -> None:
        """Make one random call, and compare the results."""
        self.clock += 1
        table = self.random.choice(self.tables)
        key = self.random.randrange(KEYS)
        if self.random.random() < 0.45:
            named = (key % 3, key) if table.name == "floats" else key
            ts = None if table.ts is None or self.random.random() < 0.3 else self.ts(table)
            self.same("delete", table.name, named, ts=ts)
        else:
            doc = self.document(table, key)
            options = {"ts": self.ts(table)} if table.ts == BROKER else {}
            self.same("put", table.name, doc, **options)

    def same(self, call: str, *args: Any, **options: Any) -> None:
        wanted = getattr(self.model, call)(*args, **options)
        assert counts_of(getattr(self.engine, call)(*args, **options)) == wanted, (call, args)

    def compact(self) -> None:
        """Compact. Only the tombstones that the oracle forgets may go."""
        digest = self.engine.digest()
        tombstones = self.tombstones()
        done = self.engine.compact()
        forgotten = {name: table.forget() for name, table in self.model.tables.items()}
        assert done.tombstones == sum(forgotten.values())
        assert self.tombstones() == {name: n - forgotten[name] for name, n in tombstones.items()}
        assert self.engine.digest() == digest
        check(self.engine, self.model)

    def tombstones(self) -> dict[str, int]:
        found = self.engine.status()["tables"]
        stored = {name: about["tombstones"] for name, about in found.items()}
        with self.engine.snapshot() as snap:
            for name, n in stored.items():
                living = len(snap.table(name))
                assert len(list(snap.table(name).lines())) == living + n
        return stored

    def reopen(self) -> None:
        if self.place is not None:
            self.engine.close()
            self.engine = self.open()


def run(seed: int, place: Path | None, steps: int) -> None:
    with mock.patch.object(store_compaction, "STEP_RECORDS", 7), small_buckets():
        history = History(seed, place)
        for n in range(steps):
            history.step()
            if n % 67 == 66:
                history.compact()
            if n % 41 == 40:
                for node in history.engine.store.core.tables.values():
                    node.forget()
            if n % 83 == 82:
                history.reopen()
        history.compact()
        history.compact()
        history.engine.close()


@pytest.mark.parametrize("seed", range(4))
def test_histories(seed: int, place: Path | None) -> None:
    run(seed, place, 200)


BUGS = {
    "one is forgotten too early": Edit(
        "gateway.lines.tombstone_limit:forgettable", "limit = Fraction", "limit = 1 + Fraction"
    ),
    "what is forgotten is still counted": Edit(
        "cache.log.tombstone_removal:forget_step", "log.mark.tombstones - int(slots.size)", "log.mark.tombstones"
    ),
    "memory still has what is forgotten": Edit(
        "cache.log.tombstone_removal:forget_step", "log.keys.state[slots] = LOADED", "pass"
    ),
    "the digest has what is to be forgotten": Edit(
        "core.reading.content_digest:_partition_sum", "is_old is not None and", "False and"
    ),
    "a fold that is under way is taken for one of all": Edit(
        "core.upkeep.store_compaction:_Table._fold", "1 + self._log.folding", "1"
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug].plant(monkeypatch)
    with pytest.raises((AssertionError, ps.StoreDamaged, IndexError)):
        _search()


def _search() -> None:
    for seed in range(6):
        run(seed, None, 150)


def test_a_digest_is_that_of_a_store_that_never_had_what_is_forgotten(place: Path | None) -> None:
    app = WORLD.app()
    with ps.open(app, place) as old, ps.open(app, None) as young:
        old.put("numbers", {"id": 1, "g": "a", "ts": 1})
        old.delete("numbers", 1, ts=2)
        old.delete("numbers", 2, ts=94)
        for engine in (old, young):
            engine.put("numbers", {"id": 3, "g": "a", "ts": 100})
        assert old.digest() != young.digest()  # `old` still remembers the deletion with ts 94
        young.delete("numbers", 2, ts=94)
        assert old.digest() == young.digest()
        assert old.compact().tombstones == 1
        assert old.digest() == young.digest()
        assert old.put("numbers", {"id": 1, "g": "a", "ts": 1}).applied == 1
        assert old.put("numbers", {"id": 2, "g": "a", "ts": 1}).late == 1


def test_what_compacting_gives_back(place: Path | None) -> None:
    with ps.open(WORLD.app(), place) as engine:
        docs = [{"id": i, "g": "a", "v": "x" * 100} for i in range(2_000)]
        for n in range(6):
            engine.put_many("plain", [doc | {"v": f"{n}" * 100} for doc in docs])
        said: list[tuple[int, int]] = []
        done = engine.compact(lambda passed, of: said.append((passed, of)))
        assert done.records == 10_000
        assert done.freed == done.before - done.after > 1_000_000
        assert said[-1] == (12_000, 12_000)
        assert said == sorted(said)
        again = engine.compact()
        assert (again.records, again.tombstones, again.freed) == (0, 0, 0)


def test_others_read_and_write_between_the_steps(place: Path | None) -> None:
    """An earlier snapshot, snapshots during the steps, and puts between them all see the right content."""
    with mock.patch.object(store_compaction, "STEP_RECORDS", 10), ps.open(WORLD.app(), place) as engine:
        for ts in range(4):
            engine.put_many("numbers", [{"id": i, "g": "a", "v": ts, "ts": ts} for i in range(60)], batch=7)
        engine.put("numbers", {"id": 1000, "g": "b", "ts": 50})
        for i in range(20):
            engine.delete("numbers", i, ts=5 if i < 15 else 46)
        before = engine.snapshot()
        seen = 0

        def between(passed: int, of: int) -> None:
            nonlocal seen
            seen += 1
            engine.put("numbers", {"id": 2000 + seen, "g": "c", "ts": 1})
            assert engine.put("numbers", {"id": 17, "g": "a", "ts": 1}).late == 1
            with engine.snapshot() as snap:
                assert len(snap.table("numbers")) == 41 + seen
                assert snap.view("numbers-by-g")["c"] == seen
                assert snap.table("numbers").get_many([3, 17, 30, 2000 + seen]) == [
                    None,
                    None,
                    {"id": 30, "g": "a", "v": 3, "ts": 3},
                    {"id": 2000 + seen, "g": "c", "ts": 1},
                ]

        assert engine.compact(between).tombstones == 15
        assert seen > 5
        assert len(list(before.table("numbers").lines())) == 61
        assert before.table("numbers").get(3) is None
        assert before.table("numbers")[30]["v"] == 3
        before.close()


def test_compacting_is_for_who_writes(store_path: Path) -> None:
    ps.open(WORLD.app(), store_path).close()
    with ps.open(WORLD.app(), store_path, readonly=True) as engine, pytest.raises(ps.ReadOnly):
        engine.compact()
