"""The check of a store: it reports each fault with the stored and the right value.

It counts documents apart if a view holds them, or if their function yields other values now.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import encode_key, index_db, log_db
from penstock.mapreduce import emissions_db, held_db, rows_db
from penstock.recovery import Checked, Mended, Repaired, Shadow
from penstock.recovery.check import oracle_comparison
from penstock.recovery.oracle import large_groups, plain_reducers
from penstock.views import ABSENT, BROKER
from tests.harness.histories import History
from tests.harness.worlds import TINY
from tests.recovery.damage import add_to_lane, content_of, overwrite, tell, yield_otherwise


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("names", key="name", reduce={"n": ps.count(), "total": ps.sum("age")})
    names.view("sizes", key="value.n", reduce=ps.count())
    users.view("oldest", key="name", value="age", reduce=ps.max())

    @users.view(reduce=ps.sum())
    def initials(user: dict[str, Any]) -> Iterator[Any]:
        yield user["name"][0], user["age"]

    return app


def fill(engine: Any) -> None:
    users = [{"id": i, "name": "SJA"[i % 3] + "ue", "age": i, "ts": 7} for i in range(60)]
    for i in range(0, 60, 4):  # several batches, so that there is an index
        engine.put_many("users", users[i : i + 4])
    engine.delete("users", 5, ts=8)


@pytest.fixture
def engine(place: Path | None) -> Iterator[Any]:
    with ps.open(shop(), place, limits=TINY) as engine:
        fill(engine)
        yield engine


def db(engine: Any, of: Any, view: str) -> str:
    return str(of(engine.store.core.views[view].number))


def test_nothing_is_wrong(engine: Any) -> None:
    report = engine.check()
    assert report.ok
    assert (report.documents, report.wrong, report.damaged, report.held, report.told) == (59, (), (), {}, {})
    assert report.rows > 59 // 16
    assert str(report).endswith("nothing is wrong")


def test_what_is_wrong_is_named_and_left_unless_it_is_to_be_fixed(engine: Any) -> None:
    before = engine.digest()
    add_to_lane(engine, "names", "Sue", lane=2, by=7)
    tell(engine, "oldest", [(1_000, "Zoe", 5)], [])
    damaged = engine.digest()
    report = engine.check()
    assert not report.ok
    assert {(one.view, one.group): (one.new, one.what) for one in report.wrong} == {
        ("names", "Sue"): ({"n": 20, "total": sum(range(0, 60, 3))}, Mended.RESULT),
        ("oldest", "Zoe"): (ABSENT, Mended.RESULT),
    }
    assert engine.digest() == damaged, "a check alone writes nothing"
    fixed = engine.check(fix=True)
    assert fixed.ok
    assert all(one in fixed.wrong for one in report.wrong if one.view == "oldest")
    assert engine.digest() == before
    assert engine.check().wrong == ()


def test_a_view_on_damaged_rows_is_fixed_with_them(engine: Any) -> None:
    before = engine.digest()
    rows = rows_db(engine.store.core.views["names"].number)
    overwrite(engine, rows, {encode_key("Sue"): b"\x91\x00\x00\x00\x00\x00"})
    report = engine.check()
    assert [one.what for one in report.wrong] == [Mended.UNREADABLE]
    assert (
        "view 'sizes' is on rows of view 'names' that are wrong, and compared once these are repaired" in report.damaged
    )
    assert engine.check(fix=True).ok
    assert engine.digest() == before


@pytest.mark.parametrize("kind", ["log", "index", "held", "told"])
def test_a_bit_anywhere_is_found_and_named(kind: str, engine: Any) -> None:
    engine.put("users", {"id": 70, "name": 7, "age": 1, "ts": 9})  # the function fails on this document
    number = engine.store.core.tables["users"].number
    where = {
        "log": log_db(number),
        "index": index_db(number),
        "held": db(engine, held_db, "initials"),
        "told": db(engine, emissions_db, "initials"),
    }[kind]
    with engine.snapshot() as snap:
        key, row = next(iter(snap.reader().scan(where)))
    overwrite(engine, where, {key: row[:-1] + bytes([row[-1] ^ 1])})
    report = engine.check()
    assert not report.ok
    assert any("initials" in line or "users" in line for line in report.damaged), report.damaged


def test_a_key_that_the_index_lost(engine: Any) -> None:
    where = index_db(engine.store.core.tables["users"].number)
    with engine.snapshot() as snap:
        key, _ = next(iter(snap.reader().scan(where)))
    overwrite(engine, where, {key: None})
    assert "its index names" in engine.check().damaged[0]


@pytest.mark.parametrize("most", [1 << 14, 4])
def test_what_goes_by_ts_is_judged(most: int, place: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_comparison, "_MOST", most)
    app = ps.App("shop")
    days = [f"2026-11-{day:02}T00:00:00Z" for day in range(1, 20)]
    tables = {
        "numbers": app.table("numbers", key="id", ts="ts"),
        "texts": app.table("texts", key="id", ts="ts"),
        "broker": app.table("broker", key="id", ts=BROKER),
        "patched": app.table("patched", key="id", ts="ts", merge="patch"),
    }
    for name, table in tables.items():
        table.view(f"last_{name}", key="g", reduce={"last": ps.last("v"), "first": ps.first("v")})
    with ps.open(app, place, limits=TINY) as engine:
        for i, day in enumerate(days):
            doc = {"id": i % 11, "g": i % 2, "v": i}
            ts = (i * 7) % 19
            engine.put("numbers", doc | {"ts": ts})
            engine.put("texts", doc | {"ts": day})
            engine.ingest([ps.Record("broker", i % 11, doc, ts, i)], source="topic", resume=i + 1)
            engine.put("patched", {k: doc[k] for k in list(doc)[: 1 + i % 3]} | {"id": i % 11, "ts": ts})
        assert engine.check().damaged == ()
        monkeypatch.setitem(plain_reducers.RECIPES, "last", plain_reducers.RECIPES["min"])
        monkeypatch.setitem(large_groups._ORDERS, "last", large_groups._ORDERS["min"])
        assert {line.split("'")[1] for line in engine.check().damaged} == {f"last_{name}" for name in tables}


def test_held_and_told_are_counted_apart(engine: Any) -> None:
    engine.put("users", {"id": 70, "name": 7, "age": 1, "ts": 9})
    yield_otherwise(
        engine, "initials", lambda docs: [[(g, v + 1) for g, v in p] if i < 2 else p for i, p in enumerate(docs)]
    )
    engine.restate("initials")
    report = engine.check()
    assert report.held == {"initials": 1}
    assert sum(report.told.values()) > 0
    assert set(report.told) == {"initials"}
    assert report.ok, "neither is wrong"


def test_it_runs_while_others_write(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, n = Shadow.add, iter(range(1_000))

    def add(self: Any, *sides: Any) -> None:
        real(self, *sides)
        i = next(n)
        engine.put_many(
            "users",
            [{"id": i, "name": "Kim", "age": i, "ts": 100 + i}, {"id": 900 + i, "name": "Sue", "age": 1, "ts": 1}],
        )

    monkeypatch.setattr(Shadow, "add", add)
    assert engine.check().ok
    assert engine.check(fix=True).wrong == ()


@pytest.mark.parametrize("seed", range(4))
def test_histories_leave_nothing_wrong(seed: int) -> None:
    history = History(seed)
    history.run(20)
    history.engine.store.core.ready()
    before = content_of(history.engine)
    report = history.engine.check()
    assert report.ok, report
    assert not report.wrong
    assert not report.told
    assert content_of(history.engine) == before


def test_the_report_in_words() -> None:
    wrong = (Repaired("names", "Sue", 1, 2),)
    report = Checked(2, 1, wrong, ("meta, key 00",), {"names": 1}, {"names": 2})
    assert str(report) == "1 document and 2 rows: 1 group wrong, 1 damaged; 1 held; 2 with another emission now"
    assert str(Checked(2, 1, wrong, fixed=True)) == "1 document and 2 rows: 1 group wrong and repaired"
