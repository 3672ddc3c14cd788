"""A store with a changing app, and the views of its apps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import penstock as ps
from penstock.engine import open_on
from penstock.views import Kind
from tests.harness.histories import LastingStore

DOCS = [{"id": i, "name": name, "n": i} for i, name in enumerate(["Sue", "Joe", "Sam", "Joe", "Bob", "Sue"])]
Define = Callable[[ps.Table], object]


def app_of(*definitions: Define) -> ps.App:
    """Return an app with these views on one table."""
    app = ps.App("shop")
    users = app.table("users", key="id")
    for define in definitions:
        define(users)
    return app


class Store:
    """A store in memory. The tests open it with one app after the other."""

    def __init__(self, *definitions: Define) -> None:
        self.store = LastingStore()
        self.open(*definitions)
        self.engine.put_many("users", DOCS)

    def open(self, *definitions: Define, migrate: Any = "auto") -> ps.Engine:
        """Open the store with an app of these views."""
        self.engine, self.core = open_on(app_of(*definitions), self.store, migrate=migrate)
        return self.engine

    def view(self, name: str) -> dict[Any, Any]:
        with self.engine.snapshot() as snap:
            return dict(snap.view(name).items())

    def changed(self) -> dict[str, tuple[Kind, str]]:
        """Return the changed views with the kind of change and its reason."""
        return {change.view: (change.kind, change.why) for change in self.core.changed}


def by(field: str) -> Define:
    return lambda users: users.view("names", key=field, reduce=ps.count())


def cut(width: int) -> Define:
    def define(users: ps.Table) -> object:
        @users.view("names", reduce=ps.count())
        def names(user: Any) -> Iterator[Any]:
            yield user["name"][:width]

        return names

    return define


def with_lengths(define: Define) -> Define:
    def both(users: ps.Table) -> object:
        names = define(users)
        assert isinstance(names, ps.View)

        @names.view(reduce=ps.sum())
        def lengths(row: ps.Row) -> Iterator[Any]:
            yield len(str(row.key)), row.value

        return names

    return both


def reduced(reduce: Any) -> Define:
    return lambda users: users.view("names", key="name", value="n", reduce=reduce)


NAMES = {"Sue": 2, "Joe": 2, "Sam": 1, "Bob": 1}
LETTERS = {"S": 3, "J": 2, "B": 1}


class Half:
    """A user's invertible reducer."""

    zero = 0

    def lift(self, value: Any) -> Any:
        return value

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def unmerge(self, a: Any, b: Any) -> Any:
        return a - b

    def result(self, a: Any) -> Any:
        return a // 2
