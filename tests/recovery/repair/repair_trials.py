"""Trials of repairs: damage a store, repair it while others write, and compare it with an undamaged one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any
from unittest import mock

import penstock as ps
from penstock.cache import StoreDamaged
from penstock.mapreduce import TreeReduce, check_trees, small_trees
from penstock.recovery import Shadow
from tests.harness.worlds import TINY
from tests.partitions.stores import placed
from tests.recovery.damage import damage_bytes, damage_remembered, tell, yield_otherwise

GROUPS = ("a", "b", "c", "d", "x" * 450)
VIEWS = ("counted", "kept", "yielded", "listed", "latest", "patched")


def shop() -> ps.App:
    """Return an app with every kind of view, views on views, a function that fails at times, and a patch table."""
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    counted = users.view("counted", key="g", reduce={"n": ps.count(), "total": ps.sum("v")})
    kept = users.view("kept", key="g", value="v", reduce={"max": ps.max(), "kinds": ps.distinct()})
    users.view("listed", key="g", value="v", reduce=None)
    users.view("latest", key="g", value="v", reduce=ps.last())
    counted.view("totals", key="value.n", reduce={"n": ps.count(), "keys": ps.collect(5, "key")})

    @users.view(reduce=ps.sum())
    def yielded(user: dict[str, Any]) -> Iterator[Any]:
        yield user["g"], user["v"]
        if user["v"] % 2:
            yield user["g"], 1

    @kept.view(reduce=ps.count())
    def heights(row: Any) -> Iterator[Any]:
        yield row.value["max"]

    marks = app.table("marks", key="id", merge="patch")
    marks.view("patched", key=("g", "h"), reduce=ps.count())
    return app


class Trial:
    """One store and all its input. `places` are its partitions, or the one store."""

    def __init__(self, seed: int, partitions: int | None = None) -> None:
        self.choose = Random(seed)
        with placed():
            self.engine: Any = ps.open(shop(), None, limits=TINY, partitions=partitions)
        self.places: list[Any] = [self.engine]
        if partitions is not None:
            self.places = [ps.Engine(handle.engine) for handle in self.engine.store.handles]
        self.ts = 0
        for _ in range(self.choose.randrange(4, 12)):
            self.write()

    def document(self) -> dict[str, Any]:
        """Return a user. A function fails on some of the values."""
        self.ts += 1
        choose = self.choose
        doc = {"id": choose.randrange(30), "g": choose.choice(GROUPS), "v": choose.randrange(9), "ts": self.ts}
        return doc if choose.random() < 0.95 else doc | {"v": "no number"}

    def write(self) -> None:
        """Put a batch of documents, patches and deletions."""
        choose = self.choose
        with self.engine.batch() as batch:
            for _ in range(choose.choice([1, 3, 12])):
                batch.put("users", self.document())
                mark = {"id": choose.randrange(9), choose.choice("gh"): choose.choice(GROUPS[:3])}
                batch.put("marks", mark)
            if choose.random() < 0.5:
                batch.delete("users", choose.randrange(30), ts=self.ts)

    def damage(self) -> str:
        """Do random damage: to bytes, to contributions, or to remembered emissions of functions."""
        choose, kind = self.choose, self.choose.random()
        place = choose.choice(self.places) if len(self.places) > 1 else self.engine
        if kind < 0.2:
            done = damage_remembered(place, choose) or ""
        elif kind < 0.5:
            done = damage_bytes(place, choose) or ""
        elif kind < 0.9:
            view = choose.choice(("counted", "kept", "yielded", "latest"))
            number = choose.choice([5, 50])
            value: Any = {"v": number} if view == "counted" else number
            with suppress(StoreDamaged):  # it finds other damage
                tell(place, view, [(choose.choice([3, 4_711]) + 10_000, choose.choice(GROUPS), value)], [])
            done = f"a contribution to {view}"
        else:
            turned = choose.randrange(3)
            with suppress(StoreDamaged):
                yield_otherwise(
                    place,
                    "yielded",
                    lambda docs: [[(g, v) for g, v in p if i % 3 != turned] for i, p in enumerate(docs)],
                )
            done = "what was yielded"
        with suppress(StoreDamaged):
            self.engine.settle()
        for core in (place.store.core for place in self.places):
            for table in core.tables.values():
                table.forget()
            for node in core.views.values():
                if node.chained:
                    node.forget(None)
        return done

    def right(self) -> None:
        """Compare every view with a new store of the same documents, and chained views with their parents' rows."""
        told = self.engine.check().told
        with self.engine.snapshot() as snap, ps.open(shop(), None) as anew:
            for table in ("users", "marks"):
                anew.put_many(table, [doc for _, doc in snap.table(table).items()])
            with anew.snapshot() as fresh:
                for name, source in (*((name, name) for name in VIEWS), ("totals", "counted"), ("heights", "kept")):
                    held = snap.holds_any(source) or fresh.holds_any(source)
                    if not held and source not in told:
                        assert list(snap.view(name).items()) == list(fresh.view(name).items()), name

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Write whenever a repair scans."""
        real, most = Shadow.add, iter(range(4))

        def add(shadow: Shadow, *sides: Any) -> None:
            real(shadow, *sides)
            free = not self.engine.store.state.lock._depth  # with partitions, one scans again while nobody writes
            if len(sides) == 1 and free and next(most, None) is not None:
                with suppress(StoreDamaged):  # the engine refuses a batch that reads damaged rows
                    self.write()

        with mock.patch.object(Shadow, "add", add):
            yield

    def spoil(self) -> None:
        """Write over damaged rows, so that the caches have the damage too. The engine may refuse such a batch."""
        for _ in range(3):
            with suppress(StoreDamaged):
                self.write()

    def emitted(self) -> dict[Any, Any]:
        """Return the remembered emissions of `yielded` by document."""
        with self.engine.snapshot() as snap:
            keys = [key for key, _ in snap.table("users").items()]
            return {
                key: [told.pairs for told in snap.stored("users", key).told if told.view == "yielded"] for key in keys
            }


def run(seed: int, partitions: int | None = None) -> None:
    """Run one trial. An AssertionError names the difference."""
    with small_trees():
        trial = Trial(seed, partitions)
        choose, engine = trial.choose, trial.engine
        before, emitted = engine.digest(), trial.emitted()
        assert engine.restate("users") == engine.restate("marks") == [], "nothing was wrong"
        assert engine.digest() == before
        done = [trial.damage() for _ in range(choose.choice([1, 1, 3]))]
        if any(one.startswith("a bit of") for one in done):
            _of_remembered(trial)
        elif "what was yielded" in done:
            _by_reposts(trial, emitted)
        elif choose.random() < 0.5:
            _by_check(trial)
            assert engine.digest() == before, done
        else:
            _by_restatement(trial)
        _end(trial, done)
        engine.close()


def _by_reposts(trial: Trial, emitted: dict[Any, Any]) -> None:
    """Repair the remembered emissions of functions by a repost of all documents."""
    engine = trial.engine
    engine.restate("users")
    if trial.emitted() != emitted:
        assert "yielded" in engine.check().told, "what no longer fits its document is counted"
    with engine.snapshot() as snap:
        docs = [doc for _, doc in snap.table("users").items()]
    engine.repost_many({"users": docs})
    assert "yielded" not in engine.check().told, "what no longer fitted is replaced"
    engine.restate("marks")


def _of_remembered(trial: Trial) -> None:
    """Check that one check with `fix` names and repairs damaged emissions and indexes."""
    damaged = trial.engine.check()
    assert damaged.damaged, "a turned bit is named"
    fixed = trial.engine.check(fix=True)
    assert fixed.ok, fixed.damaged
    assert fixed.anew, "what was made anew is said"
    if trial.engine.check().told:  # other damage changed remembered emissions
        with trial.engine.snapshot() as snap:
            docs = [doc for _, doc in snap.table("users").items()]
        trial.engine.repost_many({"users": docs})


def _by_check(trial: Trial) -> None:
    """Check that a check with `fix` repairs every fault that a check names."""
    wrong = trial.engine.check().wrong
    fixed = trial.engine.check(fix=True)
    assert fixed.ok
    assert {(one.view, repr(one.group)) for one in wrong} <= {(one.view, repr(one.group)) for one in fixed.wrong}


def _by_restatement(trial: Trial) -> None:
    """Restate view by view while others write, or each group on its own."""
    choose, engine = trial.choose, trial.engine
    if choose.random() < 0.7:
        trial.spoil()
    with trial.meanwhile():
        for view in choose.sample((*VIEWS, "totals", "heights"), 8):
            engine.restate(view)
    trial.spoil()


def _end(trial: Trial, done: list[str]) -> None:
    """Check that every kind of check finds the store sound."""
    engine = trial.engine
    report = engine.check()
    assert report.ok, (done, report.damaged, report.wrong)
    assert not report.wrong, (done, report.wrong)
    assert not report.told, (done, report.told)
    with engine.snapshot() as snap:
        trees = [
            view.reduce for view in trial.places[0].store.core.views.values() if isinstance(view.reduce, TreeReduce)
        ]
        faults = [str(fault) for tree in trees for fault in check_trees(tree, snap.reader())]
    assert not faults, (done, faults[:3])
    trial.right()
