"""The status of a store of several partitions as plain data: totals, and the status of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from penstock.core import OpenState, StoreLayout
from penstock.engine.store_status import SHOWN, status_of
from penstock.partitions import PartitionedSnapshot

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["status_of_all"]

Status = dict[str, Any]
_TABLE = ("documents", "tombstones", "rejected", "quarantined", "memory")
_LOG = ("segments", "next", "unfolded")
_VIEW = ("groups", "held", "resting", "held_groups", "memory")
_SIZES = ("bytes", "used", "map_size")


def status_of_all(
    cores: Sequence[Core], snap: PartitionedSnapshot, state: OpenState, layout: StoreLayout, trouble: str | None
) -> Status:
    """Tables, views, position, sources and sizes of a snapshot, and a line of each partition."""
    path, readonly = state.path, state.readonly
    parts = [
        status_of(core, part, None if path is None else folder, readonly)
        for core, part, folder in zip(cores, snap.parts, layout.folders(path or ""), strict=True)
    ]
    first = parts[0]
    return {
        "app": first["app"],
        "path": path,
        "readonly": readonly,
        "position": snap.position,
        "epoch": snap.state.epoch,
        "sources": snap.sources,
        "tables": {name: _table([part["tables"][name] for part in parts]) for name in first["tables"]},
        "views": {name: _view(snap, name, [part["views"][name] for part in parts]) for name in first["views"]},
        "building": _building([part["building"] for part in parts if part["building"] is not None], trouble),
        "scrub": _scrub([part["scrub"] for part in parts]),
        "memory": sum(part["memory"] for part in parts),
        "store": _store(path, [part["store"] for part in parts]),
        "partitions": [
            {
                "folder": own.folder,
                "start": own.start,
                "position": part["position"],
                "epoch": part["epoch"],
                "documents": sum(table["documents"] for table in part["tables"].values()),
                "bytes": part["store"]["bytes"],
            }
            for own, part in zip(layout.parts, parts, strict=True)
        ],
    }


def _sums(parts: Sequence[Status], names: Sequence[str]) -> Status:
    return {name: sum(part[name] for part in parts) for name in names}


def _store(path: str | None, parts: Sequence[Status]) -> Status:
    return {"path": path, **_sums(parts, _SIZES), "readers": max(part["readers"] for part in parts)}


def _table(parts: Sequence[Status]) -> Status:
    return {**_sums(parts, _TABLE), "log": _sums([part["log"] for part in parts], _LOG)}


def _view(snap: PartitionedSnapshot, name: str, parts: Sequence[Status]) -> Status:
    return {
        "source": parts[0]["source"],
        **_sums(parts, _VIEW),
        "holds": list(islice(chain.from_iterable(part["holds"] for part in parts), SHOWN)),
        "as_of": snap.as_of(name),
    }


def _scrub(parts: Sequence[Status | None]) -> Status | None:
    """The scrubs of partitions as one: it ended when the earliest of them did."""
    own = [part for part in parts if part is not None]
    if not own:
        return None
    ended = [part["ended"] for part in own]
    whole = None not in ended
    return {
        "ended": min(ended, key=datetime.fromisoformat) if whole else None,
        "seconds": max(part["seconds"] for part in own) if whole else None,
        "damaged": list(chain.from_iterable(part["damaged"] for part in own)),
        "uncounted": sum(part["uncounted"] for part in own),
    }


def _building(parts: Sequence[Status], trouble: str | None) -> Status | None:
    if not parts:
        return None
    return {
        "views": list(dict.fromkeys(chain.from_iterable(part["views"] for part in parts))),
        **_sums(parts, ("done", "total")),
        "trouble": trouble,
    }
