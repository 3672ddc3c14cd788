"""The data of pages about the whole store: overview, graph, quarantine, repair, partitions, sources, feed, plots."""

from __future__ import annotations

from typing import Any

from penstock.cache import size_text
from penstock.recovery import Quarantined
from penstock.serve.console.page_parameters import PageParameters
from penstock.serve.console.page_rendering import graph_link
from penstock.serve.console.store_numbers import StoreNumbers, attention
from penstock.serve.http.responses import position_json
from penstock.views import (
    App,
    BoxNote,
    Change,
    Definition,
    Join,
    Position,
    Table,
    View,
    definition_forest,
    definition_sentence,
    graph_svg,
    json_text,
    neighbor_forest,
)

__all__ = [
    "feed_data",
    "graph_data",
    "metrics_data",
    "overview_data",
    "partitions_data",
    "quarantine_data",
    "repair_data",
    "sources_data",
]

_WHOLE = 30  # definitions of a graph that is drawn whole
_ENTRIES = 100
_CHANGES, _READ = 50, 1_000
_BYTES = 4_096  # of a rejected record


def overview_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the state of the store, all that needs attention, and all tables, views and joins."""
    status = facts.status()
    numbers = facts.numbers()
    return {
        "ready": status["writer"] is not None,
        "writer": status["writer"],
        "position": position_json(status["position"]),
        "epoch": status["epoch"],
        "path": status["path"],
        "building": status["building"],
        "attention": attention(status),
        "tables": [{"name": name, **_sizes(own)} for name, own in status["tables"].items()],
        "views": [{"name": name, **_sizes(own)} for name, own in status["views"].items()],
        "joins": [{"name": name, **_sizes(own)} for name, own in status["joins"].items()],
        "sources": len(status["sources"]),
        "partitions": len(status.get("partitions", ())) or 1,
        "numbers": numbers,
        "plots": facts.samples.plots(),
    }


def _sizes(own: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers and sources of a definition, without its lists."""
    return {name: value for name, value in own.items() if name not in ("holds", "largest", "log", "empty")}


def graph_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the graph, or the neighbors of one definition, as data and as a picture."""
    app, numbers = facts.store.app, facts.numbers()
    chosen = None if asked.given("node") is None else app.lookup(asked.query["node"])
    names = [*(t.name for t in app.tables()), *(v.name for v in app.views()), *(j.name for j in app.joins())]
    if chosen is None and len(names) > _WHOLE:
        chosen = app.lookup(names[0])
    roots = definition_forest(app) if chosen is None else neighbor_forest(app, chosen)
    nodes = [node.definition for root in roots for node in root.all()]
    notes = {own.name: BoxNote(_link(own, chosen), _notes(own, numbers)) for own in nodes}
    shown = chosen.name if chosen is not None else None
    return {
        "node": shown,
        "names": names,
        "nodes": [_node(app, own) for own in nodes],
        "picture": graph_svg(roots, "tables and views", notes, shown) if nodes else "",
        "numbers": numbers,
    }


def _link(own: Definition, chosen: Definition | None) -> str:
    """Return the link of a box: its neighbors, or its own page if it is chosen already."""
    if own is not chosen or isinstance(own, Join):
        return graph_link(own.name)
    return f"/tables/{own.name}" if isinstance(own, Table) else f"/views/{own.name}"


def _notes(own: Definition, numbers: dict[str, str]) -> dict[str, str]:
    """Return the live texts of a box, by name."""
    if isinstance(own, Table):
        wanted = {f"documents:{own.name}": "documents", f"rate:{own.name}": "put"}
    elif isinstance(own, View):
        wanted = {f"groups:{own.name}": "groups", f"held:{own.name}": "held"}
    else:
        wanted = {f"held:{own.name}": "held"}
    return {f"{name}|{noun}": f"{numbers[name]} {noun}" for name, noun in wanted.items() if name in numbers}


def _node(app: App, own: Definition) -> dict[str, Any]:
    kind = "table" if isinstance(own, Table) else "join" if isinstance(own, Join) else "view"
    if isinstance(own, Join):
        sources = [side.source.name for side in own.sides]
    else:
        sources = [own.source.name] if isinstance(own, View) else []
    feeds = [view.name for view in app.views() if view.source is own]
    feeds += [join.name for join in app.joins() if any(side.source is own for side in join.sides)]
    return {"name": own.name, "kind": kind, "text": definition_sentence(own), "sources": sources, "feeds": feeds}


def quarantine_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return rejected records, and documents and groups that views hold."""
    kind, table, view = asked.given("kind"), asked.given("table"), asked.given("view")
    most = asked.number("limit", _ENTRIES, 1_000) or 1
    found = list(facts.store.reader.quarantine(kind, table, view, most + 1))
    status = facts.store.reader.status()
    return {
        "entries": [_entry(own) for own in found[:most]],
        "more": len(found) > most,
        "kind": kind,
        "table": table,
        "view": view,
        "kinds": ["record", "document", "group"],
        "tables": list(status["tables"]),
        "views": [*status["views"], *status["joins"]],
        "numbers": facts.numbers(),
    }


def _entry(own: Quarantined) -> dict[str, Any]:
    data = None if own.data is None else own.data[:_BYTES].decode("utf-8", "backslashreplace")
    return {
        "id": own.id,
        "kind": own.kind.value,
        "table": own.table,
        "view": own.view,
        "key": own.key,
        "reason": own.reason,
        "source": own.source,
        "offset": own.offset,
        "place": own.place,
        "data": data,
        "cut": own.data is not None and len(own.data) > _BYTES,
        "document": own.document,
        "result": own.result,
        "traceback": own.traceback,
    }


def repair_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the last scrub, and the views that are built."""
    status = facts.store.reader.status()
    return {"scrub": status["scrub"], "building": status["building"], "views": list(status["views"])}


def partitions_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the partitions of the store; a store that is not partitioned is one."""
    status = facts.store.reader.status()
    whole = {
        "folder": ".",
        "start": 0,
        "position": status["position"],
        "epoch": status["epoch"],
        "documents": sum(table["documents"] for table in status["tables"].values()),
        "bytes": status["store"]["bytes"],
    }
    partitions: list[dict[str, Any]] = status.get("partitions", [whole])
    most = max((own["position"] for own in partitions), default=0)
    return {
        "partitions": [{"id": i, **own, "lag": most - own["position"]} for i, own in enumerate(partitions)],
        "path": status["path"],
        "store": status["store"],
        "numbers": facts.numbers(),
    }


def sources_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the offset of each source, and the processes that read."""
    status = facts.status()
    reading = {own["source"]: own for own in status["reading"]}
    names = sorted({*status["sources"], *reading})
    rows = [{"source": name, "offset": status["sources"].get(name), **reading.get(name, {})} for name in names]
    listed = [_source(row) for row in rows]
    if asked.given("sort") == "lag":
        listed.sort(key=lambda own: -(own["lag"] or 0))
    return {"sources": listed, "sort": asked.given("sort")}


def _source(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in ("source", "offset", "state", "pid", "lag", "rate", "group")}


def feed_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the reach of the changes feed, and its last changes."""
    with facts.store.snapshot() as snap:
        oldest, newest = snap.followed, snap.position
    changes = list[Change]()
    for commits in (1, 8, 64):
        changes = _changes(facts, _before(newest, oldest, commits), newest)
        if len(changes) >= _CHANGES:
            break
    return {
        "oldest": position_json(oldest),
        "newest": position_json(newest),
        "changes": [own.data() | {"position": position_json(own.position)} for own in reversed(changes[-_CHANGES:])],
        "numbers": facts.numbers(),
    }


def _before(newest: Position, oldest: Position, commits: int) -> Position:
    """Return the position some commits before the newest one, if the feed reaches back so far."""
    if isinstance(newest, int):
        return max(oldest, newest - commits)
    return tuple(max(first, last - commits) for first, last in zip(oldest, newest, strict=True))


def _changes(facts: StoreNumbers, since: Position, until: Position) -> list[Change]:
    """Return changes after a position, at most about 1,000 of them."""
    out = list[Change]()
    for part in facts.store.reader.feed(since=since, until=until):
        out += part
        if len(out) > _READ:
            break
    return out


def metrics_data(facts: StoreNumbers, asked: PageParameters) -> dict[str, Any]:
    """Return the plots of the last minute, and the counters of the holder."""
    status, plots = facts.store.reader.status(), facts.samples.plots()
    memory = status["memory"]
    return {
        "plots": plots,
        "numbers": facts.numbers(),
        "memory": size_text(memory),
        "tables": {name: json_text(own["documents"]) for name, own in status["tables"].items()},
    }
