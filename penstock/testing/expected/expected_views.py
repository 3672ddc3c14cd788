"""The oracle: it recomputes from scratch the tables and views that an app must show after some records.

It shares no code with the engine except the app's definitions and the functions in them. Tables keep the winning
versions. Each view is recomputed from all documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.recovery import Accepted, Rank, RecomputedJoin, RecomputedView, joined, recomputed, view_documents
from penstock.spout import Record
from penstock.testing.expected.winning_versions import ExpectedDocuments
from penstock.views import App, Join, Source, Table, View

Rows = Iterable[tuple[Any, Any]]
RowsOf = Callable[[str], Rows]
"""A function that returns the rows of a view."""
AcceptedOf = Callable[[Join], Mapping[str, Accepted]]
"""A function that returns the held documents of a join by side."""


class Oracle:
    """The expected content of a store: tables by the winning versions, views by recomputation.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> namecount = users.view("namecount", key="name", reduce=ps.count())
    >>> oracle = Oracle(app)
    >>> oracle.take([ps.Record("users", 7, {"id": 7, "name": "Sue"}), ps.Record("users", 7, {"id": 7, "name": "Joe"})])
    True
    >>> oracle.view("namecount").sorted()
    [('Joe', 1)]
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self.tables = {table.name: ExpectedDocuments(table) for table in app.tables()}
        self._keyless = 0

    def turn(self, app: App) -> None:
        """Keep the documents, and switch to the views of another app."""
        self.app = app

    @property
    def refused(self) -> int:
        """The number of rejected records."""
        return self._keyless + sum(documents.refused for documents in self.tables.values())

    def take(self, records: Iterable[Record]) -> bool:
        """Take the records of one commit, in order. Return whether the content changed; a repost changes nothing."""
        before: dict[tuple[str, Rank], Any] = {}
        for record in records:
            documents = self.tables[record.table]
            where = documents.where(record)
            if where is None:
                self._keyless += 1
            elif not record.repost:
                before.setdefault((record.table, where), documents.content(where))
                documents.take(record)
        return any(self.tables[table].content(where) != old for (table, where), old in before.items())

    def view(self, name: str) -> RecomputedView:
        """Recompute a view, after the views that it is chained to."""
        view = self.app.view_of(name)
        return self.over(view, self._sorted)

    def _sorted(self, name: str) -> Rows:
        return self.view(name).sorted()

    def joined(self, join: Join, rows: RowsOf | None = None, accepted: AcceptedOf | None = None) -> RecomputedJoin:
        """Recompute a join, after the joins that are its sides. `rows` returns the rows of its sides that are views.

        `accepted` returns the last accepted versions of the documents that a join holds.
        """
        own = {side.name: self._documents(side.source, rows or self._sorted, accepted) for side in join.sides}
        return joined(join, own, None if accepted is None else accepted(join))

    def _documents(self, source: Source, rows: RowsOf, accepted: AcceptedOf | None) -> list[tuple[Any, Any]]:
        """Return the documents of a side by key."""
        if isinstance(source, Join):
            return list(self.joined(source, rows, accepted).rows)
        return view_documents(rows(source.name)) if isinstance(source, View) else self.tables[source.name].living()

    def over(self, view: View, rows: RowsOf, accepted: AcceptedOf | None = None) -> RecomputedView:
        """Recompute a view over the documents of its table, or over those rows of views that `rows` returns.

        `accepted` returns the last accepted versions of the documents that a join holds.
        """
        if isinstance(view.source, Join):
            return recomputed(view, self.joined(view.source, rows, accepted).rows)
        if not isinstance(view.source, Table):
            return recomputed(view, rows(view.source.name))
        documents = self.tables[view.source.name]
        return recomputed(view, documents.living(), documents.moments())
