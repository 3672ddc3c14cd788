"""Strategies for documents, records and histories, good and bad. Keys and names are few, so that they repeat."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.oracle.tables import BROKER, Table
from tests.oracle.values import at

LONG = "x" * 450
KEYS: list[Any] = [1, 1, 2, "a", True, 1.0, [1, "x"]]
BAD_KEYS: list[Any] = [None, {}, {"a": 1}, "x" * 70_000]
NAMES: list[Any] = ["Sue", "Joe", "Bob", "é", None, 1, 1.0, True, 7.5, LONG + "a", LONG + "b", [1, "a"], ""]
AMOUNTS: list[Any] = [0, 1, -7, 0.1, 0.2, 1e300, -1e300, 5e-324, 1 << 62, -(1 << 63), (1 << 63) - 1, 1 << 64, None]
INEXACT: list[Any] = [Decimal("3.30"), Decimal("-1E+3"), -(10**30), math.nan, math.inf, -math.inf]
WRONG: list[Any] = ["much", True, [1], {"a": 1}]
NUMBERS: list[Any] = [1, 2, 2.5, 3, 4, -1e300, 1 << 60, (1 << 60) + 1]
INSTANTS: list[Any] = [
    "2024-01-01T00:00:00Z",
    "2024-01-01T01:00:00+01:00",
    "2024-01-01T00:00:00.000000001Z",
    "2023-12-31T23:59:60Z",
    "1969-07-20T20:17:40-00:00",
]
BAD_TS: list[Any] = [None, "soon", True, [1], "2024-02-30T00:00:00Z"]
BROKEN = ["{", "[1]", "7", "", '{"id": 1', '{"id": NaN}', '{"id": 1} {"id": 2}']


def mostly(good: list[Any], bad: list[Any], weight: int = 15) -> st.SearchStrategy[Any]:
    """Draw good values, and sometimes a bad one."""
    return st.integers(0, weight).flatmap(lambda n: st.sampled_from(bad if n == weight else good))


@st.composite
def documents(
    draw: st.DrawFn, table: Table, ts: list[Any], plain_json: bool = False, wrong: bool = True
) -> dict[str, Any]:
    """Draw a document of a table. `wrong` allows rejected and held ones, `plain_json` only values that JSON has."""
    doc: dict[str, Any] = {"id": draw(mostly(KEYS, BAD_KEYS) if wrong else st.sampled_from(KEYS))}
    if table.ts and table.ts != BROKER:
        doc[table.ts] = draw(mostly(ts, BAD_TS + NUMBERS + INSTANTS) if wrong else st.sampled_from(ts))
    amounts = AMOUNTS if plain_json else AMOUNTS + INEXACT
    fields = {
        "name": mostly(NAMES, [{}, {"a": 1}]) if wrong else st.sampled_from(NAMES[:4]),
        "amount": mostly(amounts, WRONG) if wrong else st.sampled_from(amounts),
        "paid": st.sampled_from([True, True, False, None, 1]),
        "tags": st.lists(st.sampled_from(["red", "blue", 1, None]), max_size=3),
    }
    for name, values in fields.items():
        if (not wrong and name == "name") or draw(st.integers(0, 3)):
            doc[name] = draw(values)
    if isinstance(table.key, tuple) or draw(st.booleans()):
        doc["org"] = {
            "name": draw(st.sampled_from(["x", "y"] if isinstance(table.key, tuple) else ["x", "y", None, 2]))
        }
    if wrong and not plain_json and draw(st.integers(0, 30)) == 0:
        doc["odd"] = draw(st.sampled_from([{1, 2}, object(), {1: 2}, Decimal("nan"), "\ud800", [b"bytes"]]))
    return doc


def keys(table: Table, wrong: bool = True) -> st.SearchStrategy[Any]:
    """Draw a key to delete."""
    single = mostly(KEYS, BAD_KEYS) if wrong else st.sampled_from(KEYS)
    if not isinstance(table.key, tuple):
        return single
    return st.tuples(st.sampled_from(KEYS), st.sampled_from(["x", "y"]))


def key_in(table: Table, doc: dict[str, Any]) -> Any:
    """Return the key in a document."""
    return at(doc, table.key) if isinstance(table.key, str) else tuple(at(doc, path) for path in table.key)


def with_key(table: Table, doc: dict[str, Any], key: Any) -> dict[str, Any]:
    """Return the document under another key."""
    return doc | ({"id": key[0], "org": {"name": key[1]}} if isinstance(table.key, tuple) else {"id": key})


def lines(table: Table, ts: list[Any]) -> st.SearchStrategy[str]:
    """Draw a line of JSON, sometimes a broken one."""
    good = documents(table, ts, plain_json=True).map(json.dumps)
    return st.integers(0, 12).flatmap(lambda n: st.sampled_from(BROKEN) if n == 12 else good)


def bounds() -> st.SearchStrategy[dict[str, Any]]:
    """Draw the arguments of a range read."""
    groups = st.sampled_from([False, True, 1, 7.5, "", "J", "Joe", "Sue", LONG, LONG + "b", (), (1,), ("Joe", "x")])
    asked = {
        "start": groups,
        "stop": groups,
        "prefix": st.sampled_from(["", "S", LONG, (), ("Joe",), (None,), (1,)]),
        "reverse": st.booleans(),
        "limit": st.integers(0, 3),
    }
    return st.fixed_dictionaries({}, optional=asked)
