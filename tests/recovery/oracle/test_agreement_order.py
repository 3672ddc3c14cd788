"""The engine and the oracle pass maps to a user's functions with their names in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

import penstock as ps
from penstock.recovery.oracle import plain_reducers
from penstock.testing import crashtest


class Names:
    """A monoid that counts the names of all maps. Its result depends on the order of the accumulator."""

    zero: ClassVar[dict[str, int]] = {}

    def lift(self, value: Any) -> dict[str, int]:
        return {f"{place}{name}": 1 for place, name in enumerate(value)}

    def merge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {name: n for name in [*b, *a] if (n := a.get(name, 0) + b.get(name, 0))}

    def result(self, a: dict[str, int]) -> dict[str, Any]:
        return {"names": list(a), "first": next(iter(a), None)}


class Invertible(Names):
    def unmerge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return self.merge(a, {name: -n for name, n in b.items()})


def order(values: list[Any], rereduce: bool) -> list[Any]:
    """Return the smallest order of names."""
    return min(values if rereduce else [list(value) for value in values])


def shown(row: Any) -> Iterator[Any]:
    """Define a view on a view that depends on the order of its parent's maps."""
    yield "/".join(row.value), 1


def by_function(doc: dict[str, Any]) -> Iterator[Any]:
    yield doc["g"], doc["v"]


REDUCERS: dict[str, Any] = {
    "group": ps.group(Invertible()),
    "monoid": ps.monoid(Names()),
    "function": order,
    "max": ps.max(),
    "several": {"z": ps.group(Invertible()), "a": ps.count()},
}


def shop() -> ps.App:
    app = ps.App("shop")
    table = app.table("users", key="id")
    for name, reducer in REDUCERS.items():
        if name != "several":
            parent = table.view(f"{name}_fields", key="g", value="v", reduce=reducer)
            parent.view(f"{name}_chained", reduce=ps.count())(shown)
        table.view(f"{name}_yielded", reduce=reducer)(by_function)
        app.view_of(f"{name}_yielded").view(f"{name}_on", reduce=ps.count())(shown)
    return app


def documents(seed: int, n: int) -> list[dict[str, Any]]:
    """Return documents with few different maps, each with its names in several orders."""
    choose, docs = Random(seed), []
    for i in range(n):
        names = choose.sample("zyxab", choose.randrange(1, 4))
        docs.append({"id": choose.randrange(n), "g": i % 3, "v": {name: choose.randrange(2) for name in names}})
    return docs


@pytest.mark.parametrize("partitions", [None, 2])
def test_every_way_to_the_same_documents_shows_the_same(partitions: int | None, tmp_path: Path) -> None:
    docs = documents(7, 90)
    rows: list[Any] = []
    for way in ("one", "many"):
        how: dict[str, Any] = {"partitions": partitions} if partitions else {}
        with ps.open(shop(), None if partitions else tmp_path / way, **how) as engine:
            if way == "one":
                for doc in docs:
                    engine.put("users", doc)
            else:
                engine.put_many("users", docs)
            report = engine.check()
            assert (report.wrong, report.damaged, report.told) == ((), (), {})
            with engine.snapshot() as snap:
                rows.append({view.name: list(snap.view(view.name).items()) for view in shop().views()})
    assert rows[0] == rows[1]


def test_the_crash_test_agrees() -> None:
    report = crashtest(shop(), documents(3, 40), seeds=6)
    assert report.ok, str(report)


def test_an_oracle_with_another_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: backwards(value[name]) for name in sorted(value, reverse=True)}
        return list(map(backwards, value)) if isinstance(value, list | tuple) else value

    with ps.open(shop(), None) as engine:
        engine.put_many("users", documents(7, 90))
        monkeypatch.setattr(plain_reducers, "value_of", backwards)
        damaged = "\n".join(engine.check().damaged)
    assert all(f"view '{name}_fields'" in damaged for name in ("group", "monoid", "function")), damaged
