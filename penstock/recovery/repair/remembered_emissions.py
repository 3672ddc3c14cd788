"""Read a view's remembered emissions, and forget those of deleted documents or parent rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.cache import Reader, decode_key, is_long, stored_key
from penstock.core import Snapshot
from penstock.mapreduce import (
    FieldMapper,
    Groups,
    Pairs,
    RowDelta,
    SourceKeys,
    ViewNode,
    Writes,
    rows_db,
)
from penstock.views import ABSENT, Join

__all__ = ["forget", "gone_of", "remembered_emission", "results_of_groups"]


def forget(node: ViewNode, keys: Sequence[bytes], reader: Reader, writes: Writes) -> None:
    """Retract and delete the remembered emissions of documents or parent rows that are gone."""
    if not keys:
        return
    held = node.remembered(reader).held(keys)
    if node.of_rows:
        named = [(key, held[key][0] if key in held else key) for key in keys]
        # Nothing else names a group that is too long to be stored whole.
        known = [
            (key, whole) for key, whole in named if not (node.keeps and is_long(whole) and stored_key(whole) != key)
        ]
        node.on_rows(reader, [RowDelta(key, _group(whole), None, None) for key, whole in known], writes)
        return
    writes.changed = True
    if isinstance(node.mapper, FieldMapper):
        whose = SourceKeys.of_encoded([whole for whole, _, _ in held.values()])
        who = (whose, np.arange(len(held))) if node.keeps else None
        gone = node.pair_contributions([pairs for _, _, pairs in held.values()], who)
        node.advance(reader, gone.take(np.zeros(0, np.int64)), gone, writes)
    node.write_holds([], list(held), set(held), writes)


def _group(whole: bytes) -> Any:
    """Decode a group; None stands for a group whose name is lost."""
    return None if is_long(whole) else decode_key(whole)


def gone_of(snap: Snapshot, node: ViewNode, db: str, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """Return the keys of these remembered or held rows whose document or parent row is gone."""
    keys = [key for key, _ in rows]
    if isinstance(node.view.source, Join):
        present = snap.schema.join(node.view.source.name).documents(snap.reader(), set(keys))
        exists = [key in present for key in keys]
    elif node.chained:
        source = rows_db(snap.schema.views[node.view.source.name].number)
        exists = [row is not None for row in snap.reader().get_many(source, keys)]
    else:
        own = node.remembered(snap.reader())
        whole = [decode_key(own.held_in(key, row).whole) for key, row in rows]
        exists = [document is not None for document in snap.table(node.view.source.name).get_many(whole)]
    return [key for key, is_present in zip(keys, exists, strict=True) if not is_present]


def remembered_emission(reader: Reader, node: ViewNode, key: bytes) -> Pairs | None:
    """Return a chained view's remembered emission of one parent row, or None."""
    return node.remembered(reader, Groups()).last(key, key)


def results_of_groups(reader: Reader, node: ViewNode, groups: Sequence[bytes]) -> dict[bytes, Any]:
    """Return the results that a view shows for groups; ABSENT without a row."""
    rows = reader.get_many(node.reduce.db, [stored_key(group) for group in groups])
    codec, out = node.reduce.codec, dict[bytes, Any]()
    for group, row in zip(groups, rows, strict=True):
        state = None if row is None else codec.decode(stored_key(group), row, f"view {node.name!r}")
        out[group] = ABSENT if state is None else codec.result(state)
    return out
