"""Test a view in three lines, on an engine in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from penstock.cache import MemoryStore
from penstock.engine import Engine, open_on
from penstock.recovery import emission
from penstock.views import App, Counts, Source


class TestEngine:
    """An engine in memory for tests. It raises if a document is rejected, or if a view holds one.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> @users.view(reduce=ps.count())
    ... def initials(user):
    ...     yield user["name"][0]
    >>> engine = TestEngine(app)
    >>> counts = engine.put("users", {"id": 1, "name": "Sue"}, {"id": 2, "name": "Sam"})
    >>> engine.view("initials")
    {'S': 2}
    """

    __test__ = False  # pytest collects classes of such a name

    def __init__(self, app: App | Source, **tables: Iterable[Mapping[str, Any]]) -> None:
        own = app if isinstance(app, App) else app.app
        assert isinstance(own, App), "a source is part of an app"
        self.app = own
        self._engine, _ = open_on(self.app, MemoryStore())
        for table, docs in tables.items():
            self.put(table, *docs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()

    @property
    def engine(self) -> Engine:
        """The engine itself, for operations that this class lacks."""
        return self._engine

    def put(self, table: str, *docs: Mapping[str, Any]) -> Counts:
        """Put documents in one transaction. If one is rejected, raise BatchRejected and put none of them."""
        counts = self._engine.put_many(table, list(docs), strict=True)
        assert isinstance(counts, Counts), "it commits at once"
        return counts

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete a document."""
        counts = self._engine.delete(table, key, ts)
        assert isinstance(counts, Counts), "it commits at once"
        return counts

    def view(self, name: str, held: bool = False) -> dict[Any, Any]:
        """Return all rows of a view. Raise AssertionError if the view holds a document, unless `held` is true."""
        with self._engine.snapshot() as snap:
            rows = dict(snap.view(name).items())
            if not held:
                for hold in snap.holds(name):
                    raise AssertionError(f"view {name!r} can't take document {hold['key']!r}: {hold['reason']}")
        return rows

    def told(self, name: str, doc: Mapping[str, Any]) -> list[Any]:
        """Return the emission of a document, sorted: groups, or (group, value) pairs. Put nothing."""
        view = self.app.view_of(name)
        return [group if value is None else (group, value) for group, value in emission(view, None, doc)]
