"""Held rows of a parent view: retry them in the chained view, or let them rest.

A resting row contributes nothing. Its last contributions are removed, and it stays in the list of held rows until the
view accepts a later version. Documents of a table work alike, but the gateway handles them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.cache import Reader, decode_key, seal
from penstock.mapreduce.columns.items import SourceKeys
from penstock.mapreduce.maps.emissions import Emissions
from penstock.mapreduce.maps.function_map import FunctionMapper, Hold
from penstock.mapreduce.parent_rows import RowDelta
from penstock.mapreduce.pending_writes import Writes
from penstock.mapreduce.view_databases import emissions_db, resting_db
from penstock.mapreduce.view_node import ViewNode
from penstock.views import Row

__all__ = ["Holds", "mark_resting", "refresh_rows", "rest_rows"]

Holds = Mapping[bytes, tuple[bytes, Hold]]
"""By stored key: the whole key of a held row, and the reason."""


def refresh_rows(view: ViewNode, source: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> list[bytes]:
    """Retry the rows of the parent that a view holds. Return the keys of those that still exist."""
    keys = list(holds)
    codec, where = source.reduce.codec, f"view {source.name!r}"
    deltas: list[RowDelta] = []
    for key, row in zip(keys, reader.get_many(source.reduce.db, keys), strict=True):
        if row is not None:
            group = decode_key(holds[key][0])
            current = Row(group, codec.result(codec.decode(key, row, where)))
            deltas.append(RowDelta(key, group, current, current))
    if deltas:
        view.take_rows(reader, deltas, writes)
    return [delta.key for delta in deltas]


def rest_rows(view: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> None:
    """Remove the contributions of rows that a view holds, and let these rows rest until their next version."""
    keys = list(holds)
    who = None
    if view.keeps:
        who = SourceKeys.of([decode_key(whole) for whole, _ in holds.values()]), np.arange(len(keys))
    if isinstance(view.mapper, FunctionMapper):
        db = emissions_db(view.number)
        rows = view.remembered(reader).emissions(keys)
        emissions = [Emissions.none(1) if row is None else row for row in rows]
        minus = view.emitted(Emissions.join(emissions), who)
        writes.deletes.append((db, [key for key, row in zip(keys, rows, strict=True) if row is not None]))
    else:
        pairs = view.read_holds(reader, keys)
        minus = view.pair_contributions([pairs[key] for key in keys], who)
    view.advance(reader, minus.take(np.zeros(0, np.int64)), minus, writes)
    view.write_holds([(key, whole, hold, []) for key, (whole, hold) in holds.items()], [], set(keys), writes)
    mark_resting(view, keys, writes)


def mark_resting(view: ViewNode, keys: Sequence[bytes], writes: Writes) -> None:
    """Mark held rows as resting. Call this after `write_holds`, which clears the mark."""
    db = resting_db(view.number)
    rows = [(key, seal(key, b"")) for key in keys]
    writes.during.append(lambda writer: writer.put_many(db, rows))

    def remember() -> None:
        view.rests = True

    writes.after.append(remember)
