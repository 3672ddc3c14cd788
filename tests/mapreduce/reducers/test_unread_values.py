"""The warning for a view that counts, and yields values that no reducer reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as ps

DOCS = [{"id": i, "a": i % 2, "b": "x"} for i in range(700)]


def pairs(doc: dict[str, Any]) -> Iterator[Any]:
    yield doc["a"], doc["b"]


def several(doc: dict[str, Any]) -> Iterator[Any]:
    yield from ((doc["a"], doc["b"]), (doc["b"], None))


def whole(doc: dict[str, Any]) -> Iterator[Any]:
    yield (doc["a"], doc["b"]), None


def groups(doc: dict[str, Any]) -> Iterator[Any]:
    yield doc["a"]


def messages(caplog: pytest.LogCaptureFixture, map_function: Callable[..., Any], reduce: Any) -> list[str]:
    """Return the warnings of two stores with one app."""
    app = ps.App("shop")
    table = app.table("t", key="id")
    table.view("v", reduce=reduce)(map_function)
    for docs in (DOCS, DOCS[:1]):
        with ps.open(app, None) as engine:
            engine.put_many("t", docs)
            engine.put("t", {"id": -1, "a": 1, "b": "y"})
            assert engine.check().ok
    return [record.getMessage() for record in caplog.records if record.name == "penstock.mapreduce"]


@pytest.mark.parametrize("function", [pairs, several])
@pytest.mark.parametrize("reduce", [ps.count(), {"n": ps.count()}])
def test_values_that_nobody_reads_are_named_once(
    function: Callable[..., Any], reduce: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def own(doc: dict[str, Any]) -> Iterator[Any]:
        yield from function(doc)

    [message] = messages(caplog, own, reduce)
    assert "view 'v' yields pairs" in message
    assert "((a, b), None)" in message


@pytest.mark.parametrize(
    ("function", "reduce"),
    [
        (whole, ps.count()),
        (groups, ps.count()),
        (pairs, ps.count("x")),
        (pairs, ps.max()),
        (pairs, {"n": ps.count(), "m": ps.max()}),
        (pairs, None),
    ],
)
def test_other_views_are_not_warned_of(
    function: Callable[..., Any], reduce: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert messages(caplog, function, reduce) == []
