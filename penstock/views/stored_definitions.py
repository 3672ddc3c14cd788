"""Create an app from a store's catalog, with all that readers need but without the functions.

Invariant: the descriptions of the app equal the stored ones, except for the code of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.cache import DefinitionError
from penstock.views.app import App, Definition
from penstock.views.definitions import Merge, Source, Table, View
from penstock.views.field_expressions import Where, where_from
from penstock.views.join_definitions import Join, Side, shown_join
from penstock.views.reducer_protocols import Reducer
from penstock.views.stream_definitions import stream_from
from penstock.views.view_maps import FieldMap, FunctionMap, Key, field_map_from
from penstock.views.window_definitions import window_map_from

__all__ = ["app_from", "sources_of"]

Described = Mapping[str, Any]


def app_from(name: str, definitions: Iterable[Described], reducer_from: Callable[[Described], Reducer]) -> App:
    """Return the app with these stored definitions, in any order. One without its source is left out.

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
    left = [d for d in definitions if d["kind"] != "side" and d["name"] == shown_join(d["name"])]  # without prefixes
    while left:
        waiting = [d for d in left if any(name not in sources for name in sources_of(d))]
        ready = [d for d in left if d not in waiting]
        if not ready:
            break
        for described in ready:
            if described["kind"] == "table":
                made: Definition = app.add(_table(app, described))
            elif described["kind"] == "stream":
                made = app.add(stream_from(app, described))
            elif described["kind"] == "join":
                made = app.add(_join(app, described, sources))
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


def sources_of(described: Described) -> list[str]:
    """Return the names of the sources of a stored definition.

    >>> sources_of({"kind": "table", "name": "users"})
    []
    """
    if described["kind"] == "join":
        return [side["source"] for side in described["sides"]]
    return [] if described["kind"] in ("table", "stream") else [described["source"]]


def _join(app: App, described: Described, sources: Mapping[str, Source]) -> Join:
    def where(own: Described | None) -> Where | None:
        return None if own is None else where_from(own)

    return Join(
        app,
        described["name"],
        app.size,
        tuple(Side(side["side"], sources[side["source"]], where(side["where"])) for side in described["sides"]),
        tuple((tuple(one), tuple(other)) for one, other in described["on"]),
        described["how"],
        where(described["where"]),
        described["limit"],
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
    if described["by"] == "window":
        return window_map_from(described)

    def elsewhere(document: Any) -> None:
        where = "is in the app that defined it; open the store with that app"
        raise DefinitionError(f"the function of view {view!r} {where}")

    elsewhere.__name__ = described["function"]
    return FunctionMap(elsewhere)
