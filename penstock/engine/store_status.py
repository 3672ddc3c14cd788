"""The status of a store as plain data, for people and programs: totals over its partitions, and each partition.

A store that is not partitioned is one partition, and its status lists no partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from penstock.cache import Reader, decode_key, log_db, read_mark, uncounted_in
from penstock.core import OpenState, StoreLayout, built_of, read_result
from penstock.flow import read_watermarks
from penstock.mapreduce import ViewNode, held_db, resting_db, rows_db
from penstock.recovery import held_documents
from penstock.views import Join, SideView, side_paths

if TYPE_CHECKING:
    from penstock.core import Core, Snapshot

__all__ = ["status_of"]

Status = dict[str, Any]
SHOWN = 20
_LISTED = "holds", "largest"


def status_of(
    cores: Sequence[Core], snap: Snapshot, state: OpenState, trouble: str | None, layout: StoreLayout | None = None
) -> Status:
    """Tables, views, position, sources and sizes of a snapshot; `layout` is that of a partitioned store.

    `trouble` is the error of a failed build of views.
    """
    path = state.path
    folders = [path] * len(cores) if path is None or layout is None else layout.folders(path)
    parts = [_partition(*one) for one in zip(cores, snap.parts, folders, strict=True)]
    first = parts[0]
    status = {
        "app": cores[0].app.name,
        "path": path,
        "readonly": state.readonly,
        "position": snap.position,
        "epoch": snap.state.epoch,
        "sources": snap.sources,
        "tables": {name: _tables([part["tables"][name] for part in parts]) for name in first["tables"]},
        "streams": first["streams"],
        "views": {name: _views(snap, name, [part["views"][name] for part in parts]) for name in first["views"]},
        "joins": {name: _joins([part["joins"][name] for part in parts]) for name in first["joins"]},
        "building": _builds([part["building"] for part in parts if part["building"] is not None], trouble),
        "scrub": _scrubs([part["scrub"] for part in parts if part["scrub"] is not None]),
        "memory": sum(part["memory"] for part in parts),
        "store": _stores(path, [part["store"] for part in parts]),
    }
    if layout is not None:
        status["partitions"] = [
            {
                "folder": own.folder,
                "start": own.start,
                "position": part["position"],
                "epoch": part["epoch"],
                "documents": sum(table["documents"] for table in part["tables"].values()),
                "bytes": part["store"]["bytes"],
            }
            for own, part in zip(layout.parts, parts, strict=True)
        ]
    return status


# -- one partition


def _partition(core: Core, snap: Snapshot, folder: str | None) -> Status:
    """Describe one partition; `folder` is None in memory."""
    reader, state = snap.reader(), snap.state
    return {
        "position": state.position,
        "epoch": state.epoch,
        "tables": {name: _table(core, snap, name) for name in snap.schema.tables},
        "streams": {name: _stream(core, snap, name) for name in snap.schema.streams},
        "views": {name: _view(core, snap, name) for name in snap.schema.views},
        "joins": {name: _join(core, snap, name) for name in snap.schema.joins},
        "building": _build(snap),
        "scrub": None if folder is None else _scrub(reader, folder),
        "memory": sum(node.nbytes() for node in core.tables.values()),
        "store": core.store.info(),
    }


def _table(core: Core, snap: Snapshot, name: str) -> Status:
    reader, state, node = snap.reader(), snap.state, snap.schema.tables[name]
    mark = read_mark(reader, node.number)
    return {
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


def _stream(core: Core, snap: Snapshot, name: str) -> Status:
    reader, state, stream = snap.reader(), snap.state, snap.schema.app.stream_of(name)
    own = core.watermarks.report(read_watermarks(reader), stream, state.sources).data()
    del own["name"]
    return own | {
        "rejected": state.rejected.get(name, 0),
        "quarantined": state.kept.get(name, 0),
        "memory": core.tables[name].nbytes() if name in core.tables else 0,
    }


def _view(core: Core, snap: Snapshot, name: str) -> Status:
    reader, view = snap.reader(), snap.schema.views[name]
    resting = reader.count(resting_db(view.number))
    held = reader.count(held_db(view.number)) - resting
    return {
        "source": view.view.source.name,
        "groups": reader.count(rows_db(view.number)),
        "held": held,
        "resting": resting,
        "holds": list(islice(_holds(reader, view), SHOWN)) if held else [],
        "held_groups": snap.state.held_groups.get(name, 0),
        "memory": core.views[name].nbytes(spaces=view.chained) if name in core.views else 0,
        "as_of": snap.schema.as_of(name),
    }


def _join(core: Core, snap: Snapshot, name: str) -> Status:
    reader, join = snap.reader(), snap.schema.join(name)
    sides = [node for node in snap.schema.sides if isinstance(node.view, SideView) and node.view.join == name]
    resting = sum(reader.count(resting_db(side.number)) for side in sides)
    above = [
        {"value": decode_key(own.value), "matches": [own.left, own.right]}
        for own in islice(join.limited(reader), SHOWN)
    ]
    return {
        "sources": [side.source.name for side in join.join.sides],
        "held": sum(reader.count(held_db(side.number)) for side in sides) - resting,
        "resting": resting,
        "holds": list(islice(chain.from_iterable(_holds(reader, side) for side in sides), SHOWN)),
        "empty": [
            _empty_side(join.join, side.view)
            for side in join.sides
            if not side.view.covers and side.is_empty(reader)  # the sides of a prefix are listed with it
        ],
        "above_limit": reader.count(held_db(join.number)),
        "largest": above,
        "memory": sum(own.nbytes() for own in core.joins if own.name == name),
    }


def _empty_side(join: Join, side: SideView) -> Status:
    return {"side": side.side, "source": side.source.name, "paths": side_paths(join, side.side)}


def _holds(reader: Reader, view: ViewNode) -> Iterator[Status]:
    """Return the documents that a view holds: keys, reasons and tracebacks."""
    for _, whole, hold, _, resting in held_documents(reader, view):
        if not resting:
            key = view.view.source.shown_key(decode_key(whole))
            yield {"key": key, "reason": hold.reason, "traceback": hold.trace}


def _build(snap: Snapshot) -> Status | None:
    """Return the views that are being built or dropped, and their progress; None if there are none."""
    catalog = snap.schema.catalog
    if catalog.since is None:
        return None
    done, total = built_of(snap.reader(), catalog)
    every = [name for name, entry in catalog.entries.items() if entry.next is not None]
    names = [name for name in every if ":" not in name]  # a side of a join is no name of the app
    names = names or list(dict.fromkeys(name.partition(":")[0] for name in every))
    return {"views": names, "done": done, "total": total, "trouble": None}


def _scrub(reader: Reader, folder: str) -> Status:
    """Describe the last scrub; `uncounted` are the databases with rows that no scrub has counted yet."""
    last = read_result(folder)
    return {
        "ended": None if last is None else last.text,
        "seconds": None if last is None else round(last.seconds, 3),
        "damaged": [] if last is None else list(last.damaged),
        "uncounted": uncounted_in(reader),
    }


# -- all of them


def _totals(parts: Sequence[Status], **fields: object) -> Status:
    """Add the numbers of partitions, field by field; `fields` gives those that are no sums."""
    return {name: fields[name] if name in fields else sum(part[name] for part in parts) for name in parts[0]}


def _tables(parts: Sequence[Status]) -> Status:
    return _totals(parts, log=_totals([part["log"] for part in parts]))


def _views(snap: Snapshot, name: str, parts: Sequence[Status]) -> Status:
    holds = list(islice(chain.from_iterable(part["holds"] for part in parts), SHOWN))
    return _totals(parts, source=parts[0]["source"], holds=holds, as_of=snap.as_of(name))


def _joins(parts: Sequence[Status]) -> Status:
    lists = {name: list(islice(chain.from_iterable(part[name] for part in parts), SHOWN)) for name in _LISTED}
    empty = [side for side in parts[0]["empty"] if all(side in part["empty"] for part in parts)]
    return _totals(parts, sources=parts[0]["sources"], empty=empty, **lists)


def _builds(parts: Sequence[Status], trouble: str | None) -> Status | None:
    if not parts:
        return None
    views = list(dict.fromkeys(chain.from_iterable(part["views"] for part in parts)))
    return _totals(parts, views=views, trouble=trouble)


def _scrubs(parts: Sequence[Status]) -> Status | None:
    """The scrubs of partitions as one: it ended when the earliest of them did."""
    if not parts:
        return None
    ended = [part["ended"] for part in parts]
    whole = None not in ended
    return _totals(
        parts,
        ended=min(ended, key=datetime.fromisoformat) if whole else None,
        seconds=max(part["seconds"] for part in parts) if whole else None,
        damaged=list(chain.from_iterable(part["damaged"] for part in parts)),
    )


def _stores(path: str | None, parts: Sequence[Status]) -> Status:
    return _totals(parts, path=path, readers=max(part["readers"] for part in parts))
