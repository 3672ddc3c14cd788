"""The oracle: what an app's tables and views must show after some records, recomputed from scratch.

It shares no code with the engine but the app's definitions and the functions in them: tables are kept by the winning
versions, and each view is recomputed over all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.recovery import Rank, Recomputed, recomputed
from penstock.spout import Record
from penstock.testing.expected.winning_versions import Documents
from penstock.views import App, Table, View


class Oracle:
    """Tables by the winning versions, and views by recomputing.

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
        self.tables = {table.name: Documents(table) for table in app.tables()}
        self._keyless = 0

    def turn(self, app: App) -> None:
        """The same documents, and the views of another app."""
        self.app = app

    @property
    def refused(self) -> int:
        """So many records could not be taken."""
        return self._keyless + sum(documents.refused for documents in self.tables.values())

    def take(self, records: Iterable[Record]) -> bool:
        """Take the records of a commit, in their order; whether content is other than before. A repost changes none."""
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

    def view(self, name: str) -> Recomputed:
        """A view, and first what it is on."""
        view = self.app.view_of(name)
        return self.over(view, [] if isinstance(view.source, Table) else self.view(view.source.name).sorted())

    def over(self, view: View, rows: Iterable[tuple[Any, Any]]) -> Recomputed:
        """A view over the documents of its table, or over these rows of its view."""
        if not isinstance(view.source, Table):
            return recomputed(view, rows)
        documents = self.tables[view.source.name]
        return recomputed(view, documents.living(), documents.moments())
