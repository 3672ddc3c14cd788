"""The model of the whole engine, one record at a time: tables, remembered emissions, rows, and offsets.

Laws of the model:

- A transaction is atomic. Views are updated once, at its end, from the previous document of a key to the last one.
  Versions between the two never reach a view.
- The emission of a document is remembered until another one is accepted. A document that a view can't map changes
  nothing there, and is held.
- Rows are folded again from all remembered emissions. So no row can depend on its history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .tables import Documents, Outcome, Table
from .values import identity
from .views import Docs, Rows, Said, Stamps, View, as_seen, check_definition, documents_of, fold, rollup


@dataclass(frozen=True)
class Counts:
    """The counts of a call: its records by outcome, and the documents that a view holds."""

    applied: int = 0
    equal: int = 0
    late: int = 0
    held: int = 0
    rejected: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], held: int = 0) -> Counts:
        """Count these outcomes."""
        seen = [outcome.value for outcome in outcomes]
        return cls(**{name: seen.count(name) for name in ("applied", "equal", "late", "rejected")}, held=held)


@dataclass(frozen=True)
class Record:
    """A record of a spout. Without a document it is a deletion."""

    table: str
    key: Any
    doc: Any
    ts: Any = None
    offset: int | None = None


@dataclass
class Told:
    """The state of one view: the remembered emissions and last documents, by the rank of the document's key."""

    said: dict[Any, Said] = field(default_factory=dict)
    seen: dict[Any, Any] = field(default_factory=dict)
    held: set[Any] = field(default_factory=set)

    def copy(self) -> Told:
        """Return a copy of the state."""
        return Told(dict(self.said), dict(self.seen), set(self.held))

    def tell(self, view: View, docs: Docs, known: dict[Any, Any], chained: bool, stamps: Stamps) -> None:
        """Update the view's emissions with changed documents, whose identities are known.

        A held document keeps its former ts.
        """
        for where in self.seen.keys() - docs.keys():
            self.said.pop(where, None)
            self.held.discard(where)
            del self.seen[where]
        for where, (key, doc) in docs.items():
            ts = stamps.get(where)
            if self.seen.get(where) != known[where]:
                self.seen[where] = known[where]
                try:
                    self.said[where] = Said(key, view.emission(as_seen(view, chained, key, doc)), ts)
                    self.held.discard(where)
                except Exception:
                    self.held.add(where)
            elif where not in self.held:
                self.said[where] = self.said[where]._replace(ts=ts)


class Model:
    """The tables and views of one app, with all their documents."""

    def __init__(self, tables: Sequence[Table], views: Sequence[View]) -> None:
        stamped = {table.name for table in tables if table.ts}
        for view in views:
            check_definition(view, view.source in stamped)
        self.tables = {table.name: Documents(table) for table in tables}
        self.views = {view.name: view for view in views}
        self.told = {view.name: Told() for view in views}
        self.rows: dict[str, Rows] = {view.name: {} for view in views}
        self.sources: dict[str, int] = {}
        self.changed = False

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts:
        """Put one document in a transaction."""
        with self.batch() as batch:
            batch.put(table, doc, ts)
        return batch.counts

    def put_many(self, table: str, docs: Iterable[Any]) -> Counts:
        """Put documents or JSON lines in one transaction. Blank lines are skipped."""
        with self.batch() as batch:
            for doc in docs:
                if not isinstance(doc, (str, bytes)) or doc.strip():
                    batch.put(table, doc)
        return batch.counts

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete one key in a transaction."""
        with self.batch() as batch:
            batch.delete(table, key, ts)
        return batch.counts

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take records of a source, and the offset after them, in one transaction.

        Records below the committed offset are late.
        """
        with self.batch() as batch:
            committed = self.sources.get(source, 0)
            for record in records:
                if record.offset is not None and record.offset < committed:
                    batch.outcomes.append(Outcome.LATE)
                elif record.doc is None:
                    batch.delete(record.table, record.key, record.ts)
                else:
                    batch.put(record.table, record.doc, record.ts, record.key)
            self.sources[source] = resume
        return batch.counts

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Run one transaction. An exception cancels it."""
        tables = {name: documents.copy() for name, documents in self.tables.items()}
        sources = dict(self.sources)
        batch = Batch(self)
        try:
            yield batch
        except BaseException:
            self.tables, self.sources = tables, sources
            raise
        self._settle()
        changed = {name: self.tables[name].changed_since(before) for name, before in tables.items()}
        batch.counts = Counts.of(batch.outcomes, held=self._held(changed))
        self.changed = any(changed.values())

    def living(self, table: str) -> dict[Any, tuple[Any, Any]]:
        """Return the documents of a table by the rank of their key."""
        return self.tables[table].living()

    def documents_for(self, view: View) -> Docs:
        """Return the input of a view: the documents of its table, or the rows of its parent view."""
        return self.living(view.source) if view.source in self.tables else documents_of(self.rows[view.source])

    def rollup(self, view: str, level: int) -> list[tuple[Any, Any]]:
        """Return the results over prefixes of tuple groups."""
        return rollup(self.views[view], self.told[view].said, level)

    def _settle(self) -> None:
        """Update every view, parent views first."""
        inputs: dict[str, tuple[Docs, dict[Any, Any], Stamps]] = {}
        for name, view in self.views.items():
            told = self.told[name] = self.told[name].copy()
            chained = view.source in self.views
            if view.source not in inputs:
                docs = self.documents_for(view)
                known = {where: identity(doc) for where, (_, doc) in docs.items()}
                inputs[view.source] = docs, known, {} if chained else self.tables[view.source].stamps()
            docs, known, stamps = inputs[view.source]
            told.tell(view, docs, known, chained, stamps)
            self.rows[name] = fold(view, told.said, self.rows[name], told.held)

    def _held(self, changed: dict[str, set[Any]]) -> int:
        """Count the changed documents that a view of their table holds."""
        direct = [view for view in self.views.values() if view.source in self.tables]
        return len({(v.source, where) for v in direct for where in changed[v.source] & self.told[v.name].held})


class Batch:
    """The records of one transaction."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.outcomes: list[Outcome] = []
        self.counts = Counts()

    def put(self, table: str, doc: Any, ts: Any = None, key: Any = None) -> Outcome:
        """Put a document or a JSON line."""
        self.outcomes.append(self._model.tables[table].put(doc, ts, key))
        return self.outcomes[-1]

    def delete(self, table: str, key: Any, ts: Any = None) -> Outcome:
        """Delete a key."""
        self.outcomes.append(self._model.tables[table].delete(key, ts))
        return self.outcomes[-1]
