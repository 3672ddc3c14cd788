"""Define tables, and views on tables or on other views.

Invariant: a definition is checked completely when it is made, and never changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, Protocol, overload

from penstock.cache import DefinitionError, key_text
from penstock.views.delivery_modes import DeliveryMode, ProductionName, check_production
from penstock.views.field_expressions import Field, Where, as_where
from penstock.views.name_form import called_view, check_flag, check_version
from penstock.views.reducer_inputs import check_conditions, check_paths, check_stamps, check_values, paths_read
from penstock.views.reducer_protocols import Path, Reducer
from penstock.views.view_maps import (
    FieldMap,
    FunctionMap,
    Key,
    MapFunction,
    Reduce,
    ReduceFunction,
    make_function_map,
    make_reducers,
)
from penstock.views.window_definitions import Window, WindowGroups, make_key_map, window_of

BROKER = "@kafka"
Late = Literal["correct", "keep"]
"""The effect of a late record on a view with a window: it corrects closed windows, or is set aside."""


class Merge(Enum):
    """The rule that combines the versions of a document.

    >>> import penstock as ps
    >>> ps.App("shop").table("orders", key="id", merge="patch").merge
    <Merge.PATCH: 'patch'>
    """

    REPLACE = "replace"
    PATCH = "patch"


class _Unsaid(Enum):
    """The default of an argument that is required but may be None."""

    REDUCE = "reduce"


class Definitions(Protocol):
    """The definitions of one app, to which a source adds its views."""

    name: str

    @property
    def size(self) -> int:
        """Return the number of definitions, which is the order of the next one."""
        ...

    def add(self, definition: View) -> View:
        """Add a view."""
        ...

    def views(self) -> tuple[View, ...]:
        """Return all views, each after its source."""
        ...

    def joins(self) -> tuple[Source, ...]:
        """Return all joins, each after its sides."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Source(ABC):
    """The base of a view: a table, a parent view, or a join."""

    app: Definitions = field(repr=False)
    name: str
    order: int

    @property
    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """Return the tables at the base of the chain, each once."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return the definition as plain data."""

    @property
    def rows(self) -> str | None:
        """Return a name for the source if its rows are computed from documents; None for a table."""
        return None

    def shown_key(self, key: Any) -> Any:
        """Return the key that users see for a document or row with this key."""
        return key

    @property
    def has_watermark(self) -> bool:
        """True for a stream."""
        return False

    def unit_of_windows(self, view: str) -> str:
        """Return the unit of numeric times in windows. Raise DefinitionError if the source has no windows."""
        raise DefinitionError(
            f"view {view!r} has a window, and is on {self.name!r}, whose rows have no times of their own; define it on "
            "a table or a stream"
        )

    @abstractmethod
    def check_view(self, view: str, fields: FieldMap, read: Iterable[Path]) -> None:
        """Raise DefinitionError if a view reads a path that the source can't have."""

    def where(self, condition: str | Where | Field) -> FilteredSource:
        """Return a side of a join with only those documents or rows that a condition selects.

        >>> import penstock as ps
        >>> app = ps.App("shop")
        >>> orders, customers = app.table("orders", key="id"), app.table("customers", key="id")
        >>> waiting = orders.where(ps.field("status") == "open")
        >>> open_orders = app.join("open", order=waiting, customer=customers, on={"order.customer_id": "customer.id"})
        """
        return FilteredSource(self, as_where(condition, f"where() of {self.name!r}"))

    @overload
    def view(
        self,
        name: str,
        *,
        key: str | Window | tuple[str | Window, ...],
        value: str | None = None,
        where: str | Where | Field | None = None,
        reduce: Reduce | None,
        sources: bool = False,
        version: str | None = None,
        production: ProductionName | DeliveryMode = DeliveryMode.STRONG,
        late: Late = "correct",
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
        key: str | Window | tuple[str | Window, ...] | None = None,
        value: str | None = None,
        where: str | Where | Field | None = None,
        reduce: Reduce | _Unsaid | None = _Unsaid.REDUCE,
        sources: bool = False,
        version: str | None = None,
        production: ProductionName | DeliveryMode = DeliveryMode.STRONG,
        late: Late = "correct",
    ) -> View | Callable[[MapFunction], View]:
        """Define a view: by fields if `key` is given, otherwise as a decorator of its map function.

        `key` is the group: a path, a tuple of paths or () for all. Its first part may be a `ps.window`. `value` is the
        path of the value for reducers, by default the whole document. `where` is a true field or a comparison.

        `reduce` is a reducer, or a dict of reducers by field names of the row, or None. None makes a plain index, whose
        rows are (group, key, rank) and the value. A function may replace a reducer, as in CouchDB: of (values,
        rereduce) or of (keys, values, rereduce). It is first called with values of the group and `rereduce` false.
        Nulls are included, and `keys` has their pairs [group, document key]. It is then called with its own results,
        `rereduce` true and None as `keys`. A hash of the documents' keys decides which values come together, and their
        order. `sources=True` stores every contribution in a tree, so `why` and the repair of a group cost one path.
        If the definition or its code changes, the view is built again. `version` replaces the code in the comparison.

        `production` is the delivery mode to other partitions: "strong" saves contributions before it sends them, "weak"
        sends them first. "auto" is weak, but waits at most a second. The last two also store contributions in a tree.
        `late="keep"` sets records aside whose window on a stream is closed. By default they change the closed groups.

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
        crosses = check_production(called, production, self.rows)
        options = (check_flag(called, "sources", sources) or crosses.early, check_version(called, version), crosses)
        if key is not None:
            if name is None:
                raise DefinitionError("a view with key= needs a name; write .view('name', key=…, reduce=…)")
            own_map = make_key_map(name, key, value, where, self.unit_of_windows, reducers)
            return self.app.add(View(self.app, name, self.app.size, self, own_map, reducers, fields, *options, late))
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


@dataclass(frozen=True, slots=True)
class FilteredSource:
    """A source and a condition, for a side of a join. It has no name and no views."""

    source: Source
    condition: Where

    def where(self, condition: str | Where | Field) -> FilteredSource:
        """Return a side with only those documents or rows that both conditions select.

        >>> import penstock as ps
        >>> orders = ps.App("shop").table("orders", key="id")
        >>> large = orders.where("paid").where(ps.field("amount") > 5)
        """
        return FilteredSource(self.source, self.condition & as_where(condition, f"where() of {self.source.name!r}"))


@dataclass(frozen=True, slots=True, eq=False)
class Table(Source):
    """A named stream of documents by key, made by `App.table`.

    >>> import penstock as ps
    >>> ps.App("shop").table("orders", key=("shop", "number"), ts="@kafka").has_ts
    True
    """

    key: Key
    ts: Path | None
    broker_ts: bool
    merge: Merge
    tombstones: int | float | None
    sample: str | None

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the table itself."""
        return (self,)

    def check_view(self, view: str, fields: FieldMap, read: Iterable[Path]) -> None:
        """Accept every path, since a document may have any field."""

    def unit_of_windows(self, view: str) -> str:
        """Return the unit of numeric times: seconds."""
        return "s"

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
    late: Late = "correct"

    def __post_init__(self) -> None:
        self._check_late()
        check_stamps(self.name, self.reducers, self.source.name, isinstance(self.source, Table) and self.source.has_ts)
        check_conditions(self.name, self.map.value if isinstance(self.map, FieldMap) else None, self.reducers)
        if isinstance(self.map, FieldMap):
            check_values(self.name, self.map, self.reducers)
            self.source.check_view(self.name, self.map, paths_read(self.map, self.reducers))

    def _check_late(self) -> None:
        """Raise DefinitionError unless `late` is one of its words, and fits the view."""
        if self.late not in ("correct", "keep"):
            raise DefinitionError(
                f"late= of view {self.name!r} is {key_text(self.late)}; write 'correct' (late records change closed "
                "windows) or 'keep' (they are set aside)"
            )
        if self.late == "keep" and not (self.source.has_watermark and self.window is not None):
            raise DefinitionError(f"view {self.name!r} has late='keep', which is for a window on a stream")

    @property
    def key_parts(self) -> int | None:
        """The number of parts of the keys of its rows. None: the keys are no tuples, or any."""
        if self.index:
            return 3
        if self.window is not None:
            return None if self.window.single else 1 + len(self.window.rest)
        return len(self.map.key.paths) if isinstance(self.map, FieldMap) and not self.map.key.single else None

    @property
    def window(self) -> WindowGroups | None:
        """Its windows, if its groups begin with one."""
        return window_of(self.map)

    @property
    def index(self) -> bool:
        """True if it is a plain index: its rows are (group, key, rank) and the value, not results."""
        return not self.reducers

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables at the base of the chain, each once."""
        return self.source.tables

    @property
    def rows(self) -> str:
        """Return a name for the view as the source of another."""
        return f"view {self.name!r}"

    def check_view(self, view: str, fields: FieldMap, read: Iterable[Path]) -> None:
        """Raise DefinitionError if a view reads a path that rows don't have."""
        check_paths(view, self.name, self.fields, read, self.key_parts)

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
