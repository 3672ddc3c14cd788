"""The work of function views with held documents grows with the documents, not with their square.

The test counts the rows that columns and emissions read, and the rows of arrays that NumPy fills with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.mapreduce import Emissions
from penstock.mapreduce.columns import column
from penstock.mapreduce.maps import emissions

FEW, MANY = 1_000, 4_000


class CountingNumPy:
    """A stand-in for NumPy in a module, which counts the rows of the arrays that it makes."""

    def __init__(self) -> None:
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name not in ("zeros", "fromiter", "cumsum", "concatenate"):
            return found

        def counted(*args: Any, **named: Any) -> Any:
            out = found(*args, **named)
            self.rows += out.size
            return out

        return counted


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> CountingNumPy:
    counting = CountingNumPy()
    for module in (column, emissions):
        monkeypatch.setattr(module, "np", counting)
    return counting


def shop() -> ps.App:
    app = ps.App("flights")
    flights = app.table("flights", key="id")

    @flights.view(reduce=ps.count())
    def maps(flight: dict[str, Any]) -> Iterator[Any]:
        yield flight["c"], {"delay": float(flight["x"])}

    @flights.view(reduce=ps.count())
    def several(flight: dict[str, Any]) -> Iterator[Any]:
        yield flight["c"], str(flight["x"])
        yield flight["c"] + 1, float(flight["x"])

    maps.view("rows", reduce=ps.count())(by_row)
    flights.view("field", key="c", value="x", reduce=ps.sum())
    return app


def by_row(row: Any) -> Iterator[Any]:
    yield row.value, {"group": row.key}


def documents(n: int, first: int) -> list[dict[str, Any]]:
    return [{"id": i, "c": i % 700, "x": "NA" if i % 37 == first else i + 0.5} for i in range(n)]


def steps(engine: Any, n: int) -> dict[str, Callable[[], Any]]:
    return {
        "load": lambda: engine.put_many("flights", documents(n, 1)),
        "newer versions": lambda: engine.put_many("flights", documents(n, 2)),
        "check": engine.check,
        "restate": lambda: engine.restate("several"),
        "digest": engine.digest,
    }


def rows_of(work: CountingNumPy, n: int) -> dict[str, int]:
    """Return the number of rows that each step reads."""
    counted: dict[str, int] = {}
    with ps.open(shop(), None) as engine:
        engine.put("flights", {"id": -1, "c": 0, "x": "NA"})
        for name, step in steps(engine, n).items():
            before = work.rows
            step()
            counted[name] = work.rows - before
        assert engine.check().ok
    return counted


def test_four_times_the_documents_are_four_times_the_work(work: CountingNumPy) -> None:
    few, many = rows_of(work, FEW), rows_of(work, MANY)
    assert all(many[name] < 6 * few[name] for name in few), (few, many)


def test_a_quadratic_step_is_found(work: CountingNumPy, monkeypatch: pytest.MonkeyPatch) -> None:
    def each(own: Emissions, wanted: Any) -> Iterator[Emissions]:
        return (own.take(np.array([i])) for i in wanted)

    monkeypatch.setattr(Emissions, "each", each)
    few, many = rows_of(work, FEW), rows_of(work, MANY)
    assert many["load"] > 10 * few["load"]
