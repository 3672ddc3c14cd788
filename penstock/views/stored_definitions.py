"""Create an app from a store's catalog, with all that readers need but without the functions.

Invariant: the descriptions of the app equal the stored ones, except for the code of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.cache import DefinitionError
from penstock.views.app import App
from penstock.views.definitions import Merge, Source, Table, View
from penstock.views.reducer_protocols import Reducer
from penstock.views.view_maps import FieldMap, FunctionMap, Key, field_map_from

__all__ = ["app_from"]

Described = Mapping[str, Any]


def app_from(name: str, definitions: Iterable[Described], reducer_from: Callable[[Described], Reducer]) -> App:
    """Return the app with these stored definitions, in any order. A view without its table or parent view is left out.

    >>> import penstock as ps
    >>> from penstock.mapreduce import reducer_from
    >>> app = ps.App("shop")
    >>> names = app.table("users", key="id").view("names", key="name", reduce=ps.count())
    >>> again = app_from("shop", [d.describe() for d in (names, names.source)], reducer_from)
    >>> again.view_of("names").describe() == names.describe()
    True
    """
    app = App(name)
    sources: dict[str, Source] = {}
    left = list(definitions)
    while left:
        waiting = [d for d in left if d["kind"] == "view" and d["source"] not in sources]
        ready = [d for d in left if d not in waiting]
        if not ready:
            break
        for described in ready:
            if described["kind"] == "table":
                made: Table | View = app.add(_table(app, described))
            else:
                made = app.add(_view(app, described, sources, reducer_from))
            sources[made.name] = made
        left = waiting
    return app


def _table(app: App, described: Described) -> Table:
    ts = described["ts"]
    return Table(
        app,
        described["name"],
        app.size,
        Key(tuple(tuple(path) for path in described["key"]["paths"]), described["key"]["single"]),
        None if ts is None else tuple(ts),
        described["broker_ts"],
        Merge(described["merge"]),
        described["tombstones"],
        None,
    )


def _view(
    app: App, described: Described, sources: Mapping[str, Source], reducer_from: Callable[[Described], Reducer]
) -> View:
    fields = described["fields"]
    return View(
        app,
        described["name"],
        app.size,
        sources[described["source"]],
        _map(described["name"], described["map"]),
        tuple(map(reducer_from, described["reducers"])),
        None if fields is None else tuple(fields),
        described.get("sources", False),
        described.get("version"),
    )


def _map(view: str, described: Described) -> FieldMap | FunctionMap:
    if described["by"] == "fields":
        return field_map_from(described)

    def elsewhere(document: Any) -> None:
        where = "is in the app that defined it; open the store with that app"
        raise DefinitionError(f"the function of view {view!r} {where}")

    elsewhere.__name__ = described["function"]
    return FunctionMap(elsewhere)
