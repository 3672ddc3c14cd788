"""The schema of a snapshot: the tables and views of its catalog, in the generation that readers see.

It is made from the catalog alone, not from the reader's app. So an older app can read a store of a newer one, and an
app with changed functions reads the stored results. A view that is not being built uses the writer's node. The reader's
app lends its functions to each view that the catalog defines in the same way. Without them results can be read but not
combined. Invariant: a schema never changes; a changed catalog has another schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from penstock.cache import Reader, UnknownName, read_mark
from penstock.core.catalog_nodes import side_documents
from penstock.core.metadata.catalog import Catalog, catalog_of, read_built
from penstock.join import SideIndex, StoredJoin, StoredSide
from penstock.mapreduce import StoredCodec, ViewNode, codec_from, reducer_from, rows_db
from penstock.views import (
    App,
    Coded,
    Join,
    NotBuilt,
    SideView,
    Table,
    View,
    all_joins,
    app_from,
    difference,
    nearest,
    rows_refused,
    shown_join,
    side_views,
    stored_definition,
    stored_side,
    stream_refused,
)

__all__ = [
    "Described",
    "Schema",
    "TableSchema",
    "built_of",
    "described",
    "described_view",
    "is_built",
    "percent_built",
    "row_sources",
]

Described = dict[str, Any]
"""A definition as plain data."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table as it is read."""

    table: Table
    number: int
    seed: int


class Schema:
    """The tables and views of one catalog."""

    def __init__(
        self, row: bytes, catalog: Catalog, live: Mapping[str, ViewNode] | None = None, app: App | None = None
    ) -> None:
        self.row = row
        self.catalog = catalog
        live = live or {}
        defined = {} if app is None else {view.name: view for view in app.views()}
        self.app = app = _app_in(row)
        entries = catalog.entries
        self.tables = {t.name: TableSchema(t, entries[t.name].number, catalog.seed) for t in app.tables()}
        self.streams = {s.name: TableSchema(s, entries[s.name].number, catalog.seed) for s in app.streams()}
        self.views: dict[str, ViewNode] = {}
        for view in app.views():
            entry = entries[view.name]
            node = live.get(view.name) if entry.next is None else None
            if node is None:
                own = _with_functions(view, entry.definition, defined.get(view.name))
                node = ViewNode(own, entry.number, None, complete=False)
            self.views[view.name] = node
        self.joins: dict[str, Join] = {join.name: join for join in all_joins(app)}
        known = [side for join in self.joins.values() for side in side_views(join)]
        sides = [stored_side(side, entries[side.name].definition) for side in known]
        self.sides = [ViewNode(side, entries[side.name].number, None, complete=False) for side in sides]
        self._former: dict[int, tuple[str, StoredCodec]] | None = None

    def join(self, name: str) -> StoredJoin:
        """Return the join of this name, to read it in one snapshot."""
        join, entries = self.joins[name], self.catalog.entries
        numbers = {name: entry.number for name, entry in entries.items()}
        views = [stored_side(side, entries[side.name].definition) for side in side_views(join)]
        sides = [
            StoredSide(
                side,
                None if side.by_key else SideIndex(numbers[side.name], len(side.projection)),
                side_documents(side, numbers, self.catalog.seed, self.join),
            )
            for side in views
        ]
        return StoredJoin(join, numbers[name], sides)

    def sides_of(self, join: str) -> list[ViewNode]:
        """Return the sides of a join and of its prefixes."""
        own = ((node, node.view) for node in self.sides)
        return [node for node, view in own if isinstance(view, SideView) and shown_join(view.join) == join]

    def _must_have_rows(self, name: str) -> None:
        """Raise DefinitionError for a join: it keeps no rows."""
        if (join := self.joins.get(name)) is not None:
            raise rows_refused(join)

    def table(self, name: str) -> TableSchema:
        """Return the table of this name. Raise UnknownName if there is none."""
        self._must_have_rows(name)
        found = self.tables.get(name)
        if found is None and name in self.streams:
            raise stream_refused(name)
        if found is None:
            view = self.views.get(name)
            raise UnknownName(name, "table", nearest(name, self.tables) if view is None else view.view.tables[0].name)
        return found

    def input(self, name: str) -> TableSchema:
        """Return the table or stream of this name. Raise UnknownName if there is none."""
        return self.streams[name] if name in self.streams else self.table(name)

    def view(self, name: str, reader: Reader) -> ViewNode:
        """Return the view of this name. Raise NotBuilt if it was never complete, UnknownName if there is none."""
        self._must_have_rows(name)
        found = self.views.get(name)
        if found is None:
            sides = [side.name for side in self.sides]
            if name in self.catalog.entries and name not in (*self.tables, *self.streams, *sides):
                raise NotBuilt(name, percent_built(reader, self.catalog))
            raise UnknownName(name, "view", nearest(name, self.views))
        return found

    def views_on(self, table: str) -> list[ViewNode]:
        """Return the views on a table."""
        return [view for view in self.views.values() if view.view.source.name == table]

    def as_of(self, view: str) -> int | None:
        """Return the position of a view that stays behind while its next generation is built; else None."""
        found = self.catalog.entries.get(view)
        if found is None:
            raise UnknownName(view, "view", nearest(view, self.views))
        return found.as_of

    def generations(self, names: Iterable[str]) -> dict[int, tuple[str, StoredCodec]]:
        """Return, by number, the name and codec of each generation of these views that the feed may have."""
        wanted = set(names)
        every: dict[int, tuple[str, StoredCodec]] = dict(self._formers())
        every.update((node.number, (name, node.reduce.codec)) for name, node in self.views.items())
        return {number: found for number, found in every.items() if found[0] in wanted}

    def followed(self) -> list[str]:
        """Return the names of all views whose changes the feed may have."""
        return list(dict.fromkeys([*self.views, *(former.name for former in self.catalog.former)]))

    def _formers(self) -> dict[int, tuple[str, StoredCodec]]:
        if self._former is None:
            stored = [former for former in self.catalog.former if former.number]
            self._former = {f.number: (f.name, codec_from(f.definition)) for f in stored}
        return self._former


def described(app: App) -> dict[str, Described]:
    """Return all definitions of an app, as they are read from a store."""
    out: dict[str, Described] = {table.name: table.describe() for table in app.inputs()}
    out |= {view.name: stored_definition(view) for view in app.views()}
    out |= {join.name: join.describe() for join in app.joins()}
    sides = {join.name: dict(_side_definitions(join)) for join in app.joins()}
    read = _as_read(out | {name: own for each in sides.values() for name, own in each.items()})
    return {name: read[name] for known in app.names() for name in (known, *sides.get(known, ()))}


def _side_definitions(join: Join) -> Iterator[tuple[str, Described]]:
    """Yield the sides of a join, and its prefixes with theirs."""
    for stage in join.stages:
        if stage is not join:
            yield stage.name, stage.describe()
        yield from ((side.name, side.describe()) for side in side_views(stage))


def described_view(view: View) -> Described:
    """Return the definition of one view, as it is read from a store."""
    return _as_read(stored_definition(view))


def _as_read(definition: Described) -> Described:
    out: Described = msgspec.msgpack.decode(msgspec.msgpack.encode(definition))
    return out


def _with_functions(view: View, definition: Mapping[str, Any], own: View | None) -> View:
    """Give a stored view the reducers' functions of the app, if the app defines the view in the same way."""
    if own is None or not any(isinstance(reducer, Coded) for reducer in own.reducers):
        return view
    return view if difference(definition, described_view(own)) else replace(view, reducers=own.reducers)


@lru_cache(maxsize=32)
def _app_in(row: bytes) -> App:
    """Make the app that readers of this catalog see, once: a store is opened more often than it is migrated."""
    catalog = catalog_of(row, "memory")
    return app_from(catalog.app, (e.definition for e in catalog.entries.values() if e.number), reducer_from)


def percent_built(reader: Reader, catalog: Catalog) -> int:
    """Return the progress of a build in percent."""
    done, total = built_of(reader, catalog)
    return 100 if not total else min(99, 100 * done // total)


def built_of(reader: Reader, catalog: Catalog) -> tuple[int, int]:
    """Return the records and rows that a build has read, and their total."""
    built, done, total = read_built(reader), 0, 0
    for table, (first, since) in (catalog.since or {}).items():
        total += since - first
        done += built.documents.get(table, first) - first
    for source in row_sources(catalog):
        until, applied = built.rows.get(source, (b"", 0))
        rows = _rows_of(reader, catalog, source)
        total += rows
        done += rows if until is None else min(applied, rows)
    return done, total


def is_built(reader: Reader, catalog: Catalog) -> bool:
    """Return True if a build has read everything and waits for its switch."""
    built = read_built(reader)
    return all(
        built.documents.get(name, first) >= since for name, (first, since) in (catalog.since or {}).items()
    ) and (all(built.rows.get(name, (b"", 0))[0] is None for name in row_sources(catalog)))


def _rows_of(reader: Reader, catalog: Catalog, source: str) -> int:
    """Return the number of rows of a view that a build reads. For a join it is that of its first side's documents."""
    entry = catalog.entries[source]
    if entry.target["kind"] != "join":
        return reader.count(rows_db(entry.number))
    own = entry.target["sides"][0]["source"]
    while catalog.entries[own].target["kind"] == "join":
        own = catalog.entries[own].target["sides"][0]["source"]
    first = catalog.entries[own]
    if first.target["kind"] == "view":
        return reader.count(rows_db(first.written))
    return read_mark(reader, first.number).present


def row_sources(catalog: Catalog) -> list[str]:
    """Return the sources whose rows a build reads: joins, and views that are not being built themselves.

    A view that is being built sends its rows on as they come.
    """
    entries = catalog.entries
    out: dict[str, None] = {}
    for name, entry in entries.items():
        if entry.next is None or not entry.next.number:
            continue
        if entry.next.definition["kind"] == "join":
            out[name] = None
            continue
        source = entry.next.definition["source"]
        kind = entries[source].target["kind"]
        if kind == "join" or (kind == "view" and entries[source].next is None):
            out[source] = None
    return list(out)
