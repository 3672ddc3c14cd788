"""Define apps, tables, and views on tables or on other views.

A definition is checked completely when it is made, and never changes. Invariants:

- tables and views of an app share one namespace;
- a definition's `order` is its index in the app. A table or parent view comes before its views, and a batch passes
  through the definitions in that order;
- `describe()` is plain data for a store's catalog, and contains all that content depends on, except function code and
  the delivery mode between partitions.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeVar, overload

from penstock.cache import DefinitionError, UnknownName, key_text
from penstock.views.definition_names import called_view, check_flag, check_name, check_version, find
from penstock.views.delivery_modes import DeliveryMode, ProductionName, check_production
from penstock.views.document_paths import parse_path
from penstock.views.field_expressions import Field, Where
from penstock.views.reducer_inputs import check_paths, check_stamps, check_tombstones, check_values
from penstock.views.reducer_protocols import Path, Reducer
from penstock.views.view_maps import (
    FieldMap,
    FunctionMap,
    Key,
    MapFunction,
    Reduce,
    ReduceFunction,
    make_field_map,
    make_function_map,
    make_reducers,
)

BROKER = "@kafka"

_D = TypeVar("_D", "Table", "View")


class Merge(Enum):
    """The rule that combines the versions of a document.

    >>> App("shop").table("orders", key="id", merge="patch").merge
    <Merge.PATCH: 'patch'>
    """

    REPLACE = "replace"
    PATCH = "patch"


class _Unsaid(Enum):
    """The default of an argument that is required but may be None."""

    REDUCE = "reduce"


@dataclass(frozen=True, slots=True, eq=False)
class Source(ABC):
    """The base of a view: a table, or a parent view."""

    app: App = field(repr=False)
    name: str
    order: int

    @property
    @abstractmethod
    def table(self) -> Table:
        """Return the table at the base of the chain."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return the definition as plain data."""

    @overload
    def view(
        self,
        name: str,
        *,
        key: str | tuple[str, ...],
        value: str | None = None,
        where: str | Where | Field | None = None,
        reduce: Reduce | None,
        sources: bool = False,
        version: str | None = None,
        production: ProductionName | DeliveryMode = DeliveryMode.STRONG,
    ) -> View: ...

    @overload
    def view(
        self,
        name: str | None = None,
        *,
        reduce: Reduce | None,
        sources: bool = False,
        version: str | None = None,
        production: ProductionName | DeliveryMode = DeliveryMode.STRONG,
    ) -> Callable[[MapFunction], View]: ...

    def view(
        self,
        name: str | None = None,
        *,
        key: str | tuple[str, ...] | None = None,
        value: str | None = None,
        where: str | Where | Field | None = None,
        reduce: Reduce | _Unsaid | None = _Unsaid.REDUCE,
        sources: bool = False,
        version: str | None = None,
        production: ProductionName | DeliveryMode = DeliveryMode.STRONG,
    ) -> View | Callable[[MapFunction], View]:
        """Define a view: by fields if `key` is given, otherwise as a decorator of its map function.

        `key` is the group: a path, a tuple of paths, or () for one group of all. `value` is the path of the value for
        reducers, by default the whole document. `where` selects documents by a true field or by a comparison.

        `reduce` is a reducer, or a dict of reducers by field names of the row, or None. None makes a plain index, whose
        rows are (group, key, rank) and the value. A function may replace a reducer, as in CouchDB: of (values,
        rereduce) or of (keys, values, rereduce). It is first called with values of the group and `rereduce` false.
        Nulls are included, and `keys` has their pairs [group, document key]. It is then called with its own results,
        `rereduce` true and None as `keys`. A hash of the documents' keys decides which values come together and in
        which order. Neither values nor results are in key order.
        `sources=True` stores every contribution in a tree, so that `why` and the repair of a group cost one path. If
        the definition or its function code changes, the view is built again. `version` replaces that code in the
        comparison: then only another version counts as a change.

        `production` is the delivery mode to other partitions: "strong" saves contributions before it sends them, "weak"
        sends them first. "auto" is weak, but waits at most a second. The last two also store contributions in a tree.

        >>> import penstock as ps
        >>> users = ps.App("shop").table("users", key="id")
        >>> cities = users.view("cities", key="address.city", value="amount", reduce=ps.sum())
        >>> rows = lambda values, rereduce: sum(values) if rereduce else len(values)
        >>> counts = users.view("counts", key="address.city", value="name", reduce=rows)

        A view by a function is named after it, unless a name is given. The function yields groups, or (group, value).

        >>> @users.view(reduce=ps.count())
        ... def initials(user):
        ...     yield user["name"][0]
        >>> initials.name, list(initials({"name": "Sue"}))
        ('initials', ['S'])
        """
        called = called_view(name)
        if isinstance(reduce, _Unsaid):
            raise DefinitionError(
                f"view {called!r} has no reducer; give one, such as reduce=ps.count(), or reduce=None for a plain index"
            )
        reducers, fields = make_reducers(called, reduce)
        crosses = check_production(called, production, self.name, isinstance(self, View))
        options = (check_flag(called, "sources", sources) or crosses.early, check_version(called, version), crosses)
        if key is not None:
            if name is None:
                raise DefinitionError("a view with key= needs a name; write .view('name', key=…, reduce=…)")
            fields_map = make_field_map(name, key, value, where)
            return self.app.add(View(self.app, name, self.app.size, self, fields_map, reducers, fields, *options))
        if value is not None or where is not None:
            given = "value=" if value is not None else "where="
            raise DefinitionError(
                f"{given} reads fields, and a view without key= is made of a function; give key= too, "
                "or let the function yield (group, value), and nothing for what it leaves out"
            )

        def decorate(function: MapFunction) -> View:
            by_function = make_function_map(function)
            own = name if name is not None else str(getattr(function, "__name__", type(function).__name__))
            return self.app.add(View(self.app, own, self.app.size, self, by_function, reducers, fields, *options))

        return decorate


@dataclass(frozen=True, slots=True, eq=False)
class Table(Source):
    """A named stream of documents by key, made by `App.table`.

    >>> App("shop").table("orders", key=("shop", "number"), ts="@kafka").has_ts
    True
    """

    key: Key
    ts: Path | None
    broker_ts: bool
    merge: Merge
    tombstones: int | float | None
    sample: str | None

    @property
    def table(self) -> Table:
        """Return the table itself."""
        return self

    @property
    def has_ts(self) -> bool:
        """True if a ts orders its versions, and not the arrival alone."""
        return self.ts is not None or self.broker_ts

    def describe(self) -> dict[str, object]:
        """Return the table as plain data."""
        return {
            "kind": "table",
            "name": self.name,
            "key": self.key.describe(),
            "ts": None if self.ts is None else list(self.ts),
            "broker_ts": self.broker_ts,
            "merge": self.merge.value,
            "tombstones": self.tombstones,
        }


@dataclass(frozen=True, slots=True, eq=False)
class View(Source):
    """Groups and their results, made by `Source.view`. A view by a function can be called like the function.

    `fields` names the fields of a row, one for each reducer. Without them the result of the one reducer is the value.
    Without reducers it is a plain index. `sources`, or a `production` other than strong, stores all contributions.

    >>> import penstock as ps
    >>> users = ps.App("shop").table("users", key="id")
    >>> view = users.view("ages", key="city", reduce={"n": ps.count(), "mean": ps.mean("age")})
    >>> view.fields, view.source is users
    (('n', 'mean'), True)
    """

    source: Source = field(repr=False)
    map: FieldMap | FunctionMap
    reducers: tuple[Reducer | ReduceFunction, ...]
    fields: tuple[str, ...] | None
    sources: bool = False
    version: str | None = None
    production: DeliveryMode = DeliveryMode.STRONG

    def __post_init__(self) -> None:
        on_view = self.source if isinstance(self.source, View) else None
        check_stamps(self.name, self.reducers, self.source.name, on_view is None and self.table.has_ts)
        if isinstance(self.map, FieldMap):
            check_values(self.name, self.map, self.reducers)
            if on_view is not None:
                check_paths(self.name, self.map, self.reducers, on_view.name, on_view.fields)

    @property
    def index(self) -> bool:
        """True if it is a plain index: its rows are (group, key, rank) and the value, not results."""
        return not self.reducers

    @property
    def table(self) -> Table:
        """Return the table at the base of the chain."""
        return self.source.table

    def __call__(self, document: Any) -> Iterable[Any] | None:
        """Return the groups and values that the map function yields for a document."""
        if isinstance(self.map, FieldMap):
            raise DefinitionError(f"view {self.name!r} has fields, not a function; read its key= and value= instead")
        return self.map.function(document)

    def describe(self) -> dict[str, object]:
        """Return the view as plain data."""
        out: dict[str, object] = {
            "kind": "view",
            "name": self.name,
            "source": self.source.name,
            "map": self.map.describe(),
            "reducers": [reducer.describe() for reducer in self.reducers],
            "fields": None if self.fields is None else list(self.fields),
        }
        own: dict[str, object] = {"sources": True} if self.sources else {}
        own |= {"rows": "(group, key, rank)"} if self.index else {}
        return out | own | ({} if self.version is None else {"version": self.version})


class App:
    """A set of tables and views that one store keeps.

    >>> app = App("shop")
    >>> users = app.table("users", key="id", ts="ts")
    >>> app.names()
    ('users',)
    >>> app.lookup("users") is users
    True
    """

    __slots__ = ("_definitions", "_tables", "_views", "name")

    def __init__(self, name: str) -> None:
        check_name("app", name)
        self.name = name
        self._definitions: dict[str, Table | View] = {}
        self._tables: tuple[Table, ...] = ()
        self._views: tuple[View, ...] = ()

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

    @property
    def size(self) -> int:
        """The number of definitions, which is the order of the next one."""
        return len(self._definitions)

    def add(self, definition: _D) -> _D:
        """Add a definition. `App.table` and `.view` call this."""
        kind = "table" if isinstance(definition, Table) else "view"
        name = definition.name
        check_name(kind, name)
        taken = self._definitions.get(name)
        if taken is not None:
            raise DefinitionError(
                f"{self!r} has a {'table' if isinstance(taken, Table) else 'view'} named {name!r} already; tables and "
                f"views share their names, so give this {kind} another"
            )
        if isinstance(definition, View) and self._definitions.get(definition.source.name) is not definition.source:
            raise DefinitionError(
                f"view {name!r} is on {definition.source.name!r}, which {self!r} does not have; define it on a table "
                "or view of the same app"
            )
        assert definition.order == self.size, definition
        self._definitions[name] = definition
        if isinstance(definition, View):
            self._views = (*self._views, definition)
        else:
            self._tables = (*self._tables, definition)
        return definition

    def names(self) -> tuple[str, ...]:
        """Return the names of all tables and views, in order."""
        return tuple(self._definitions)

    def tables(self) -> tuple[Table, ...]:
        """Return all tables, in order."""
        return self._tables

    def views(self) -> tuple[View, ...]:
        """Return all views, each after its table or parent view."""
        return self._views

    def lookup(self, name: str) -> Table | View:
        """Return the table or view of this name. Raise UnknownName, with the nearest name, if there is none."""
        return find(name, "table or view", self._definitions)

    def table_of(self, name: str) -> Table:
        """Return the table of this name. Raise UnknownName, with the nearest name, if there is none."""
        found = self._definitions.get(name) if isinstance(name, str) else None
        if isinstance(found, View):
            raise UnknownName(name, "table", found.table.name)
        return find(name, "table", {t.name: t for t in self.tables()})

    def view_of(self, name: str) -> View:
        """Return the view of this name. Raise UnknownName, with the nearest name, if there is none."""
        return find(name, "view", {v.name: v for v in self.views()})

    def describe(self) -> dict[str, object]:
        """Return the app as plain data."""
        return {"app": self.name, "definitions": [d.describe() for d in self._definitions.values()]}
