"""Repairs over several partitions: the trials of one store, and what only partitions can have wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import MemoryStore, encode_key
from penstock.engine import Member, Parted, open_on
from penstock.mapreduce import rows_db
from penstock.recovery import Mended, Repaired, parts_of
from penstock.spout import opened
from penstock.views import ABSENT
from tests.engine import repairs
from tests.engine.damage import add_to_lane, content_of, overwrite, tell, turn_a_bit
from tests.engine.test_repost import delivered
from tests.engine.test_restate import restated

VIEWS = ("counted", "kept", "yielded", "listed", "heights", "sizes")


def shop() -> ps.App:
    """Every way of keeping a view, and views of views."""
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
def parts(request: pytest.FixtureRequest) -> Iterator[Any]:
    with ps.open(shop(), None, partitions=request.param) as engine:
        engine.put_many("users", [document(i) for i in range(60)])
        yield engine


def owner(engine: Any, group: Any) -> Any:
    """The engine of the partition that owns a group."""
    return engine._seats[engine._ranges.of(encode_key(group))].engine


def contents(engine: Any) -> list[Any]:
    return [content_of(seat.engine) for seat in engine._seats]


def shown(engine: Any) -> list[Any]:
    with engine.snapshot() as snap:
        return [list(snap.view(view).items()) for view in VIEWS]


def like_one(engine: Any) -> None:
    """It is what a store in one piece makes of its documents."""
    whole, _ = open_on(shop(), MemoryStore(), seed=engine._layout.seed)
    with engine.snapshot(consistency="position") as snap:
        whole.put_many("users", [row.value for row in snap.table("users").items()])
    assert engine.digest() == whole.digest()
    report = engine.check()
    assert report.ok, report


@pytest.mark.parametrize("seed", [3, 31, 46])  # in the last two a production meets what is damaged
def test_any_damage_of_any_partition_is_repaired(seed: int) -> None:
    repairs.run(seed, 2 + seed % 2)


def test_what_is_right_is_not_touched(parts: Any) -> None:
    parts.settle()
    before = contents(parts)
    assert parts.restate("users") == []
    assert parts.restate("counted", "g3") == parts.restate("users", 7) == []
    assert parts.repost("users", document(7, g="g1")) == parts.repost("users", document(99)) == []
    report = parts.check(fix=True)
    assert (report.ok, report.documents, report.wrong) == (True, 60, ())
    assert contents(parts) == before


# -- what only partitions have


def put_elsewhere(copy: bool, view: str, group: Any, engine: Any) -> None:
    """A group's row lies with a partition that doesn't own it, with the owner as well or not."""
    db = rows_db(owner(engine, group)._core.views[view].number)
    own, key = owner(engine, group), encode_key(group)
    other = next(seat.engine for seat in engine._seats if seat.engine is not own)
    with own.snapshot() as snap:
        [row] = snap.reader().get_many(db, [key])
    overwrite(other, db, {key: row})
    if not copy:
        overwrite(own, db, {key: None})
    for seat in engine._seats:
        seat.engine._core.forget()


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("view", ["counted", "kept", "yielded"])
def test_a_row_that_lies_with_another_partition(view: str, asked: bool, copy: bool, parts: Any) -> None:
    before, was = parts.digest(), shown(parts)
    with parts.snapshot() as snap:
        right = snap.view(view)["g3"]
    put_elsewhere(copy, view, "g3", parts)
    assert parts.check().wrong
    found = restated(parts, view, "g3") if asked else restated(parts, view)
    assert found[view, "g3"] == Repaired(view, "g3", right, right, Mended.CONTENT if copy else Mended.RESULT)
    assert {name for name, _ in found} == {view}
    assert (parts.digest(), shown(parts)) == (before, was)
    assert parts.check().ok


@contextmanager
def taking(monkeypatch: pytest.MonkeyPatch, take: Callable[[Any, Any], int]) -> Iterator[None]:
    """Productions are taken so."""
    with monkeypatch.context() as patch:
        patch.setattr(Member, "receive", take)
        yield


def twice(member: Any, production: Any) -> int:
    """The sums that a production has for views of documents are added twice; trees would not take it again."""
    number = _RECEIVE(member, production)
    roots = [view.number for view in member.core.views.values() if not view.chained]
    sums = [p for owed in production.owed for p in parts_of(owed) if p[0] in roots and p[2] is not None]
    member.core.amend(lambda writer, writes: member._parting.gather(member.core.views.values(), sums, writes))
    return number


def never(member: Any, production: Any) -> int:
    """A production counts as taken, and nothing of it is folded."""
    number = production.owed[-1].number
    member.core.amend(lambda writer, writes: None, {production.sender: (production.epoch, number)})
    return int(number)


_RECEIVE = Member.receive


@pytest.mark.parametrize("how", [twice, never])
def test_a_production_that_is_taken_twice_or_never(
    how: Callable[[Any, Any], int], parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taking(monkeypatch, how):
        parts.put_many("users", [document(i, g=f"g{i % 5}", v=i + 100, ts=2) for i in range(0, 60, 3)])
    wrong = parts.check().wrong
    assert {one.view for one in wrong} >= {"counted", "yielded"}
    fixed = parts.check(fix=True)
    assert fixed.ok
    named = {(one.view, repr(one.group)) for one in fixed.wrong}
    assert {(one.view, repr(one.group)) for one in wrong} <= named
    like_one(parts)


def test_views_on_a_view_follow_to_whoever_owns_them(parts: Any) -> None:
    before = parts.digest()
    for group in ("g1", "g2", "g3", "orphan"):
        tell(owner(parts, group), "counted", [(7_000, group, {"v": 1})], [])
        tell(owner(parts, group), "kept", [(7_000, group, 77)], [])
    parts.settle()
    with parts.snapshot() as snap:
        assert snap.view("heights")[77] == 4
    found = restated(parts, "kept")
    assert found["heights", 77] == Repaired("heights", 77, 4, ABSENT)
    assert {view for view, _ in restated(parts, "counted")} == {"counted", "sizes"}
    assert parts.digest() == before
    like_one(parts)


def test_the_feed_of_the_owner_has_what_was_repaired(parts: Any) -> None:
    with parts.snapshot() as snap:
        since, right = snap.position, snap.view("counted")["g3"]
    add_to_lane(owner(parts, "g3"), "counted", "g3", lane=0, by=5)
    assert [one.group for one in parts.restate("counted", "g3")] == ["g3"]
    [change] = parts.changes("counted", since=since)
    assert (change.group, change.old["n"], change.new) == ("g3", right["n"] + 5, right)


def test_a_repost_over_partitions(parts: Any, tmp_path: Path) -> None:
    before = parts.digest()

    def leave_behind() -> None:
        for i in (3, 4, 5):
            tell(owner(parts, "Sam"), "yielded", [(i, "Sam", 90)], [])
            tell(owner(parts, "Sam"), "kept", [(i, "Sam", 90)], [])
        parts.settle()
        assert parts.digest() != before

    leave_behind()
    found = {(one.view, one.group) for one in parts.repost("users", document(3, g="Sam"))}
    assert {("yielded", "Sam"), ("kept", "Sam"), ("heights", 90)} <= found
    assert parts.digest() == before
    leave_behind()
    wire = {"topic": "users(id)", "ts": 0, "id": 3, "g": "Sam", "v": 1}
    records = [opened(shop(), wire), opened(shop(), {"topic": "users", "ts": 0, "g": "Sam"})]
    counts = parts.ingest(records, "file:a", 2)
    assert (counts.equal, counts.rejected) == (1, 1)
    assert parts.digest() == before
    leave_behind()
    [given] = delivered(parts, tmp_path / "wire.jsonl", wire, {"topic": "users", "ts": 1, **document(3)})
    assert (given.equal, given.rejected) == (2, 0)
    assert delivered(parts, tmp_path / "wire.jsonl") == []
    like_one(parts)


def test_others_write_while_a_right_store_is_checked(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a comparison that finds nothing; where something is found, nothing comes in between."""
    held: list[bool] = []
    real = repairs.Shadow.add

    def add(shadow: Any, *sides: Any) -> None:
        held.append(bool(parts._lock._depth))
        real(shadow, *sides)

    monkeypatch.setattr(repairs.Shadow, "add", add)
    assert parts.check(fix=True).ok
    assert held
    assert not any(held)
    add_to_lane(owner(parts, "g3"), "counted", "g3", lane=0)
    held.clear()
    assert parts.restate("counted")
    assert any(held)


def test_a_bit_of_a_row_in_processes_of_their_own(tmp_path: Path) -> None:
    """What is damaged on the disk while nobody has the store is mended by the processes of its partitions."""
    path = tmp_path / "store"
    with ps.open(shop(), path, partitions=2, processes=False) as engine:
        assert isinstance(engine, Parted)
        engine.put_many("users", [document(i, g="x" * 420 if i % 11 == 3 else f"g{i % 7}") for i in range(60)])
        engine.settle()
        before, choose = engine.digest(), Random(1)
        for view in ("counted", "kept", "yielded"):
            for seat in engine._seats:
                own: Any = seat.engine  # type: ignore[attr-defined]
                db = rows_db(own._core.views[view].number)
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
