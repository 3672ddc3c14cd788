"""Large groups: the oracle folds them in parts or at once, with equal results. A check folds them in parts."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.mapreduce import same_result
from penstock.recovery import recomputed, recomputed_large
from penstock.recovery.check import oracle_comparison
from tests.recovery.damage import tell

KINDS: dict[str, list[Any]] = {
    "ints": [1, 5, -7, 2**70, None],
    "floats": [0.1, 2, -1e300, 1e300, 3.5, None],
    "Decimals": [Decimal("3.30"), 2, Decimal("-0.1"), None],
    "infinities": [1.5, math.inf, 2],
    "NaN": [1.5, math.nan, -math.inf, 2],
    "nulls": [None],
}
REDUCERS: dict[str, Any] = {
    "n": ps.count(),
    "values": ps.count("v"),
    "sum": ps.sum("v"),
    "mean": ps.mean("v"),
    "variance": ps.variance("v"),
    "stddev": ps.stddev("v", ddof=0),
    "bins": ps.histogram([-1, 2, 3], "v"),
    "least": ps.min("v"),
    "most": ps.max("v"),
    "top": ps.top(3, "v"),
    "bottom": ps.bottom(2, "v"),
    "some": ps.collect(4, "v"),
    "first": ps.first("v", by="by"),
    "last": ps.last("v", by="by"),
}


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id")
    users.view("all", key=(), reduce={**REDUCERS, "kinds": ps.distinct("v"), "q": ps.quantiles([0.5], "v")})
    users.view("listed", key="g", value="v", reduce=None)
    return app


def documents(values: list[Any], seed: int) -> list[tuple[int, dict[str, Any]]]:
    choose = Random(seed)
    return [
        (i, {"id": i, "g": "x", "v": choose.choice(values), "by": choose.randrange(5)}) for i in range(seed, seed + 60)
    ]


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_they_agree(values: list[Any], size: int) -> None:
    view = shop().view_of("all")
    docs = documents(values, size)
    [whole] = recomputed(view, docs).rows.values()
    made = recomputed_large(view, (), [docs[a : a + size] for a in range(0, len(docs), size)])
    assert view.fields is not None
    assert [view.fields[i] for i in made] == [*REDUCERS], "those that need all values at once are left out"
    for i, result in made.items():
        assert same_result(result, whole.result[view.fields[i]]), view.fields[i]


def test_a_check_folds_large_groups_part_by_part() -> None:
    with (
        ps.open(shop(), None) as engine,
        mock.patch.object(oracle_comparison, "_MOST", 10),
        mock.patch.object(oracle_comparison, "_BLOCK", 8),
    ):
        engine.put_many("users", [doc for _, doc in documents(KINDS["ints"], 1)])
        assert engine.check().ok
        tell(engine, "listed", [(1, "y", 5)], [])
        with mock.patch("penstock.recovery.repair.restatement.Restatement.view"):  # so that only the oracle sees it
            tell(engine, "all", [(9_000, (), {"v": 2**80, "by": 9})], [])
            damaged = engine.check().damaged
        assert {line.partition(": it shows")[0].rpartition(", ")[2] for line in damaged} >= {"'n'", "'sum'", "'most'"}
        assert engine.check(fix=True).ok
