"""Hold the tables, streams, views and joins of an app, which share one namespace.

Invariants:

- a definition's `order` is its index in the app. A source comes before its views and joins, and a batch passes through
  the definitions in that order;
- `describe()` is plain data for a store's catalog, and contains all that content depends on, except function code and
  the delivery mode between partitions.
"""

from __future__ import annotations

import os
from typing import Literal, TypeVar

from penstock.cache import DefinitionError, Unit, UnknownName, key_text
from penstock.views.definitions import BROKER, FilteredSource, Merge, Source, Table, View
from penstock.views.delivery_modes import DeliveryMode, ProductionName
from penstock.views.document_paths import parse_path
from penstock.views.field_expressions import Field, Where
from penstock.views.join_arguments import Conditions, make_join
from penstock.views.join_definitions import LIMIT, How, Join
from penstock.views.name_form import check_name, find
from penstock.views.reducer_inputs import check_tombstones
from penstock.views.stream_definitions import Stream, make_stream, stream_refused
from penstock.views.view_maps import Key

__all__ = ["App", "Definition"]

Definition = Table | View | Join
_D = TypeVar("_D", Table, Stream, View, Join)


class App:
    """A set of tables, streams, views and joins that one store keeps.

    >>> app = App("shop")
    >>> users = app.table("users", key="id", ts="ts")
    >>> app.names()
    ('users',)
    >>> app.lookup("users") is users
    True
    """

    __slots__ = ("_definitions", "_joins", "_streams", "_tables", "_views", "name")

    def __init__(self, name: str) -> None:
        check_name("app", name)
        self.name = name
        self._definitions: dict[str, Definition] = {}
        self._tables: tuple[Table, ...] = ()
        self._streams: tuple[Stream, ...] = ()
        self._views: tuple[View, ...] = ()
        self._joins: tuple[Join, ...] = ()

    def __repr__(self) -> str:
        return f"App({self.name!r})"

    def table(
        self,
        name: str,
        *,
        key: str | tuple[str, ...],
        ts: str | None = None,
        merge: Literal["replace", "patch"] | Merge = Merge.REPLACE,
        tombstones: int | float | None = None,
        sample: str | os.PathLike[str] | None = None,
    ) -> Table:
        """Define a table of documents by `key`, a path or a tuple of paths.

        With `ts`, a path (or "@kafka": the broker's timestamp), the version with the greatest ts wins. Otherwise the
        last to arrive wins. `merge="patch"` merges top-level fields, each with its own ts. `tombstones=N` lets
        compaction remove deletions older than the table's greatest ts minus N (seconds, if ts is text). `sample` is a
        file of documents to try views on.

        >>> App("shop").table("orders", key="number", ts="updated.at", merge="patch").ts
        ('updated', 'at')
        """
        check_name("table", name)
        keyed = Key.of(key, f"key= of table {name!r}")
        if not keyed.paths:
            raise DefinitionError(f"key= of table {name!r} is empty; name the field that tells documents apart")
        try:
            merged = Merge(merge if isinstance(merge, str | Merge) else None)
        except ValueError:
            raise DefinitionError(
                f"merge= of table {name!r} is {key_text(merge)}; write 'replace' (the last version "
                "is the document) or "
                "'patch' (fields of versions merge)"
            ) from None
        if ts is not None and not isinstance(ts, str):
            raise DefinitionError(f"ts= of table {name!r} is {key_text(ts)}; write the path of a field, or {BROKER!r}")
        path = None if ts is None or ts == BROKER else parse_path(ts, f"ts= of table {name!r}")
        check_tombstones(name, tombstones, ts)
        if sample is not None and not isinstance(sample, str | os.PathLike):
            raise DefinitionError(
                f"sample= of table {name!r} is {key_text(sample)}; write the path of a file of documents"
            )
        file = None if sample is None else os.fspath(sample)
        return self.add(Table(self, name, self.size, keyed, path, ts == BROKER, merged, tombstones, file))

    def stream(
        self,
        name: str,
        *,
        ts: str,
        unit: Unit = "s",
        lateness: str | float = "0s",
        idle: str | float | None = None,
        ahead: str | float = "5m",
        sources: tuple[str, ...] | None = None,
        id: str | None = None,
        ids: str | float = "10m",
    ) -> Stream:
        """Define a stream of records by `ts`, the path of their time (or "@kafka": the broker's timestamp).

        A stream has no key, no versions and no documents: two equal records count twice. Its low watermark is the time
        up to which all records have arrived. The newest ts of each source partition, less `lateness`, is its source
        watermark, and the least of these is the watermark. `idle` is the time after which a source partition with
        nothing left to read no longer counts. A ts more than `ahead` in front of the clock raises no watermark.
        `sources` names source partitions that must give a record first. `unit` is that of ts that are numbers.

        `id` is the path of a field that tells records apart, such as an event id. A record with an id that came within
        `ids`, by the clock, is a repeated one: it changes nothing and counts as equal.

        >>> App("web").stream("searches", ts="at", lateness="2s", idle="30s").idle
        30000000
        """
        return self.add(make_stream(self, name, ts, unit, lateness, idle, ahead, sources, id, ids))

    def join(
        self,
        name: str = "",
        /,
        *,
        on: Conditions = (),
        how: How = "inner",
        where: str | Where | Field | None = None,
        limit: int = LIMIT,
        production: ProductionName | DeliveryMode = DeliveryMode.STRONG,
        **sides: Source | FilteredSource,
    ) -> Join:
        """Define a join: a source of rows that combine one document of each side with equal condition values.

        Each keyword is a side: a table, a view or another join, or one of these with a filter, `orders.where(…)`. `on`
        maps a path of one side to a path of another. Write a list of pairs if one path occurs twice. A joined row is a
        dict by side, so a view on it reads paths such as "customer.country". A null value matches nothing.

        `where` selects joined rows. A filter of a side applies before the join, so it decides about matches. `limit`
        bounds the rows of one condition value. `production` is always "strong".

        >>> import penstock as ps
        >>> app = ps.App("shop")
        >>> orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
        >>> sold = app.join("sold", order=orders, customer=customers, on={"order.customer_id": "customer.id"})
        >>> by_country = sold.view("by_country", key="customer.country", value="order.amount", reduce=ps.sum())
        """
        if not name and isinstance(given := sides.get("name"), str):  # `name=` is a keyword of other definitions
            name = given
            del sides["name"]
        return self.add(make_join(self, name, sides, on, how, where, limit, production))

    @property
    def size(self) -> int:
        """The number of definitions, which is the order of the next one."""
        return len(self._definitions)

    def add(self, definition: _D) -> _D:
        """Add a definition. `App.table`, `App.join` and `.view` call this."""
        kind = _kind(definition)
        name = definition.name
        check_name(kind, name)
        taken = self._definitions.get(name)
        if taken is not None:
            raise DefinitionError(
                f"{self!r} has a {_kind(taken)} named {name!r} already; tables, streams, views and joins share their "
                f"names, so give this {kind} another"
            )
        if isinstance(definition, View) and self._definitions.get(definition.source.name) is not definition.source:
            raise DefinitionError(
                f"view {name!r} is on {definition.source.name!r}, which {self!r} does not have; define it on a table, "
                "view or join of the same app"
            )
        assert definition.order == self.size, definition
        self._definitions[name] = definition
        if isinstance(definition, View):
            self._views = (*self._views, definition)
        elif isinstance(definition, Join):
            self._joins = (*self._joins, definition)
        elif isinstance(definition, Stream):
            self._streams = (*self._streams, definition)
        else:
            self._tables = (*self._tables, definition)
        return definition

    def names(self) -> tuple[str, ...]:
        """Return the names of all tables, streams, views and joins, in order."""
        return tuple(self._definitions)

    def tables(self) -> tuple[Table, ...]:
        """Return all tables, in order."""
        return self._tables

    def streams(self) -> tuple[Stream, ...]:
        """Return all streams, in order."""
        return self._streams

    def inputs(self) -> tuple[Table, ...]:
        """Return all tables and streams: all that takes records."""
        return (*self._tables, *self._streams)

    def views(self) -> tuple[View, ...]:
        """Return all views, each after its source."""
        return self._views

    def joins(self) -> tuple[Join, ...]:
        """Return all joins, in order."""
        return self._joins

    def lookup(self, name: str) -> Definition:
        """Return the definition of this name. Raise UnknownName, with the nearest name, if there is none."""
        return find(name, "table or view", self._definitions)

    def table_of(self, name: str) -> Table:
        """Return the table of this name. Raise UnknownName, with the nearest name, if there is none."""
        found = self.input_of(name)
        if isinstance(found, Stream):
            raise stream_refused(name)
        return found

    def input_of(self, name: str) -> Table:
        """Return the table or stream of this name. Raise UnknownName, with the nearest name, if there is none."""
        found = self._definitions.get(name) if isinstance(name, str) else None
        if isinstance(found, Table):
            return found
        if isinstance(found, View):
            raise UnknownName(name, "table", found.tables[0].name)
        return find(name, "table", {t.name: t for t in self.inputs()})

    def stream_of(self, name: str) -> Stream:
        """Return the stream of this name. Raise UnknownName, with the nearest name, if there is none."""
        return find(name, "stream", {s.name: s for s in self.streams()})

    def view_of(self, name: str) -> View:
        """Return the view of this name. Raise UnknownName, with the nearest name, if there is none."""
        return find(name, "view", {v.name: v for v in self.views()})

    def describe(self) -> dict[str, object]:
        """Return the app as plain data."""
        return {"app": self.name, "definitions": [d.describe() for d in self._definitions.values()]}


def _kind(definition: Definition) -> str:
    """Return the word for a definition."""
    if isinstance(definition, Stream):
        return "stream"
    return "table" if isinstance(definition, Table) else "join" if isinstance(definition, Join) else "view"
