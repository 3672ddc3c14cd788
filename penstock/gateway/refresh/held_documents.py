"""Refresh or rest the documents that one view holds.

The lines of the documents stay in place, and other views get no deltas. For a view with a function, the new emissions
replace the remembered ones in the rows of the segments.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from penstock.cache import PRESENT, Reader, Slots, Writer, decode_key, record_key, segments_of
from penstock.gateway.refresh.table_refresh import current
from penstock.gateway.table_node import TableNode
from penstock.gateway.view_deltas import WinningVersions
from penstock.mapreduce import (
    Contributions,
    Decoder,
    Emissions,
    FunctionMapper,
    Holds,
    ViewNode,
    Writes,
    emissions_db,
    emissions_row,
    key_lanes,
    mark_resting,
)

__all__ = ["refresh_view", "rest"]


def refresh_view(node: TableNode, view: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> list[bytes]:
    """Send a view the current documents that it holds. Return the stored keys of the existing ones."""
    keys, slots = _slots(node, reader, holds)
    if keys:
        mapper = view.mapper
        tellers = [(view.name, mapper, lambda: view.groups)] if isinstance(mapper, FunctionMapper) else []
        new = current(node, reader, slots, Decoder(node.plan, node.spaces, node.seed, tellers))
        new.remember = _in_place(node, reader, slots)
        node.deltas.refresh_view(reader, new, view, writes)
    return keys


def rest(node: TableNode, view: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> list[bytes]:
    """Retract the contributions of documents that a view holds, and let them rest. Return their stored keys."""
    keys, slots = _slots(node, reader, holds)
    if keys:
        new = current(node, reader, slots, Decoder(node.plan, node.spaces, node.seed, []))
        new.remember = _in_place(node, reader, slots)
        view.advance(reader, *_retracted(node, view, new, writes), writes)
        reasons = {i: holds[key][1] for i, key in enumerate(keys)}
        node.deltas.hold(view, new, {i: [] for i in reasons}, reasons, [], writes)
        mark_resting(view, keys, writes)
    return keys


def _retracted(
    node: TableNode, view: ViewNode, new: WinningVersions, writes: Writes
) -> tuple[Contributions, Contributions]:
    """Return the contributions to add for resting documents, which are none, and those to retract."""
    who = (node.deltas.keys_of(new), np.arange(new.slots.size)) if view.keeps else None
    if isinstance(view.mapper, FunctionMapper):
        minus = view.emitted(node.memory.functions[view.name].take(new.slots), who)
        node.deltas.remember(view, new, Emissions.none(int(new.slots.size)), writes)
    else:
        held = node.deltas.held[view.name]
        minus = view.pair_contributions([held[slot] for slot in new.slots.tolist()], who)
    return minus.take(np.zeros(0, np.int64)), minus


def _slots(node: TableNode, reader: Reader, holds: Holds) -> tuple[list[bytes], Slots]:
    """Load the existing held documents into memory. Return their stored keys and their slots."""
    keys = list(holds)
    (k0, k1), refused = key_lanes([decode_key(whole) for whole, _ in holds.values()], node.seed)
    assert not refused, "they are keys of documents"
    node.make_room(len(keys))
    slots = node.slots_of(reader, k0, k1)
    present = node.log.keys.state[slots] & PRESENT != 0
    return [key for key, is_present in zip(keys, present.tolist(), strict=True) if is_present], slots[present]


def _in_place(node: TableNode, reader: Reader, slots: Slots) -> Callable[[Writer, ViewNode, Emissions], None]:
    """Return a writer that replaces the emissions of these documents in the rows of their segments."""
    records = node.log.records(slots)
    places = [(s.base, len(s), which, at) for s, which, at in segments_of(reader, node.number, records)]

    def remember(writer: Writer, view: ViewNode, emissions: Emissions) -> None:
        db = emissions_db(view.number)
        keys = [record_key(base) for base, *_ in places]
        blocks = view.remembered(writer).blocks(keys, [size for _, size, *_ in places])
        for key, remembered, (_, size, which, at) in zip(keys, blocks, places, strict=True):
            order: NDArray[np.int64] = np.arange(size)
            order[at] = size + np.arange(at.size)
            own = Emissions.join([remembered, emissions.take(which)]).take(order)
            writer.put_many(db, [(key, emissions_row(key, own, view.groups))])

    return remember
