"""Read ranges and rollups of a view: inclusive ends, grand totals, and the work of accumulators that grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

LONG = "x" * 390
GROUPS: list[Any] = [None, True, 2, 2.5, "a", "ab", "b", LONG, LONG + "y" * 50, LONG + "z" * 50, b"a"]
GROUPS += [("a",), ("a", 1), ("a", 1, "x"), ("a", 2), ("b", None), ("b", LONG * 2), ("c", 1)]


class Together:
    """Keeps all values in order, and counts the values that it copies."""

    zero: tuple[Any, ...] = ()
    copied = 0

    def lift(self, value: Any) -> list[Any]:
        return [value]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        Together.copied += len(a) + len(b)
        return a + b


@pytest.fixture(params=["memory", "disk", "partitions"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    app = ps.App("shop")
    table = app.table("t", key="id")
    table.view("n", reduce={"n": ps.count(), "sum": ps.sum("v")})(lambda doc: [(GROUPS[doc["g"]], doc)])
    how: dict[str, Any] = {"partitions": 2} if request.param == "partitions" else {}
    with ps.open(app, tmp_path / "s" if request.param == "disk" else None, **how) as engine:
        engine.put_many("t", [{"id": i, "g": i % len(GROUPS), "v": i} for i in range(90)])
        yield engine


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: repr(group)[:12])
def test_an_inclusive_end(engine: Any, group: Any) -> None:
    with engine.snapshot() as snap:
        view = snap.view("n")
        whole = [row.key for row in view.items()]
        assert whole == GROUPS
        to = GROUPS.index(group) + 1
        while isinstance(group, tuple) and to < len(GROUPS) and GROUPS[to][: len(group)] == group:
            to += 1
        assert [row.key for row in view.items(through=group)] == GROUPS[:to]
        assert [row.key for row in view.items(through=group, reverse=True)] == GROUPS[:to][::-1]
        assert [row.key for row in view.items(start=group, through=group)] == GROUPS[GROUPS.index(group) : to]
        assert [row.key for row in view.items(through=group, stop=group)] == GROUPS[: GROUPS.index(group)]
        found = [row.key for row in view.rollup(level=1, through=group)]
        assert found == list(dict.fromkeys(g[:1] if isinstance(g, tuple) else g for g in GROUPS[:to]))


def test_a_grand_total_of_groups_of_any_kind(engine: Any) -> None:
    with engine.snapshot() as snap:
        view = snap.view("n")
        assert list(view.rollup(level=0)) == [((), {"n": 90, "sum": sum(range(90))})]
        assert list(view.rollup(level=0, prefix="a")) == [
            ((), {"n": 10, "sum": sum(i for i in range(90) if i % 18 in (4, 5))})
        ]
        assert list(view.rollup(level=0, start=("d",))) == []


@pytest.mark.parametrize("level", [0, 1])
def test_accumulators_that_grow_are_copied_a_few_times(level: int) -> None:
    app = ps.App("shop")
    app.table("t", key="id").view("all", key=("a", "id"), value="id", reduce=ps.monoid(Together()))
    n = 3_000
    with ps.open(app, None) as engine, engine.snapshot() as before:
        assert list(before.view("all").rollup(level=level)) == []
        engine.put_many("t", [{"id": i, "a": 1} for i in range(n)])
        Together.copied = 0
        with engine.snapshot() as snap:
            [(_, together)] = snap.view("all").rollup(level=level)
    assert together == list(range(n))
    assert Together.copied < 20 * n
