"""Named cases of numbers, groups and keys: each shows a value that an engine could lose."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.harness.beside import WORLD, Beside, user
from tests.harness.checks import differences
from tests.harness.worlds import Polynomial, World
from tests.oracle.model import Counts
from tests.oracle.reducers import Count
from tests.oracle.tables import Table
from tests.oracle.views import Is, View, Where


@pytest.mark.parametrize("v", [2**62, 2**63 - 1, -(2**63), 2**64, 10**40])
def test_sums_past_int64(both: Beside, v: int):
    both("put_many", "plain", [{"id": i, "g": "a", "gs": ["a", "a"], "v": v} for i in range(9)])
    assert both.shown("sums")["a"]["total"] == 9 * v
    assert both.shown("spread")["a"] == {"n": 18, "total": 18 * v}
    both("put_many", "plain", [{"id": i, "g": "a", "gs": [], "v": -v} for i in range(4)])
    for i in range(8):
        both("delete", "plain", i)
    assert both.shown("sums")["a"]["total"] == v


def test_floats_do_not_drift(place: Path | None):
    choose = random.Random(7)
    sizes = [0.1, 1e16, -1e16, 1e-300, 3.3, 1e300, -1e300]
    living: dict[int, float] = {}
    with ps.open(WORLD.app(), place) as engine:
        for _ in range(40):
            docs = []
            for _ in range(500):
                key, v = choose.randrange(300), choose.choice(sizes) * choose.random()
                living[key] = v
                docs.append({"id": key, "g": "a", "gs": [], "v": v})
            engine.put_many("plain", docs)
            with engine.snapshot() as snap:
                assert snap.view("sums")["a"]["total"] == math.fsum(living.values())
        for key in list(living)[1:]:
            engine.delete("plain", key)
        with engine.snapshot() as snap:
            assert snap.view("sums")["a"]["total"] == living[next(iter(living))]


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_are_retracted(both: Beside, strange: float):
    both("put", "plain", {"id": 1, "g": "a", "gs": [], "v": 0.5})
    both("put_many", "plain", [{"id": i, "g": "a", "gs": [], "v": strange} for i in (2, 3)])
    both("put", "plain", {"id": 2, "g": "a", "gs": [], "v": -strange})
    assert math.isnan(both.shown("sums")["a"]["total"])
    both("put", "plain", {"id": 2, "g": "a", "gs": [], "v": 1})
    both("delete", "plain", 3)
    assert both.shown("sums")["a"]["total"] == 1.5


def test_a_sum_is_of_the_kind_of_what_is_left(both: Beside):
    for key, v in enumerate([1, Decimal("0.50"), 0.25]):
        both("put", "plain", {"id": key, "g": "a", "gs": [], "v": v})
    for key, wanted in [(2, Decimal("1.5")), (1, 1)]:
        both("delete", "plain", key)
        total = both.shown("sums")["a"]["total"]
        assert (type(total), str(total)) == (type(wanted), str(wanted))


def test_a_float_beyond_its_range_comes_back(both: Beside):
    both("put_many", "plain", [{"id": i, "g": "a", "gs": [], "v": 1.7e308} for i in range(3)])
    assert both.shown("sums")["a"]["total"] == math.inf
    both("delete", "plain", 0)
    both("delete", "plain", 1)
    assert both.shown("sums")["a"]["total"] == 1.7e308


def test_true_is_not_1_and_1_is_its_float(both: Beside):
    groups = [True, 1, 1.0, False, 0, -0.0, None, "1", b"1", [1], [1.0], [True]]
    both("put_many", "plain", [{"id": i, "g": g, "gs": [g]} for i, g in enumerate(groups)])
    with both.engine.snapshot() as snap:
        rows = [(repr(group), row["n"]) for group, row in snap.view("sums").items()]
    wanted = [("None", 1), ("False", 1), ("True", 1), ("0", 2), ("1", 2), ("'1'", 1), ("b'1'", 1)]
    assert rows == [*wanted, ("(True,)", 1), ("(1,)", 2)]


def test_nan_is_one_group(both: Beside):
    both("put_many", "plain", [{"id": i, "g": g, "gs": []} for i, g in enumerate([math.nan, -math.nan, math.inf])])
    with both.engine.snapshot() as snap:
        assert [row["n"] for _, row in snap.view("sums").items()] == [1, 2]
        assert snap.view("sums")[math.nan]["n"] == 2


@pytest.mark.parametrize("size", [300, 368, 399, 400, 401, 450, 5_000, 60_000])
def test_long_group_keys(both: Beside, size: int):
    ends = ["", "a", "b", "ba", "é"]
    both("put_many", "plain", [{"id": i, "g": "x" * size + end, "gs": []} for i, end in enumerate(ends)])
    both("put", "plain", {"id": 9, "g": "x" * size + "b", "gs": [("x" * size, 1), ("x" * size, 0)]})
    both("delete", "plain", 2)
    with both.engine.snapshot() as snap:
        found = snap.view("sums").items(prefix="x" * size + "b")
        assert [(row.key[size:], row.value["n"]) for row in found] == [("b", 1), ("ba", 1)]
        above = snap.view("sums").items(start="x" * size + "a", stop="x" * size + "ba", reverse=True)
        assert [row.key[size:] for row in above] == ["b", "a"]
        assert [key[1] for key, _ in snap.view("spread").items()] == [0, 1]


def test_long_document_keys(both: Beside):
    keys = ["k" * 450 + end for end in ("a", "b")]
    both("put_many", "users", [{"id": key, "name": "Sue", "ts": 1} for key in keys])
    both("delete", "users", keys[0], ts=2)
    assert both.shown("names") == {"Sue": 1}


@pytest.mark.parametrize("key", ["x" * 70_000, [["x" * 40_000, "y" * 40_000]], None, {"a": 1}, Decimal(1), [{}]])
def test_keys_that_cannot_be(both: Beside, key: Any):
    assert both("put", "plain", {"id": key, "g": "a", "gs": []}) == Counts(rejected=1)
    assert both("delete", "plain", key) == Counts(rejected=1)


def test_ts_past_the_precision_of_floats(both: Beside):
    both("put", "users", user("Sue", (1 << 60) + 1))
    assert both("put", "users", user("Joe", 1 << 60)) == Counts(late=1)
    assert both("put", "users", {"id": 1, "name": "Bob", "ts": float(1 << 60)}) == Counts(late=1)
    assert both("put", "users", user("Zoe", (1 << 80))) == Counts(applied=1)
    assert both("put", "users", user("Ann", (1 << 80) - 1)) == Counts(late=1)


def test_the_same_instant_in_another_zone_is_a_tie(both: Beside):
    both("put", "users", {"id": 1, "name": "Sue", "ts": "2024-01-01T00:00:00.000000001Z"})
    assert both("put", "users", {"id": 1, "name": "Joe", "ts": "2024-01-01T01:00:00+01:00"}) == Counts(late=1)
    zone = {"id": 1, "name": "Bob", "ts": "2023-12-31T19:00:00.000000001-05:00"}
    assert both("put", "users", zone) == Counts(applied=1)


def test_a_condition_between_two_kinds(place: Path | None):
    kinds = [None, True, 0, 2, 1.0, Decimal("1.00"), "1", b"1", [1]]
    views = tuple(
        View(f"v{n}", "plain", Count(), key=(), where=condition)
        for n, condition in enumerate(
            [Is("g", "!=", 1), Is("g", "==", 1), Is("g", "<", "2"), Is("g"), Where("not", (Is("g", ">=", 0),))]
        )
    )
    world = World((Table("plain", "id"),), views)
    with ps.open(world.app(), place) as engine:
        both = Beside(engine, world)
        both("put_many", "plain", [{"id": i, "g": g} for i, g in enumerate(kinds)])
        assert [both.shown(view.name)[()] for view in views] == [6, 2, 1, 1, 5]


def test_prefixes_of_true_and_1_are_two_and_those_of_nan_one(place: Path | None):
    world = World((Table("plain", "id"),), (View("v", "plain", Count(), key=("g", "h")),))
    groups = [(True, "a"), (1, "a"), (1.0, "b"), (math.nan, "a"), (-math.nan, "b"), (None, "a"), (False, "a")]
    with ps.open(world.app(), place) as engine:
        both = Beside(engine, world)
        both("put_many", "plain", [{"id": i, "g": g, "h": h} for i, (g, h) in enumerate(groups)])
        for level in range(3):
            with engine.snapshot() as snap:
                found = differences(
                    f"rollup({level})", snap.view("v").rollup(level=level), both.model.rollup("v", level)
                )
            assert not found, "\n".join(found)


@pytest.mark.parametrize("size", [1, 20])
def test_a_function_that_spoils_its_document_spoils_nothing_else(place: Path | None, size: int):
    app = ps.App("spoilt")
    docs = app.table("docs", key="id")

    def spoiling(doc: dict[str, Any]) -> list[Any]:
        tags = list(doc["tags"])
        doc["tags"].append("spoilt")
        return tags

    docs.view("one", reduce=ps.count())(spoiling)
    docs.view("other", reduce=ps.count())(spoiling)
    docs.view("kept", key=(), reduce=ps.group(Polynomial(), "tags"))
    with ps.open(app, place) as engine:
        engine.put_many("docs", [{"id": i, "tags": ["red"]} for i in range(size)])
        with engine.snapshot() as snap:
            assert dict(snap.view("one").items()) == dict(snap.view("other").items()) == {"red": size}
            length = len(str(["red"]))
            assert snap.view("kept")[()] == {"n": size, "sizes": [size * length, size * length**3]}


@pytest.mark.parametrize("literal", [1.0, math.nan, -math.inf])
def test_a_condition_on_nan_is_the_same_in_any_batch(place: Path | None, literal: float):
    docs = [{"id": 1, "x": math.nan}, {"id": 2, "x": 5.0}, {"id": 3, "x": 7}, {"id": 4, "x": 0.5}]
    app = ps.App("nan")
    table = app.table("docs", key="id")
    for name, where in {
        "more": ps.field("x") > literal,
        "same": ps.field("x") == literal,
        "other": ps.field("x") != literal,
    }.items():
        table.view(name, key="id", where=where, reduce=ps.count())
    wanted = {
        1.0: ({1, 2, 3}, set(), {1, 2, 3, 4}),
        -math.inf: ({1, 2, 3, 4}, set(), {1, 2, 3, 4}),
    }.get(literal, (set(), {1}, {2, 3, 4}))
    for number, batches in enumerate(([docs], [[doc] for doc in docs], [docs[:2], docs[2:]])):
        with ps.open(app, place and place / str(number)) as engine:
            for batch in batches:
                engine.put_many("docs", batch)
            with engine.snapshot() as snap:
                shown = tuple({row.key for row in snap.view(name)} for name in ("more", "same", "other"))
        assert shown == wanted, batches
