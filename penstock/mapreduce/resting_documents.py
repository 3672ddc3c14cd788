"""Held rows of a view of a view, told again or put to rest.

A row that rests contributes nothing: what the view was last told of it is taken back, and it stays among those held,
told nothing, until a version of it can be taken. So does a document of a table, which the gateway sees to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.cache import Reader, decode_key, seal
from penstock.mapreduce.columns.items import SourceKeys
from penstock.mapreduce.maps.emissions import Emissions
from penstock.mapreduce.maps.function_map import FunctionMapper, Hold
from penstock.mapreduce.pending_writes import RowDelta, Writes
from penstock.mapreduce.view_databases import resting_db, told_db
from penstock.mapreduce.view_node import ViewNode
from penstock.views import Row

__all__ = ["Holds", "mark_resting", "rest_rows", "take_rows_again"]

Holds = Mapping[bytes, tuple[bytes, Hold]]
"""By stored key the whole key of what is held, and why it is."""


def take_rows_again(view: ViewNode, source: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> list[bytes]:
    """Tell a view of the rows of its source that it holds; the keys of those that there are."""
    keys = list(holds)
    codec, where = source.reduce.codec, f"view {source.name!r}"
    deltas: list[RowDelta] = []
    for key, row in zip(keys, reader.get_many(source.reduce.db, keys), strict=True):
        if row is not None:
            group = decode_key(holds[key][0])
            shown = Row(group, codec.result(codec.decode(key, row, where)))
            deltas.append(RowDelta(key, group, shown, shown))
    if deltas:
        view.take_rows(reader, deltas, writes)
    return [delta.key for delta in deltas]


def rest_rows(view: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> None:
    """Take back what a view was told of rows of its source that it holds, and let them rest."""
    keys = list(holds)
    who = None
    if view.keeps:
        who = SourceKeys.of([decode_key(whole) for whole, _ in holds.values()]), np.arange(len(keys))
    if isinstance(view.mapper, FunctionMapper):
        db = told_db(view.number)
        rows = view.remembered(reader).emissions(keys)
        told = [Emissions.none(1) if row is None else row for row in rows]
        minus = view.emitted(Emissions.join(told), who)
        writes.deletes.append((db, [key for key, row in zip(keys, rows, strict=True) if row is not None]))
    else:
        pairs = view.read_holds(reader, keys)
        minus = view.told_pairs([pairs[key] for key in keys], who)
    view.advance(reader, minus.take(np.zeros(0, np.int64)), minus, writes)
    view.write_holds([(key, whole, hold, []) for key, (whole, hold) in holds.items()], [], set(keys), writes)
    mark_resting(view, keys, writes)


def mark_resting(view: ViewNode, keys: Sequence[bytes], writes: Writes) -> None:
    """Leave it said that these of the held rest; after `write_holds`, which says that they don't."""
    db = resting_db(view.number)
    rows = [(key, seal(key, b"")) for key in keys]
    writes.during.append(lambda writer: writer.put_many(db, rows))

    def remember() -> None:
        view.rests = True

    writes.after.append(remember)
