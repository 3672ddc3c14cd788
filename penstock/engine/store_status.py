"""The state of a store as plain data, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.cache import Reader, decode_key, log_db, read_mark, uncounted_in
from penstock.core import built_of, read_result
from penstock.mapreduce import ViewNode, held_db, resting_db, rows_db
from penstock.recovery import held_documents

if TYPE_CHECKING:
    from penstock.core import Core, Snapshot

SHOWN = 20


def status_of(core: Core, snap: Snapshot, path: str | None, readonly: bool) -> dict[str, Any]:
    """Tables, views, position, sources and sizes of a snapshot."""
    reader = snap.reader()
    state = snap.state
    tables: dict[str, Any] = {}
    for name, node in snap.schema.tables.items():
        mark = read_mark(reader, node.number)
        tables[name] = {
            "documents": mark.present,
            "tombstones": mark.tombstones,
            "rejected": state.rejected.get(name, 0),
            "quarantined": state.kept.get(name, 0),
            "memory": core.tables[name].nbytes() if name in core.tables else 0,
            "log": {
                "segments": reader.count(log_db(node.number)),
                "next": mark.tail,
                "unfolded": mark.tail - mark.folded,
            },
        }
    views: dict[str, Any] = {}
    for name, view in snap.schema.views.items():
        resting = reader.count(resting_db(view.number))
        held = reader.count(held_db(view.number)) - resting
        views[name] = {
            "source": view.view.source.name,
            "groups": reader.count(rows_db(view.number)),
            "held": held,
            "resting": resting,
            "holds": list(islice(_holds(reader, view), SHOWN)) if held else [],
            "held_groups": state.held_groups.get(name, 0),
            "memory": core.views[name].nbytes(spaces=view.chained) if name in core.views else 0,
            "as_of": snap.schema.as_of(name),
        }
    memory = sum(node.nbytes() for node in core.tables.values())
    return {
        "app": core.app.name,
        "path": path,
        "readonly": readonly,
        "position": state.position,
        "epoch": state.epoch,
        "sources": dict(state.sources),
        "tables": tables,
        "views": views,
        "building": building_of(snap, core.trouble),
        "scrub": None if path is None else scrub_of(reader, path),
        "memory": memory,
        "store": dict(core.store.info()),
    }


def scrub_of(reader: Reader, folder: str) -> dict[str, Any]:
    """The last scrub of a store; `uncounted` are the databases with rows that no scrub has counted yet."""
    last = read_result(folder)
    return {
        "ended": None if last is None else last.shown,
        "seconds": None if last is None else round(last.seconds, 3),
        "damaged": [] if last is None else list(last.damaged),
        "uncounted": uncounted_in(reader),
    }


def _holds(reader: Reader, view: ViewNode) -> Iterator[dict[str, Any]]:
    """Return the documents that a view holds: keys, reasons and tracebacks."""
    for _, whole, hold, _, resting in held_documents(reader, view):
        if not resting:
            yield {"key": decode_key(whole), "reason": hold.reason, "traceback": hold.trace}


def building_of(snap: Snapshot, trouble: str | None) -> dict[str, Any] | None:
    """Return the views that are being built or dropped, their progress, and the error of a failed step.

    Return None if there are none.
    """
    catalog = snap.schema.catalog
    if catalog.since is None:
        return None
    done, total = built_of(snap.reader(), catalog)
    names = [name for name, entry in catalog.entries.items() if entry.next is not None]
    return {"views": names, "done": done, "total": total, "trouble": trouble}
