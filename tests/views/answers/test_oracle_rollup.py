"""Compare rollups of reducers without an inverse, from partials of whole groups, with the oracle's fold."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import penstock as ps
from tests.harness.checks import differences
from tests.harness.oracle_app import app_of
from tests.oracle.model import Model
from tests.oracle.ordered import Bottom, Collect, Distinct, First, Function, Last, Max, Min, Monoid, Quantiles, Top
from tests.oracle.reducers import Count
from tests.oracle.tables import Table
from tests.oracle.views import View


class Sizes:
    """A reducer that adds the lengths of values as text."""

    zero = 0

    def lift(self, value: Any) -> int:
        return len(repr(value))

    def merge(self, a: int, b: int) -> int:
        return a + b

    def result(self, a: int) -> str:
        return str(a)


def rows(values: Any, rereduce: bool) -> Any:
    """Count rows like CouchDB does."""
    return sum(values) if rereduce else len(values)


ROW = {
    "n": Count(),
    "best": Max("v"),
    "least": Min("v"),
    "top": Top("v", 2),
    "bottom": Bottom("v", 2),
    "some": Collect("v", 2),
    "first": First("v"),
    "last": Last("v", "w"),
    "sizes": Monoid("v", Sizes()),
}
VIEWS = (
    View("fields", "docs", ROW, key=("g", "h")),
    View("rows", "docs", Function(None, rows), key=("g", "h"), value="v"),
    View("twice", "docs", ROW, fn=lambda doc: [((doc["g"], doc["h"]), doc), ((doc["g"], "z"), doc)]),
)
TABLE = Table("docs", "id", ts="ts")


@pytest.mark.parametrize("seed", range(3))
def test_a_rollup_equals_the_fold_of_all_values(seed: int) -> None:
    choose = Random(seed)
    model = Model([TABLE], VIEWS)
    with ps.open(app_of([TABLE], VIEWS), None) as engine:
        for _ in range(3):
            docs = [
                {
                    "id": choose.randrange(150),
                    "ts": choose.randrange(9),
                    "g": choose.choice("ab"),
                    "h": choose.randrange(4),
                    "v": choose.choice([1, 1.0, 2, "x", None, [1]]),
                    "w": choose.randrange(3),
                }
                for _ in range(80)
            ]
            engine.put_many("docs", docs)
            model.put_many("docs", docs)
        with engine.snapshot() as snap:
            for view in VIEWS:
                for level in range(3):
                    wanted = model.rollup(view.name, level)
                    assert not differences(view.name, snap.view(view.name).rollup(level=level), wanted)
                    backwards = reversed(list(snap.view(view.name).rollup(level=level, reverse=True)))
                    assert not differences(view.name, backwards, wanted)


@pytest.mark.parametrize("spec", [Distinct("v"), Quantiles("v")], ids=lambda spec: type(spec).__name__)
def test_reducers_of_sorted_values_have_no_rollup(spec: Any) -> None:
    with ps.open(app_of([TABLE], [View("v", "docs", spec, key=("g", "h"))]), None) as engine:
        engine.put_many("docs", [{"id": i, "ts": 1, "g": "a", "h": i, "v": i} for i in range(3)])
        with engine.snapshot() as snap:
            name = type(spec).__name__.lower()
            with pytest.raises(ps.DefinitionError, match=rf"{name}\(\) of several groups together"):
                list(snap.view("v").rollup(level=1))
            assert len(list(snap.view("v").rollup(level=2))) == 3
