"""Joins agree with SQL over DuckDB for nulls and kinds of numbers; the cases where they differ are pinned by name."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.views.join_definitions import How

duckdb = pytest.importorskip("duckdb")

INT, FLOAT, TEXT, BOOL, LIST = pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.list_(pa.int64())
POOLS: dict[Any, list[Any]] = {
    INT: [None, 0, 1, -3, 2**40],
    FLOAT: [None, 0.0, -0.0, 1.0, -3.0, 0.5, math.inf, math.nan],
    TEXT: [None, "", "1", "é", "e\u0301"],
    BOOL: [None, True, False],
    LIST: [None, [], [1], [1, None], [None]],
}
TYPES = [(INT, INT), (INT, FLOAT), (FLOAT, FLOAT), (TEXT, TEXT), (BOOL, BOOL), (LIST, LIST)]
Rows = list[dict[str, Any]]


HOWS: dict[How, str] = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}


def joined(left: Rows, right: Rows, conditions: int, how: How = "inner") -> list[tuple[Any, ...]]:
    """Return the keys of the rows that a join of these documents has."""
    app = ps.App("pairs")
    sides = {"a": app.table("left", key="id"), "b": app.table("right", key="id")}
    join = app.join("both", **sides, on=[(f"a.c{i}", f"b.c{i}") for i in range(conditions)], how=how)
    join.view("rows", key=("a.id",) if how in ("semi", "anti") else ("a.id", "b.id"), reduce=ps.count())
    with ps.open(app, None) as engine:
        for table, documents in (("left", left), ("right", right)):
            assert engine.put_many(table, documents).applied == len(documents)
        with engine.snapshot() as snap:
            return sorted((key for key, _ in snap.view("rows").items()), key=repr)


def selected(left: Rows, right: Rows, types: list[tuple[Any, Any]], how: How = "inner") -> list[tuple[Any, ...]]:
    """Return the keys of the rows that a join in SQL selects."""
    db = duckdb.connect()
    for name, rows, side in (("l", left, 0), ("r", right, 1)):
        schema = pa.schema([("id", INT), *((f"c{i}", both[side]) for i, both in enumerate(types))])
        db.register(name, pa.Table.from_pylist(rows, schema))
    on = " AND ".join(f"l.c{i} = r.c{i}" for i in range(len(types)))
    keys = "l.id" if how in ("semi", "anti") else "l.id, r.id"
    return sorted(db.execute(f"SELECT {keys} FROM l {HOWS[how]} r ON {on}").fetchall(), key=repr)


def documents(types: list[Any], draw: Random) -> Rows:
    return [{"id": n, **{f"c{i}": draw.choice(POOLS[t]) for i, t in enumerate(types)}} for n in range(25)]


@pytest.mark.parametrize("both", TYPES, ids=str)
def test_one_condition_matches_as_in_sql(both: tuple[Any, Any]) -> None:
    left, right = ([{"id": n, "c0": value} for n, value in enumerate(POOLS[t])] for t in both)
    assert joined(left, right, 1) == selected(left, right, [both]) != []


@pytest.mark.parametrize("how", HOWS)
def test_composite_conditions_match_as_in_sql(how: How) -> None:
    draw = Random(how)
    types = draw.sample(TYPES, 2)
    left, right = (documents([both[side] for both in types], draw) for side in (0, 1))
    assert joined(left, right, 2, how) == selected(left, right, types, how) != []


DIFFERENT = {
    "true is not 1": (BOOL, True, INT, 1, False),
    "a text is not the number that it spells": (TEXT, "1", INT, 1, False),
    "a large int is not the float nearest to it": (INT, 2**53 + 1, FLOAT, 2.0**53, False),
}
"""By rule: type and value of either side, and whether our join matches them. SQL does the opposite in each case."""


@pytest.mark.parametrize("rule", DIFFERENT)
def test_where_sql_differs(rule: str) -> None:
    kind, value, other_kind, other, matches = DIFFERENT[rule]
    left, right = [{"id": 0, "c0": value}], [{"id": 0, "c0": other}]
    assert joined(left, right, 1) == ([(0, 0)] if matches else [])
    assert selected(left, right, [(kind, other_kind)]) == ([] if matches else [(0, 0)])
