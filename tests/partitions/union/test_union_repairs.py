"""Repairs over several partitions: the faults of any store, and those that only partitions can have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import MemoryStore, StoreDamaged, encode_key
from penstock.engine import Member, PartitionedStore, open_on
from penstock.mapreduce import rows_db
from penstock.partitions.exchange.exchange import PartitionExchange
from penstock.partitions.partition_process import PartitionProcess
from penstock.recovery import Mended, Repaired, parts_of
from penstock.spout import opened
from penstock.views import ABSENT
from tests.partitions.partition_app import SOURCE, app, batch
from tests.partitions.stores import placed
from tests.recovery.damage import add_to_lane, content_of, overwrite, tell, turn_a_bit, yield_otherwise
from tests.recovery.repair import repair_trials
from tests.recovery.repair.test_repost import delivered
from tests.recovery.repair.test_restate import restated

VIEWS = ("counted", "kept", "yielded", "listed", "heights", "sizes")


def shop() -> ps.App:
    """Return an app with each kind of view, and views on views."""
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    counted = users.view("counted", key="g", reduce={"n": ps.count(), "total": ps.sum("v")})
    kept = users.view("kept", key="g", value="v", reduce={"max": ps.max(), "kinds": ps.distinct()})
    users.view("listed", key="g", value="v", reduce=None)
    counted.view("sizes", key="value.n", reduce=ps.count())

    @users.view(reduce=ps.sum())
    def yielded(user: dict[str, Any]) -> Iterator[Any]:
        yield user["g"], user["v"]

    @kept.view(reduce=ps.count())
    def heights(row: Any) -> Iterator[Any]:
        yield row.value["max"]

    return app


def document(i: int, **fields: Any) -> dict[str, Any]:
    return {"id": i, "g": f"g{i % 7}", "v": i, "ts": 1} | fields


@pytest.fixture(params=[2, 3])
def partitioned(request: pytest.FixtureRequest) -> Iterator[Any]:
    with placed(), ps.open(shop(), None, partitions=request.param) as engine:
        engine.put_many("users", [document(i) for i in range(60)])
        yield engine


def owner(engine: Any, group: Any) -> Any:
    """Return the engine of the partition that owns a group."""
    return ps.Engine(engine.store.handles[engine.store.ranges.of(encode_key(group))].engine)


def contents(engine: Any) -> list[Any]:
    return [content_of(ps.Engine(handle.engine)) for handle in engine.store.handles]


def shown(engine: Any) -> list[Any]:
    with engine.snapshot() as snap:
        return [list(snap.view(view).items()) for view in VIEWS]


def like_one(engine: Any) -> None:
    """Check that the store equals a store of one partition with the same documents."""
    whole, _ = open_on(shop(), MemoryStore(), seed=engine.store.layout.seed)
    with engine.snapshot(consistency="position") as snap:
        whole.put_many("users", [row.value for row in snap.table("users").items()])
    assert engine.digest() == whole.digest()
    report = engine.check()
    assert report.ok, report


@pytest.mark.parametrize("seed", [3, 31, 46])
def test_any_damage_of_any_partition_is_repaired(seed: int) -> None:
    repair_trials.run(seed, 2 + seed % 2)


def test_what_is_right_is_not_touched(partitioned: Any) -> None:
    partitioned.settle()
    before = contents(partitioned)
    assert partitioned.restate("users") == []
    assert partitioned.restate("counted", "g3") == partitioned.restate("users", 7) == []
    assert partitioned.repost("users", document(7, g="g1")) == partitioned.repost("users", document(99)) == []
    report = partitioned.check(fix=True)
    assert (report.ok, report.documents, report.wrong) == (True, 60, ())
    assert contents(partitioned) == before


# -- faults of partitions only


def put_elsewhere(copy: bool, view: str, group: Any, engine: Any) -> None:
    """Put a group's row into a partition that doesn't own it; remove it from the owner or not."""
    db = rows_db(owner(engine, group).store.core.views[view].number)
    own, key = owner(engine, group), encode_key(group)
    other = next(ps.Engine(handle.engine) for handle in engine.store.handles if handle.engine is not own.store)
    with own.snapshot() as snap:
        [row] = snap.reader().get_many(db, [key])
    overwrite(other, db, {key: row})
    if not copy:
        overwrite(own, db, {key: None})
    for handle in engine.store.handles:
        handle.engine.core.forget()


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("view", ["counted", "kept", "yielded"])
def test_a_row_that_lies_with_another_partition(view: str, asked: bool, copy: bool, partitioned: Any) -> None:
    before, was = partitioned.digest(), shown(partitioned)
    with partitioned.snapshot() as snap:
        right = snap.view(view)["g3"]
    put_elsewhere(copy, view, "g3", partitioned)
    assert partitioned.check().wrong
    found = restated(partitioned, view, "g3") if asked else restated(partitioned, view)
    assert found[view, "g3"] == Repaired(view, "g3", right, right, Mended.CONTENT if copy else Mended.RESULT)
    assert {name for name, _ in found} == {view}
    assert (partitioned.digest(), shown(partitioned)) == (before, was)
    assert partitioned.check().ok


@contextmanager
def taking(monkeypatch: pytest.MonkeyPatch, take: Callable[[Any, Any], int]) -> Iterator[None]:
    """Replace the function that applies productions."""
    with monkeypatch.context() as patch:
        patch.setattr(Member, "receive", take)
        yield


def twice(member: Any, production: Any) -> int:
    """Add the sums of a production to views of documents twice; trees would ignore the second one."""
    number = _RECEIVE(member, production)
    roots = [view.number for view in member.core.views.values() if not view.chained]
    sums = [p for owed in production.owed for p in parts_of(owed) if p[0] in roots and p[2] is not None]
    core = member.core
    core.amend(
        lambda writer, writes: member._exchange.gather(core.views.values(), core.catalog.highest(), sums, writes)
    )
    return number


def never(member: Any, production: Any) -> int:
    """Count a production as applied, and fold nothing of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionExchange, "gather", lambda *nothing: None)
        return _RECEIVE(member, production)


_RECEIVE = Member.receive


@pytest.mark.parametrize("how", [twice, never])
def test_a_production_that_is_taken_twice_or_never(
    how: Callable[[Any, Any], int], partitioned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taking(monkeypatch, how):
        partitioned.put_many("users", [document(i, g=f"g{i % 5}", v=i + 100, ts=2) for i in range(0, 60, 3)])
    wrong = partitioned.check().wrong
    assert {one.view for one in wrong} >= {"counted", "yielded"}
    fixed = partitioned.check(fix=True)
    assert fixed.ok
    named = {(one.view, repr(one.group)) for one in fixed.wrong}
    assert {(one.view, repr(one.group)) for one in wrong} <= named
    like_one(partitioned)


def test_what_can_t_be_taken_for_damage_is_taken_once_that_is_repaired(partitioned: Any) -> None:
    """A damaged group blocks productions; after the repair each production in flight counts once."""
    choose, own = Random(3), owner(partitioned, "g1")
    groups = [f"g{i}" for i in range(7) if owner(partitioned, f"g{i}").store is own.store]
    for view in ("counted", "kept", "yielded"):
        db, key = rows_db(own.store.core.views[view].number), encode_key(choose.choice(groups))
        with own.snapshot() as snap:
            [row] = snap.reader().get_many(db, [key])
        overwrite(own, db, turn_a_bit(key, {key: row}, choose))
    own.store.core.forget()
    others = [i for i in range(90) if owner(partitioned, i).store is not own.store]
    for ts in range(2, 5):
        values = [choose.choice([i, i / 7, -(1 << 63)]) for i in others]
        docs = [document(i, g=f"g{(i + ts) % 7}", v=v, ts=ts) for i, v in zip(others, values, strict=True)]
        with suppress(StoreDamaged):  # the documents are stored, but their groups' owner refuses the production
            partitioned.put_many("users", docs)
    assert any(handle.standing().refused for handle in partitioned.store.handles)
    with pytest.raises(ps.PenstockError, match="can't take what partition"):
        partitioned.settle()
    assert not partitioned.check().ok
    for view in ("counted", "kept", "yielded"):
        partitioned.restate(view)
    partitioned.settle()
    assert not any(handle.standing().refused for handle in partitioned.store.handles)
    assert partitioned.restate("users") == []
    like_one(partitioned)


def test_a_group_that_has_taken_more_meanwhile_is_left(partitioned: Any) -> None:
    handle, key = partitioned.store.handles[partitioned.store.ranges.of(encode_key("g3"))], encode_key("g3")
    before, taken = partitioned.digest(), list(handle.standing().taken.items())
    assert not handle.repair("mend", "counted", MemoryStore(), [key], [], [(other, n - 1) for other, n in taken])
    assert partitioned.digest() == before
    assert handle.repair("mend", "counted", MemoryStore(), [key], [], taken)
    assert partitioned.digest() != before


def test_what_a_repost_changes_at_others_is_said(partitioned: Any) -> None:
    before = partitioned.digest()
    for handle in partitioned.store.handles:
        yield_otherwise(
            ps.Engine(handle.engine), "yielded", lambda docs: [[(g, v + 1) for g, v in pairs] for pairs in docs]
        )
        handle.engine.core.forget()
    partitioned.restate("yielded")
    assert partitioned.check().told == {"yielded": 60}
    found = partitioned.repost_many({"users": [document(i) for i in range(60)]})
    with partitioned.snapshot() as snap:
        now = [(row.key, row.value) for row in snap.view("yielded")]
    assert sorted((one.group, one.new) for one in found if one.view == "yielded") == now
    assert partitioned.digest() == before
    assert partitioned.check().told == {}


def test_views_on_a_view_follow_to_whoever_owns_them(partitioned: Any) -> None:
    before = partitioned.digest()
    for group in ("g1", "g2", "g3", "orphan"):
        tell(owner(partitioned, group), "counted", [(7_000, group, {"v": 1})], [])
        tell(owner(partitioned, group), "kept", [(7_000, group, 77)], [])
    partitioned.settle()
    with partitioned.snapshot() as snap:
        assert snap.view("heights")[77] == 4
    found = restated(partitioned, "kept")
    assert found["heights", 77] == Repaired("heights", 77, 4, ABSENT)
    assert {view for view, _ in restated(partitioned, "counted")} == {"counted", "sizes"}
    assert partitioned.digest() == before
    like_one(partitioned)


def test_the_feed_of_the_owner_has_what_was_repaired(partitioned: Any) -> None:
    with partitioned.snapshot() as snap:
        since, right = snap.position, snap.view("counted")["g3"]
    add_to_lane(owner(partitioned, "g3"), "counted", "g3", lane=0, by=5)
    assert [one.group for one in partitioned.restate("counted", "g3")] == ["g3"]
    [change] = partitioned.changes("counted", since=since)
    assert (change.group, change.old["n"], change.new) == ("g3", right["n"] + 5, right)


def test_a_repost_over_partitions(partitioned: Any, tmp_path: Path) -> None:
    before = partitioned.digest()

    def leave_behind() -> None:
        for i in (3, 4, 5):
            tell(owner(partitioned, "Sam"), "yielded", [(i, "Sam", 90)], [])
            tell(owner(partitioned, "Sam"), "kept", [(i, "Sam", 90)], [])
        partitioned.settle()
        assert partitioned.digest() != before

    leave_behind()
    found = {(one.view, one.group) for one in partitioned.repost("users", document(3, g="Sam"))}
    assert {("yielded", "Sam"), ("kept", "Sam"), ("heights", 90)} <= found
    assert partitioned.digest() == before
    leave_behind()
    wire = {"topic": "users(id)", "ts": 0, "id": 3, "g": "Sam", "v": 1}
    records = [opened(shop(), wire), opened(shop(), {"topic": "users", "ts": 0, "g": "Sam"})]
    counts = partitioned.ingest(records, "file:a", 2)
    assert (counts.equal, counts.rejected) == (1, 1)
    assert partitioned.digest() == before
    leave_behind()
    [given] = delivered(partitioned, tmp_path / "wire.jsonl", wire, {"topic": "users", "ts": 1, **document(3)})
    assert (given.equal, given.rejected) == (2, 0)
    assert delivered(partitioned, tmp_path / "wire.jsonl") == []
    like_one(partitioned)


def test_others_write_while_a_right_store_is_checked(partitioned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers don't wait for a comparison that finds no difference; if it finds one, no write comes in between."""
    held: list[bool] = []
    real = repair_trials.Shadow.add

    def add(shadow: Any, *sides: Any) -> None:
        held.append(bool(partitioned.store.state.lock._depth))
        real(shadow, *sides)

    monkeypatch.setattr(repair_trials.Shadow, "add", add)
    assert partitioned.check(fix=True).ok
    assert held
    assert not any(held)
    add_to_lane(owner(partitioned, "g3"), "counted", "g3", lane=0)
    held.clear()
    assert partitioned.restate("counted")
    assert any(held)


def test_a_bit_of_a_row_in_processes_of_their_own(tmp_path: Path) -> None:
    """Damage on the disk of a closed store is repaired by the processes of its partitions."""
    path = tmp_path / "store"
    with ps.open(shop(), path, partitions=2, processes=False) as engine:
        assert isinstance(engine.store, PartitionedStore)
        engine.put_many("users", [document(i, g="x" * 420 if i % 11 == 3 else f"g{i % 7}") for i in range(60)])
        engine.settle()
        before, choose = engine.digest(), Random(1)
        for view in ("counted", "kept", "yielded"):
            for handle in engine.store.handles:
                own: Any = ps.Engine(handle.engine)  # type: ignore[attr-defined]
                db = rows_db(own.store.core.views[view].number)
                with own.snapshot() as snap:
                    rows = dict(snap.reader().scan(db))
                overwrite(own, db, turn_a_bit(choose.choice(sorted(rows)), rows, choose))
    with ps.open(shop(), path) as engine:
        passed: list[tuple[int, int]] = []
        assert engine.check().wrong
        found = engine.restate("users", progress=lambda done, total: passed.append((done, total)))
        assert {one.what for one in found if one.view != "heights"} <= {Mended.UNREADABLE, Mended.RESULT}
        assert {"counted", "kept", "yielded"} <= {one.view for one in found}
        assert passed[-1][0] == passed[-1][1] > 0
        assert engine.digest() == before
        assert engine.check(fix=True).wrong == ()
        assert not list(path.glob("*/repair-*"))


# -- killed in the middle


def spoil(path: Path) -> str:
    """Make a store with faults in many groups of both partitions; return the digest from before."""
    with ps.open(app, path, partitions=2, processes=False) as engine:
        assert isinstance(engine.store, PartitionedStore)
        for number in range(1, 6):
            engine.ingest(batch(number), SOURCE, number + 1)
        engine.settle()
        before = engine.digest()
        for handle in engine.store.handles:
            own: Any = ps.Engine(handle.engine)  # type: ignore[attr-defined]
            for view in ("cities", "letters", "spent"):
                with own.snapshot() as snap:
                    groups = [row.key for row in snap.view(view)]
                for group in groups:
                    add_to_lane(own, view, group, lane=0, by=3)
        assert engine.digest() != before
    return before


def die(path: str, at: int) -> None:
    """Repair, and kill this process at this step."""
    steps, real = iter(range(at)), PartitionProcess.repair

    def repair(self: Any, do: str, *what: Any) -> Any:
        if do not in ("collect", "collected") and next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, do, *what)

    PartitionProcess.repair = repair  # type: ignore[method-assign]
    with ps.open(app, path) as engine:
        engine.check(fix=True)


@pytest.mark.parametrize("at", [1, 3])
def test_one_that_is_killed_in_the_middle_is_brought_to_its_end_by_the_next(at: int, tmp_path: Path) -> None:
    before = spoil(tmp_path / "store")
    code = f"from {__name__} import die; die({str(tmp_path / 'store')!r}, {at})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    with ps.open(app, tmp_path / "store") as engine:
        assert isinstance(engine.store, PartitionedStore)
        assert engine.digest() != before
        handles: Any = engine.store.handles
        real, killed = handles[0].repair, iter(range(1))

        def repair(do: str, *what: Any) -> Any:
            if do == "mend" and next(killed, None) is not None:
                os.kill(handles[0].pid, signal.SIGKILL)
            return real(do, *what)

        handles[0].repair = repair  # one of the partitions is killed as well
        assert engine.check(fix=True).ok
        assert engine.status()["partitions"][0]["epoch"] >= 4
        assert engine.digest() == before
        assert engine.check().ok
