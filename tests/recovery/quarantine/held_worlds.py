"""Views with functions and reducers that fail on demand.

The views have versions, because the switch for failures is no part of their definitions. Their tests check one law:
after the release of everything held, the content equals that of a store without failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import penstock as ps


class Fails:
    """A switch: functions fail while it is on."""

    def __init__(self, now: bool = True) -> None:
        self.now = now


class Odd:
    """A user's group that adds. It fails on odd values while the switch is on."""

    zero = 0

    def __init__(self, fails: Fails) -> None:
        self._fails = fails

    def lift(self, value: int) -> int:
        if self._fails.now and value % 2:
            raise ValueError(f"{value} is odd")
        return value

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


class Longest:
    """A user's monoid that fails in the same way."""

    zero = ""

    def __init__(self, fails: Fails) -> None:
        self._fails = fails

    def lift(self, value: Any) -> str:
        if self._fails.now and str(value) == "3":
            raise KeyError("three")
        return str(value)

    def merge(self, a: str, b: str) -> str:
        return max(a, b)


def world(fails: Fails, bad: Fails) -> ps.App:
    """Return an app with views of every kind.

    Maps fail for documents that are "bad". The reducers of `owed` and `longest` fail while `fails` is on.
    """
    app = ps.App("held")
    table = app.table("docs", key="id")
    merged = app.table("merged", key="id", ts="ts", merge="patch")

    @table.view(version="1", reduce=ps.count())
    def names(doc: dict[str, Any]) -> Iterator[Any]:
        if bad.now and doc.get("bad"):
            raise RuntimeError(f"{doc['id']} is bad")
        yield doc["name"]
        yield doc["name"] * 2

    @table.view(version="1", reduce={"n": ps.count(), "top": ps.top(2, "v")}, sources=True)
    def tree(doc: dict[str, Any]) -> Iterator[Any]:
        if bad.now and doc.get("bad"):
            raise RuntimeError("bad too")
        yield doc["name"], {"v": doc["v"] if isinstance(doc["v"], int) else 0}

    @table.view(version="1", reduce=None)
    def index(doc: dict[str, Any]) -> Iterator[Any]:
        if bad.now and doc.get("bad"):
            raise RuntimeError("and here")
        yield doc["name"], doc["id"]

    @names.view(version="1", reduce=ps.sum())
    def lengths(row: Any) -> Iterator[Any]:
        if bad.now and row.value == 2:
            raise RuntimeError("two")
        yield len(row.key), row.value

    @merged.view(version="1", reduce=ps.count())
    def patches(doc: dict[str, Any]) -> Iterator[Any]:
        if bad.now and doc.get("bad"):
            raise RuntimeError("a bad patch")
        yield doc.get("name")

    table.view("sums", key="name", value="v", reduce={"total": ps.sum(), "n": ps.count()})
    table.view("tops", key="name", value="v", where=ps.field("id") > 2, reduce={"most": ps.max(), "total": ps.sum()})
    table.view("owed", key="name", reduce={"own": ps.group(Odd(fails), "w"), "n": ps.count()}, version="1")
    table.view("longest", key="name", reduce=ps.monoid(Longest(fails), "w"), version="1")
    return app


VIEWS = ("names", "tree", "index", "lengths", "patches", "sums", "tops", "owed", "longest")


def rows(engine: ps.Engine, view: str) -> list[tuple[Any, Any, bool]]:
    """Return the rows of a view as (group, result, held)."""
    with engine.snapshot() as snap:
        return [(row.key, row.value, row.held) for row in snap.view(view).items()]


def shown(engine: ps.Engine, view: str) -> dict[Any, Any]:
    """Return the result of each group of a view."""
    return {key: value for key, value, _ in rows(engine, view)}
