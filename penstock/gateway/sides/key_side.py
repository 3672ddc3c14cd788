"""Look up the documents of a key side of a join, in the state before the transaction.

The columns in memory have it: a batch changes them only after its commit. Invariants:

- a look-up never drops memory, since the batch has slots of it. Without room for its keys it reads the store;
- a held document is found with its last accepted version, which its held row has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.cache import PRESENT, Reader
from penstock.gateway.sides.side_documents import TableSideDocuments
from penstock.gateway.table_node import TableNode
from penstock.join import Ints
from penstock.mapreduce import Column, SourceKeys
from penstock.views import FieldMap, SideView

__all__ = ["KeySide"]


class KeySide:
    """The documents of a table as a key side."""

    def __init__(self, node: TableNode, side: SideView, documents: TableSideDocuments) -> None:
        self._node = node
        assert isinstance(side.map, FieldMap), "a side has no function"
        self._where, self._projection = side.map.where, side.projection
        self._checks = side.checked is not None  # otherwise no document is held: its condition value is a key
        self._documents = documents

    def find(self, reader: Reader, keys: SourceKeys) -> tuple[Ints, Sequence[Column]]:
        """Return the index of each key that has an entry, and the fields of the entries."""
        node, known = self._node, self._node.log.keys
        k0, k1 = keys.lanes(node.seed)
        if not known.room(k0.size) and not known.room(int(np.count_nonzero(known.map.find(k0, k1) < 0))):
            return self._documents.find(reader, keys)
        slots = node.slots_of(reader, k0, k1)
        index = (known.state[slots] & PRESENT).nonzero()[0]
        slots = slots[index]
        if self._where is not None:
            selected = node.memory.where[self._where][slots]
            index, slots = index[selected], slots[selected]
        columns: Sequence[Column] = [node.memory.inputs[path].take(slots) for path in self._projection]
        if self._checks:
            index, columns = self._documents.accepted(reader, keys, index, columns)
        return index, columns
