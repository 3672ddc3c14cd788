"""The view states that the store gives for each document add up to the rows of the views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import encode_key
from tests.harness.worlds import TINY

NAMES = ["Sue", "Joe", None, "", 7, ["a", 1], {"no": "group"}]


def made() -> tuple[ps.App, list[str]]:
    app = ps.App("told")
    users = app.table("users", key="id", ts="ts")
    users.view("names", key="name", reduce=ps.count())
    users.view("rich", key=("name", "city"), where=ps.field("money") > 10, value="money", reduce=ps.sum())

    @users.view(reduce=ps.sum())
    def letters(user: dict[str, Any]) -> Iterator[Any]:
        for letter in user["name"]:
            yield letter, user["money"]

    marks = app.table("marks", key=("a", "b"), merge="patch")
    marks.view("sums", key="a", reduce={"n": ps.count(), "x": ps.sum("x"), "y": ps.sum("y")})
    return app, ["names", "rich", "letters", "sums"]


def document(random: Random) -> tuple[str, dict[str, Any]]:
    money = random.choice([0, 5, 11, 40, None, "much"])
    if random.random() < 0.3:
        own = {"a": random.randrange(3), "b": random.randrange(3), random.choice("xy"): random.choice([1, 2, "odd"])}
        return "marks", own
    user = {"id": random.randrange(12), "name": random.choice(NAMES), "city": random.choice("ab"), "money": money}
    return "users", {**user, "ts": random.randrange(60)}


@pytest.mark.parametrize("seed", range(4))
def test_what_views_were_told_adds_up_to_their_rows(seed: int, store_path: Path) -> None:
    app, views = made()
    random = Random(seed)
    with ps.open(app, store_path, limits=TINY) as engine:
        for _ in range(25):
            with engine.batch() as b:
                for _ in range(random.randrange(1, 12)):
                    if random.random() < 0.2:
                        b.delete("users", random.randrange(12), ts=random.randrange(60))
                    else:
                        b.put(*document(random))
            with engine.snapshot() as snap:
                check(snap, views)
    with ps.open(app, store_path, readonly=True) as reader, reader.snapshot() as snap:
        check(snap, views)


def check(snap: ps.Snapshot, views: list[str]) -> None:
    n: dict[str, Counter[bytes]] = {view: Counter() for view in views}
    held: Counter[str] = Counter()
    keys = {"users": range(12), "marks": [(a, b) for a in range(3) for b in range(3)]}
    for table, all_keys in keys.items():
        for key in all_keys:
            stored = snap.stored(table, key)
            if stored is None:
                continue
            assert (stored.document is None) == (key not in snap.table(table))
            assert stored.document == snap.table(table).get(key)
            for state in stored.told:
                held[state.view] += state.held is not None
                for group, value in state.pairs:
                    n[state.view][encode_key(group)] += 1
                    if state.view == "sums":
                        assert set(value) == {"x", "y"}
    for view in views:
        weight = snap.weight(view, hot=3)
        assert weight.rows == len(n[view]) == len(snap.view(view))
        assert weight.contributions == n[view].total()
        assert [count for _, count in weight.hot] == [count for _, count in n[view].most_common(3)]
        assert {encode_key(row.key) for row in snap.view(view)} == set(n[view])
        assert held[view] == len(snap.holds(view))
        assert snap.holds_any(view) == bool(held[view])
    assert {encode_key(row.key): row.value for row in snap.view("names")} == dict(n["names"])
    assert {encode_key(row.key): row.value["n"] for row in snap.view("sums")} == dict(n["sums"])


def test_a_key_that_never_was_and_one_that_went(store_path: Path) -> None:
    app, _ = made()
    with ps.open(app, store_path) as engine:
        engine.put("users", {"id": 1, "name": "Sue", "money": 1, "ts": 1})
        engine.delete("users", 1, ts=5)
        with engine.snapshot() as snap:
            gone = snap.stored("users", 1)
            assert gone is not None
            assert (gone.document, gone.ts, gone.told) == (None, 5, ())
            assert snap.stored("users", 2) is None
            with pytest.raises(ps.KeyKind):
                snap.stored("users", None)


def test_a_rollup_within_a_range_is_that_of_the_rows_in_it(store_path: Path) -> None:
    app = ps.App("rolled")
    table = app.table("t", key="id")
    table.view("v", key=("a", "b"), reduce=ps.count())
    with ps.open(app, store_path) as engine:
        engine.put_many("t", [{"id": i, "a": i % 5, "b": i % 700} for i in range(7_000)])
        with engine.snapshot() as snap:
            view = snap.view("v")
            asked: dict[str, Any]
            for asked in ({}, {"prefix": (2,)}, {"start": (1, 30)}, {"start": (1,), "stop": (3, 11)}, {"stop": (0,)}):
                for level in (0, 1, 2):
                    expected: Counter[Any] = Counter()
                    for row in view.items(**asked):
                        expected[row.key[:level]] += row.value
                    found = [(row.key, row.value) for row in view.rollup(level, **asked)]
                    assert found == sorted(expected.items())
                    assert list(view.rollup(level, reverse=True, **asked)) == found[::-1]
                    assert list(view.rollup(level, limit=2, **asked)) == found[:2]
            with pytest.raises(ps.ArgumentKind, match="limit="):
                view.rollup(1, limit=-1)
