"""A digest over content: documents, tombstones, remembered emissions, contributions, trees, rows of views.

Rows of views and nodes of trees are hashed in key order. The log has a table's documents in the order of their arrival.
So each document is hashed with its key, version and remembered emissions, and these hashes are added modulo 2²⁵⁶. A sum
has no order, needs no sorting and can be taken per partition. These are no content: places of lines, segments, offsets,
epochs, quarantine, and tombstones that `tombstones=` allows to forget. A view that is being built counts with the rows
that readers see, and without remembered emissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from penstock.cache import canonical, encode_key, record_key, unseal
from penstock.core.schema import TableSchema, described_view
from penstock.gateway import StoredLine, document_of, forgettable, key_value, unwrap
from penstock.join import side_digest
from penstock.mapreduce import (
    FunctionMapper,
    Groups,
    Pairs,
    TreeReduce,
    ViewNode,
    node_log_db,
)
from penstock.views import App, Merge, reach

if TYPE_CHECKING:
    from penstock.core.reading.store_snapshot import Snapshot

_BITS = 256


def digest_of(snap: Snapshot, app: App) -> str:
    """Compute the digest of a snapshot; the folding of deferred nodes may need functions of the app."""
    with snap.naming():
        return _digest_of(snap, app)


def _digest_of(snap: Snapshot, app: App) -> str:
    total = blake2b(digest_size=_BITS // 8)
    schema = snap.schema
    for name, node in sorted(schema.tables.items()):
        total.update(canonical([name, "documents"]))
        total.update(_table_sum(snap, node).to_bytes(_BITS // 8, "big"))
    for name, view in sorted(schema.views.items()):
        total.update(canonical([name, "rows"]))
        reader = snap.reader()
        for key, row in reader.scan(view.reduce.db):
            unseal(key, row, view.reduce.db)
            total.update(len(key).to_bytes(4, "big") + key + len(row).to_bytes(4, "big") + row)
        if isinstance(view.reduce, TreeReduce):
            total.update(canonical([name, "trees"]))
            for key, row in _folding(snap, view, view.reduce, app).nodes(reader):
                total.update(len(key).to_bytes(4, "big") + key + len(row).to_bytes(4, "big") + row)
        if isinstance(view.mapper, FunctionMapper) and view.of_rows:
            total.update(_chained_sum(snap, view).to_bytes(_BITS // 8, "big"))
    for name in sorted(schema.joins):
        parts = list(snap.stored_joins(name))
        for place, side in enumerate(parts[0][0].sides):
            if side.index is None:
                continue
            total.update(canonical([name, side.view.side, "entries"]))
            indexes = [(join.sides[place].index, reader) for join, reader in parts]
            own = sum(side_digest(index, reader) for index, reader in indexes if index is not None) % (1 << _BITS)
            total.update(own.to_bytes(_BITS // 8, "big"))
    return total.hexdigest()


def _folding(snap: Snapshot, view: ViewNode, reduce: TreeReduce, app: App) -> TreeReduce:
    """Return the trees of a view. If deferred nodes need functions, use those of the app's same view."""
    wanted = {own.name: own for own in app.views()}.get(view.name)
    if wanted is None or not snap.reader().count(node_log_db(view.number)):
        return reduce
    if described_view(wanted) != snap.schema.catalog.entries[view.name].definition:
        return reduce
    own = ViewNode(wanted, view.number, None, complete=False).reduce
    assert isinstance(own, TreeReduce), "equal definitions have equal reducers"
    return own


def _item(parts: list[Any]) -> int:
    return int.from_bytes(blake2b(canonical(parts), digest_size=_BITS // 8).digest(), "big")


def _table_sum(snap: Snapshot, node: TableSchema) -> int:
    readers = [partition.reader() for partition in snap.parts]
    is_old = forgettable(readers, node.table, node.number, snap.state.ts.get(node.table.name))
    total = sum(_partition_sum(partition, node, is_old) for partition in snap.parts)
    return total % (1 << _BITS)


def _partition_sum(snap: Snapshot, node: TableSchema, is_old: Callable[[bytes], bool] | None) -> int:
    """Return the sum over the documents of one partition."""
    views = sorted(snap.schema.views_on(node.table.name), key=lambda view: view.name)
    views = [v for v in views if isinstance(v.mapper, FunctionMapper) and snap.schema.as_of(v.name) is None]
    total = 0
    remembered: dict[str, list[Pairs] | None] = {}
    base = -1
    for segment, at, line in snap.log(node.table.name).places():
        if segment != base:
            base = segment
            for view in views:
                remembered[view.name] = _remembered_emissions(snap, view, base)
        if is_old is not None and is_old(line):
            continue
        found = unwrap(line)
        parts = _version(node, found, line)
        if not found.absent:
            for view in views:
                own = remembered[view.name]
                pairs = [] if own is None else own[at]
                parts.append([[group, value] for group, value in pairs])
        total += _item(parts)
    return total


def _version(node: TableSchema, found: StoredLine, line: bytes) -> list[Any]:
    """Return the key, the document or None, and its version."""
    table = node.table
    if found.absent:
        floor = found.patched.floor if found.patched is not None else found.ts
        return [encode_key(found.key), None, floor]
    doc = document_of(line)
    key = encode_key(key_value(table, doc))
    if found.patched is not None:
        return [key, doc, found.patched.stamps, found.patched.floor]
    if table.merge is Merge.REPLACE and table.ts is not None:
        return [key, doc, reach(doc, table.ts)]
    return [key, doc, found.ts]


def _remembered_emissions(snap: Snapshot, view: ViewNode, base: int) -> list[Pairs] | None:
    """Return the remembered emission of each document of a segment."""
    groups = Groups()
    [own] = view.remembered(snap.reader(), groups).emissions([record_key(base)])
    return None if own is None else own.pairs_of_each(groups)


def _chained_sum(snap: Snapshot, view: ViewNode) -> int:
    total = 0
    for key, pairs in _chained(snap, view):
        total += _item([key, [[group, value] for group, value in pairs]])
    return total % (1 << _BITS)


def _chained(snap: Snapshot, view: ViewNode) -> Iterator[tuple[bytes, list[tuple[bytes, Any]]]]:
    groups = Groups()
    for key, own in view.remembered(snap.reader(), groups).all_emissions():
        yield key, own.pairs(0, groups)
