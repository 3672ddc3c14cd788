"""Telling the views of a table once more what its documents are: each as if its newest version had just come.

What views were told of a document is read from the store, the document is mapped, and the one is taken back for the
other; its line is written again, with what functions yielded for it now. A view that held the document takes it if it
can.
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
    """Tell of the documents with these keys, as far as there are any; which of them some view holds."""
    (k0, k1), refused = key_lanes(keys, node.seed)
    assert not refused, "they are keys of documents"
    slots = np.unique(node.log.resolve(reader, k0, k1)[0])
    node.memory.fit(node.log.keys.map.used)
    known = slots[node.log.keys.state[slots] & RECORD != 0]
    if known.size:
        for held in node.deltas.held.values():
            for slot in known.tolist():
                held.pop(slot, None)
        node.loader.load(reader, known)  # what memory has may not be what the store has
    present = slots[node.log.keys.state[slots] & PRESENT != 0]
    if not present.size:
        return []
    return node.tell(reader, current(node, reader, present, node.decoder), writes)


def current(node: TableNode, reader: Reader, present: Slots, decoder: Decoder) -> WinningVersions:
    """The documents of these slots, as if they had just come."""
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
