"""A unit test of a view in three lines: an engine in memory, in which no time passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from penstock.cache import MemoryStore
from penstock.engine import Engine, open_on
from penstock.recovery import emission
from penstock.views import App, Counts, Source


class TestEngine:
    """An engine in memory for a test. Documents that can't be taken raise, and so does a view that holds some.

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
        self.app = app if isinstance(app, App) else app.app
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
        """The engine itself, for all that is not here."""
        return self._engine

    def put(self, table: str, *docs: Mapping[str, Any]) -> Counts:
        """Put documents, in one transaction; BatchRejected, and nothing is put, where one can't be taken."""
        counts = self._engine.put_many(table, list(docs), strict=True)
        assert isinstance(counts, Counts), "it commits at once"
        return counts

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete a document."""
        counts = self._engine.delete(table, key, ts)
        assert isinstance(counts, Counts), "it commits at once"
        return counts

    def view(self, name: str, held: bool = False) -> dict[Any, Any]:
        """All rows of a view; AssertionError where it holds a document, unless `held` says that it may."""
        with self._engine.snapshot() as snap:
            rows = dict(snap.view(name).items())
            if not held:
                for hold in snap.holds(name):
                    raise AssertionError(f"view {name!r} can't take document {hold['key']!r}: {hold['reason']}")
        return rows

    def told(self, name: str, doc: Mapping[str, Any]) -> list[Any]:
        """What one document means to a view, in one order: groups, or (group, value); nothing is put."""
        view = self.app.view_of(name)
        return [group if value is None else (group, value) for group, value in emission(view, None, doc)]
