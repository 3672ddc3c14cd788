"""Tallies of blocks of documents agree with the oracle, which maps one document at a time.

The documents have values of every kind. A value that is not plain must be left to the oracle, and no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import encode_key
from penstock.mapreduce import same_result
from penstock.recovery import ReducerInput, emission, rank, read_by, recomputed
from penstock.spark.verify_job.plain_contributions import emitted
from penstock.spark.verify_job.tallies import Tally, ViewTallies, folded
from penstock.views import View
from tests.harness.planting import Bug

NUMBERS: list[Any] = [0, 1, -7, 3, 1.0, 0.0, -0.0, 0.1, 0.2, 1e300, -1e300, 5e-324, (1 << 62) + 1, 1 << 70]
NUMBERS += [Decimal("1.5"), Decimal("1.50"), Decimal(2), Decimal("1e-30")]
STRANGE: list[Any] = [None, True, False, float("nan"), float("inf"), float("-inf"), "a", "é", b"x", [1, 2], {"a": 1}]
GROUPS: list[Any] = ["a", "b", "é", None, 0, 1, True, False, 1.0, -0.0, 2.5, b"x", [1, "a"], 1 << 70, {}]
REDUCERS = {
    "n": ps.count(),
    "there": ps.count("w"),
    "total": ps.sum("v"),
    "mean": ps.mean("v"),
    "spread": ps.variance("v"),
    "deviation": ps.stddev("v", ddof=0),
    "bins": ps.histogram([0, 1.5, 3], "v"),
}
ORDERED = {
    "min": ps.min("w"),
    "max": ps.max("w"),
    "top": ps.top(2, "w"),
    "bottom": ps.bottom(2, "w"),
    "distinct": ps.distinct("w"),
    "quantiles": ps.quantiles([0, 0.5, 1], "v"),
    "total": ps.sum("v"),
}


def documents(choose: Random) -> list[Any]:
    """Return some documents, most of them plain."""
    out = []
    for _ in range(choose.randrange(30)):
        doc: dict[str, Any] = {"g": choose.choice(GROUPS[:3] if choose.random() < 0.6 else GROUPS)}
        for name, pool in {"h": GROUPS[:6], "v": NUMBERS, "w": NUMBERS, "paid": [True, False]}.items():
            if choose.random() < 0.8:
                doc[name] = choose.choice(pool if choose.random() < 0.8 else STRANGE)
        out.append(doc)
    return out


def shop() -> ps.App:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("by_one", key="g", reduce=REDUCERS)
    orders.view("by_two", key=("g", "h"), reduce=ORDERED)
    orders.view("of_all", key=(), where=(ps.field("v") > 0) & ~ps.field("paid"), value="v", reduce=ps.sum())
    orders.view("nested", key="w.a", reduce=ps.count())
    orders.view("yielded", reduce={"n": ps.count(), "total": ps.sum()})(once)
    orders.view("several", reduce={"n": ps.count(), "max": ps.max("v"), "mean": ps.mean("v")})(often)
    orders.view("flat", reduce=ps.sum())(twice)
    return app


def once(order: dict[str, Any]) -> Iterator[Any]:
    """Yield one pair, or raise an error."""
    yield order["g"], order["v"]


def often(order: dict[str, Any]) -> Iterator[Any]:
    """Yield maps as values, and change the document."""
    group = order.pop("g")
    for name in sorted(order):
        order["v"] = len(name)
        yield (group, name), order
    if "h" in order:
        yield order["h"]


def twice(order: dict[str, Any]) -> Iterator[Any]:
    """Yield a group twice."""
    yield "all", 1
    yield "all", 2 if "v" in order else 1
    yield "b" if "w" in order else "a", 1


def by_tallies(view: View, docs: list[Any], size: int) -> dict[bytes, Any]:
    """Return the rows of a view from tallies of blocks of this size, and from the oracle for the other documents."""
    described = [reducer.describe() for reducer in view.reducers]
    tallies: dict[bytes, list[Tally]] = {}
    left: dict[bytes, list[tuple[Any, int, int]]] = {}
    for start in range(0, len(docs), size):
        block, counting = docs[start : start + size], ViewTallies.of(view, described)
        assert counting is not None
        found = emitted(view, counting, deepcopy(block), set())
        counting.add(found.groups, found.columns)
        for group, tally in counting.tallies():
            tallies.setdefault(group, []).append(tally)
        for i in sorted(found.rest):
            try:
                own = [(encode_key(group), value) for group, value in emission(view, start + i, block[i], described)]
            except Exception:  # the document is held
                continue
            for number, (group, value) in enumerate(own):
                left.setdefault(group, []).append((value, start + i, number))
    out: dict[bytes, Any] = {}
    for group in tallies.keys() | left.keys():
        given = [
            [ReducerInput(read_by(view, reducer, value), (rank(key), n)) for value, key, n in left.get(group, [])]
            for reducer in view.reducers
        ]
        out[group] = folded(view, described, tallies.get(group, []), given)
    return out


def agree(view: View, docs: list[Any], size: int) -> None:
    """Check that both ways give equal rows."""
    wanted = {}
    for shown in recomputed(view, list(enumerate(docs))).rows.values():
        wanted[encode_key(shown.group)] = shown.result
    found = by_tallies(view, docs, size)
    assert found.keys() == wanted.keys()
    differing = [group for group in wanted if not same_result(found[group], wanted[group])]
    assert not differing, f"{differing[0]!r}: {found[differing[0]]} should be {wanted[differing[0]]}"


def agree_all(seed: int) -> None:
    """Check that both ways give equal rows in all views."""
    choose = Random(seed)
    docs = documents(choose)
    for view in shop().views():
        agree(view, docs, choose.choice([1, 7, 30]))


@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32))
def test_tallies_say_what_the_oracle_says(seed: int) -> None:
    agree_all(seed)


def test_plain_documents_are_all_tallied() -> None:
    docs = [{"g": f"g{i % 3}", "v": i, "w": 0.5 + i, "paid": False} for i in range(50)]
    for view in shop().views():
        counting = ViewTallies.of(view, [reducer.describe() for reducer in view.reducers])
        assert counting is not None
        assert emitted(view, counting, deepcopy(docs), set()).rest == set(), view.name


def test_a_group_that_is_too_long_is_left_to_the_oracle() -> None:
    docs = [{"g": "a", "v": 1}, {"g": "x" * 70_000, "v": 1}]
    for name in ("by_one", "yielded"):
        view = shop().view_of(name)
        counting = ViewTallies.of(view, [reducer.describe() for reducer in view.reducers])
        assert counting is not None
        found = emitted(view, counting, docs, set())
        assert (found.whose, found.encoded, found.rest) == ([0], [encode_key("a")], {1})


def test_what_must_know_whose_a_value_is_is_not_tallied() -> None:
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts="ts")
    views = [
        orders.view("listed", key="g", value="v", reduce=None),
        orders.view("last", key="g", reduce={"n": ps.count(), "last": ps.last("v")}),
        orders.view("first", key="g", value="v", reduce=ps.collect(2)),
        orders.view("own", key="g", value="v", reduce=lambda values, rereduce: len(values)),
    ]
    assert [ViewTallies.of(view, [reducer.describe() for reducer in view.reducers]) for view in views] == [None] * 4


BUGS = [
    Bug("true is 1", "spark.verify_job.tallies.distinct_groups", "_FLAGS[group] if", "int(group) if"),
    Bug("a null is a value", "spark.verify_job.tallies._ColumnTally.add", "kinds - {_NULL}", "kinds"),
    Bug("a NaN is plain", "spark.verify_job.tallies._ColumnTally._takes", "isfinite(value)", "True"),
    Bug("zeros are one", "spark.verify_job.tallies._ColumnTally._takes", "bool(value or not self._valued)", "True"),
    Bug(
        "what is left is tallied too",
        "spark.verify_job.plain_contributions.PlainContributions.without",
        "if row not in rest]",
        "]",
    ),
    Bug(
        "a condition is passed over",
        "spark.verify_job.plain_contributions._by_fields",
        "fields.where is not None",
        "False",
    ),
    Bug(
        "a function's document is not its own",
        "spark.verify_job.plain_contributions._yielded",
        "value = dict(value)",
        "pass",
    ),
    Bug(
        "ints are floats",
        "spark.verify_job.tallies._ColumnTally._sum",
        "sums[group, 1] += value",
        "sums[group, 1] += int(float(value))",
    ),
    Bug("squares are not squared", "spark.verify_job.tallies._total", "denominator**power", "denominator"),
    Bug(
        "one of several tallies counts",
        "spark.verify_job.tallies.folded",
        "sum(n for n, _ in tallies)",
        "(tallies or [(0, 0)])[0][0]",
    ),
]


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.name) for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    def searched() -> None:
        for seed in range(200):
            agree_all(seed)

    with pytest.raises(Exception):  # noqa: B017, PT011 - any error shows the bug
        searched()
