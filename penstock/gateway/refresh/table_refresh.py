"""Refresh documents: send them to the views again, as if their newest versions had just arrived.

The node reads from the store the contributions of each document, and maps the document again. It retracts the stored
contributions and adds the new ones. It writes the line again, with the new emissions of function views. A view that
held the document takes it if it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.cache import PRESENT, RECORD, Reader, Slots
from penstock.gateway.lines.stored_lines import unwrap
from penstock.gateway.table_node import TableNode
from penstock.gateway.view_deltas import WinningVersions
from penstock.mapreduce import Decoder, Writes, key_lanes
from penstock.views import Merge


def refresh_documents(node: TableNode, reader: Reader, keys: Sequence[Any], writes: Writes) -> list[int]:
    """Refresh the existing documents of these keys. Return the indexes of those that a view holds."""
    (k0, k1), refused = key_lanes(keys, node.seed)
    assert not refused, "they are keys of documents"
    slots = np.unique(node.log.resolve(reader, k0, k1)[0])
    node.memory.fit(node.log.keys.map.used)
    known = slots[node.log.keys.state[slots] & RECORD != 0]
    if known.size:
        for held in node.deltas.held.values():
            for slot in known.tolist():
                held.pop(slot, None)
        node.loader.load(reader, known)  # memory may differ from the store
    present = slots[node.log.keys.state[slots] & PRESENT != 0]
    if not present.size:
        return []
    return node.tell(reader, current(node, reader, present, node.decoder), writes)


def current(node: TableNode, reader: Reader, present: Slots, decoder: Decoder) -> WinningVersions:
    """Return the documents of these slots as versions that win."""
    lines = node.log.lines(reader, present)
    found = [unwrap(line) for line in lines]
    patched = [one.patched.fields for one in found if one.patched is not None]
    if patched:
        columns = decoder.of_dicts(patched, keys=False, tell=True)
    else:
        columns = decoder.columns([one.line for one in found if one.line is not None], keys=False, tell=True)
    stamped = node.table.has_ts and node.table.merge is Merge.REPLACE
    stamps = node.memory.stamps(present) if stamped else None
    at = np.arange(present.size)
    return WinningVersions(present, at, None, stamps, columns, at, lines)
