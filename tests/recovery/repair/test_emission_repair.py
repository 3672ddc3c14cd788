"""Damaged rows of remembered emissions: a restatement writes them again from the documents, and reports them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import Limits, encode_key, index_db, reindex, stored_key
from penstock.mapreduce import emissions_db, held_db, resting_db
from penstock.recovery import Mended, Repaired
from penstock.views import ABSENT
from tests.harness.worlds import TINY
from tests.recovery.damage import content_of, overwrite

FAILS: set[Any] = set()
LONG = "k" * 500


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    ages = users.view("ages", key="name", reduce=ps.sum("age"))
    users.view("listed", key="name", value="age", reduce=None)

    @users.view(reduce=ps.sum())
    def initials(user: dict[str, Any]) -> Iterator[Any]:
        if user["id"] in FAILS:
            raise ValueError("not this one")
        yield user["name"][0], user["age"]

    @ages.view(reduce=ps.count())
    def tens(row: Any) -> Iterator[Any]:
        if row.key in FAILS:
            raise ValueError("not this one either")
        yield row.value // 10

    return app


def user(i: Any, age: Any = 1, ts: int = 1) -> dict[str, Any]:
    return {
        "id": i,
        "name": ("Sue", "Joe", "Ann")[len(str(i)) % 3 if isinstance(i, str) else i % 3],
        "age": age,
        "ts": ts,
    }


@contextmanager
def filled(place: Path | None = None) -> Iterator[Any]:
    FAILS.clear()
    with ps.open(shop(), place, limits=TINY) as engine:
        for a in range(0, 24, 6):
            engine.put_many("users", [user(i) for i in range(a, a + 6)])
        yield engine


@pytest.fixture
def engine(place: Path | None) -> Iterator[Any]:
    with filled(place) as engine:
        yield engine


def damage(engine: Any, db: Callable[[int], str], name: str, at: Callable[[list[bytes]], bytes] = min) -> bytes:
    """Flip a bit in one row of a view. Return its key."""
    where = db(engine.store.core.views[name].number)
    with engine.snapshot() as snap:
        rows = dict(snap.reader().scan(where))
    key = at(list(rows))
    overwrite(engine, where, {key: rows[key][:-1] + bytes([rows[key][-1] ^ 1])})
    engine.store.core.forget()
    return key


def of(found: list[Repaired], view: str) -> list[Repaired]:
    return [one for one in found if one.view == view]


def as_anew(engine: Any) -> None:
    """Compare the content with a new store of the same documents, put in the order of their ts."""
    with ps.open(shop(), None) as anew, engine.snapshot() as snap:
        anew.put_many("users", [doc for _, doc in snap.table("users").items()])
        assert engine.digest() == anew.digest()
    assert engine.check().ok


def test_what_was_told_is_told_again(engine: Any) -> None:
    before = engine.digest()
    damage(engine, emissions_db, "initials")
    assert any("remembered emissions, log entry" in line for line in engine.check().damaged)
    with pytest.raises(ps.StoreDamaged, match="penstock restate initials"):
        engine.digest()
    found = engine.restate("initials")
    said = {one.group: (one.old, one.new, one.what) for one in found}
    assert said == dict.fromkeys("SJA", (8, 8, Mended.REMEMBERED))
    assert engine.digest() == before
    assert engine.restate("initials") == []


@pytest.mark.parametrize("asked", [("initials", "S"), ("users", 0), ("initials",)])
def test_it_is_found_whatever_is_asked_for(asked: tuple[Any, ...], engine: Any) -> None:
    before = engine.digest()
    damage(engine, emissions_db, "initials")
    if asked[0] == "users":
        with pytest.raises(ps.StoreDamaged, match="penstock restate initials"):
            engine.restate(*asked)
        asked = ("users",)
    assert of(engine.restate(*asked), "initials")
    assert engine.digest() == before


def test_a_function_that_yields_otherwise_now_changes_the_groups(engine: Any) -> None:
    damage(engine, emissions_db, "initials")
    FAILS.update({0, 3})
    found = {one.group: one for one in engine.restate("initials")}
    assert (found["S"].old, found["S"].new, found["S"].what) == (8, 6, Mended.RESULT)
    assert engine.check().held == {"initials": 2}, "what can't be taken is held"
    FAILS.clear()
    assert engine.retry(view="initials").released == 2
    as_anew(engine)


def test_what_a_held_document_was_told_stays_with_it(engine: Any) -> None:
    FAILS.add(0)
    engine.put("users", user(0, age=90, ts=2))
    before = engine.digest()
    damage(engine, emissions_db, "initials", max)  # the segment with that version
    engine.restate("initials")
    with engine.snapshot() as snap:
        assert snap.view("initials")["S"] == 8, "the one that it counted before"
    assert engine.digest() == before


@pytest.mark.parametrize("key", [0, LONG])
def test_a_hold_whose_reason_is_lost_is_asked_for_again(key: Any, engine: Any) -> None:
    FAILS.add(key)
    engine.put("users", user(key, age=5, ts=2))
    damage(engine, held_db, "initials")
    FAILS.clear()
    found = of(engine.restate("initials"), "initials")
    assert [one.new for one in found] == [12 if key == 0 else 13]
    assert engine.status()["views"]["initials"]["held"] == 0
    as_anew(engine)


def test_a_hold_that_stands_says_why_anew(engine: Any) -> None:
    FAILS.add(0)
    engine.put("users", user(0, age=5, ts=2))
    [was] = engine.quarantine(view="initials")
    before = engine.digest()
    damage(engine, held_db, "initials")
    assert engine.check(fix=True).ok
    assert list(engine.quarantine(view="initials")) == [was]
    assert engine.digest() == before


def test_what_a_field_view_was_told_of_a_held_document_is_lost_and_taken_back(engine: Any) -> None:
    engine.put("users", user(0, age="old", ts=2))
    with engine.snapshot() as snap:
        assert snap.view("ages")["Sue"] == 8
    damage(engine, held_db, "ages")
    found = {(one.view, one.group): (one.old, one.new) for one in engine.restate("ages")}
    assert found["ages", "Sue"] == (8, 7), "nothing else remembers it"
    assert engine.check().held == {"ages": 1, "initials": 1}
    engine.put("users", user(0, age=2, ts=3))
    as_anew(engine)


def test_views_on_a_view(engine: Any) -> None:
    before = engine.digest()
    key = damage(engine, emissions_db, "tens")
    [one] = engine.restate("tens")
    assert (one.group, one.old, one.new, one.what) == (0, 3, 3, Mended.REMEMBERED)
    assert engine.digest() == before
    db = emissions_db(engine.store.core.views["tens"].number)
    overwrite(engine, db, {key: b"\x00" * 9, encode_key("nobody"): b"\x00" * 9})
    assert engine.check(fix=True).ok
    assert engine.digest() == before
    FAILS.add("Sue")
    engine.put("users", user(0, age=100, ts=2))
    damage(engine, held_db, "tens")
    FAILS.clear()
    engine.restate("tens")
    as_anew(engine)


def test_what_rests_goes_on_resting(engine: Any) -> None:
    FAILS.add(0)
    engine.put("users", user(0, age=5, ts=2))
    engine.drop(view="initials")
    before = engine.digest()
    number = engine.store.core.views["initials"].number
    key = stored_key(encode_key(0))
    for db in (resting_db, held_db):
        damage(engine, db, "initials")
        assert engine.check(fix=True).ok
        FAILS.clear()
        with engine.snapshot() as snap:
            assert snap.reader().get_many(resting_db(number), [key]) != [None]
        assert engine.digest() == before
    overwrite(engine, resting_db(number), {stored_key(encode_key(1)): b"\x00" * 4})
    assert engine.check(fix=True).ok
    engine.put("users", user(0, age=6, ts=3))
    as_anew(engine)


def test_a_row_that_no_group_counts_is_said_all_the_same(engine: Any) -> None:
    engine.put_many("users", [user(i, age=2, ts=2) for i in range(6)])  # the first segment has no current lines
    before = engine.digest()
    damage(engine, emissions_db, "initials")
    assert engine.restate("initials") == [Repaired("initials", ABSENT, ABSENT, ABSENT, Mended.REMEMBERED)]
    assert engine.digest() == before


def test_a_check_says_what_it_made_anew(engine: Any) -> None:
    before = engine.digest()
    damage(engine, emissions_db, "initials")
    report = engine.check(fix=True)
    assert report.ok
    assert "1 damaged row made anew" in str(report)
    assert [line.partition(", log")[0] for line in report.anew] == ["view 'initials', remembered emissions"]
    assert engine.digest() == before


# -- the index of a table

FOLDING = Limits(few=8, fold_least=4, fold_most=8, fold_buckets=2, space=1e9, entries=1 << 30)  # and no compaction


@contextmanager
def folding(place: Path | None = None) -> Iterator[Any]:
    """Yield an engine with most keys in the index only."""
    FAILS.clear()
    with ps.open(shop(), place, limits=FOLDING) as engine:
        engine.put_many("users", [user(i) for i in range(24)])
        engine.put_many("users", [user(i, ts=2) for i in range(0, 24, 3)])
        engine.put_many("users", [user(LONG + str(i), ts=5) for i in range(40)])
        engine.delete("users", 5, ts=4)
        for i in range(24, 36):
            engine.put("users", user(i, age=3, ts=6))
        yield engine


@pytest.fixture
def folded(place: Path | None) -> Iterator[Any]:
    with folding(place) as engine:
        yield engine


def lose(engine: Any) -> dict[bytes, bytes | None]:
    where = index_db(engine.store.core.tables["users"].number)
    with engine.snapshot() as snap:
        rows = dict(snap.reader().scan(where))
    return dict.fromkeys(sorted(rows)[1:])


def turn(engine: Any) -> dict[bytes, bytes | None]:
    where = index_db(engine.store.core.tables["users"].number)
    with engine.snapshot() as snap:
        rows = dict(snap.reader().scan(where))
    return {key: row[:3] + bytes([row[3] ^ 4]) + row[4:] for key, row in rows.items()}


@pytest.mark.parametrize("how", [lose, turn])
def test_an_index_is_made_anew(how: Callable[[Any], Any], folded: Any) -> None:
    before = folded.digest()
    overwrite(folded, index_db(folded.store.core.tables["users"].number), how(folded))
    folded.store.core.forget()
    report = folded.check()
    assert not report.ok
    assert any("penstock check --fix" in line for line in report.damaged), report.damaged
    report = folded.check(fix=True)
    assert (report.ok, report.anew) == (True, ("table 'users', its index",)), report
    assert folded.digest() == before, "the content is what it was"
    assert folded.put("users", user(5, ts=3)).late == 1, "the deletion is remembered"
    folded.put_many("users", [user(i, age=4, ts=7) for i in range(60)])
    assert folded.check().ok


def test_an_index_is_made_a_part_at_a_time(folded: Any) -> None:
    before, number = folded.digest(), folded.store.core.tables["users"].number
    made: list[dict[bytes, bytes]] = []
    for at_once in (1 << 20, 40):
        with folded.store.core.store.write() as writer:
            reindex(writer, number, True, at_once)
        with folded.snapshot() as snap:
            made.append(dict(snap.reader().scan(index_db(number))))
        folded.store.core.forget()
        assert folded.digest() == before
    assert made[0] == made[1] != {}


def test_nothing_is_written_where_nothing_is_damaged() -> None:
    FAILS.clear()
    with ps.open(shop(), None, limits=TINY) as engine:
        engine.put_many("users", [user(i) for i in range(30)])
        engine.store.core.ready()
        before = content_of(engine)
        assert engine.check(fix=True).anew == ()
        assert engine.restate("users") == []
        assert content_of(engine) == before
