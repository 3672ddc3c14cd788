"""The state of a store as plain data, for people and programs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.cache import log_db, read_mark
from penstock.mapreduce import held_db, rows_db

if TYPE_CHECKING:
    from penstock.engine.core import Core
    from penstock.engine.snapshot import Snapshot

_SHOWN = 20


def status_of(core: Core, snap: Snapshot, path: str | None, readonly: bool) -> dict[str, Any]:
    """Tables, views, position, sources and sizes of a snapshot."""
    reader = snap.reader()
    state = snap.state
    tables: dict[str, Any] = {}
    for name, node in core.tables.items():
        mark = read_mark(reader, node.number)
        tables[name] = {
            "documents": mark.present,
            "tombstones": mark.tombstones,
            "rejected": state.rejected.get(name, 0),
            "log": {
                "segments": reader.count(log_db(node.number)),
                "next": mark.tail,
                "unfolded": mark.tail - mark.folded,
            },
        }
    views: dict[str, Any] = {}
    for name, view in core.views.items():
        held = reader.count(held_db(view.number))
        views[name] = {
            "source": view.view.source.name,
            "groups": reader.count(rows_db(view.number)),
            "held": held,
            "holds": list(islice(snap.holds(name), _SHOWN)) if held else [],
            "held_groups": state.held_groups.get(name, 0),
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
        "memory": memory,
        "store": dict(core.store.info()),
    }
