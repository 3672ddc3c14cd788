"""The comparison of records with the stored documents of their keys, in any encoding.

An equal record leaves no version. The inputs of views in memory are compared first. Only where they are equal, the
stored line is read and compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.cache import DocumentLog, Reader, Slots, same_document
from penstock.gateway.intake.intake import Records
from penstock.gateway.lines.stored_lines import unwrap
from penstock.gateway.table_memory import TableMemory
from penstock.mapreduce import DocumentFields, PooledTexts

__all__ = ["equal_to_stored", "is_equal_to_stored"]


def equal_to_stored(
    log: DocumentLog, memory: TableMemory, reader: Reader, records: Records, which: NDArray[np.int64], slots: Slots
) -> NDArray[np.bool_]:
    """Mark the documents among `which` records that equal the stored documents of these slots."""
    out = _equal_inputs(memory, records, which, slots)
    at = out.nonzero()[0]
    if at.size:
        lines, docs = records.lines, records.doc
        for i, stored in zip(at.tolist(), log.lines(reader, slots[at]), strict=True):
            inner = unwrap(stored).line
            out[i] = inner is not None and same_document(lines[int(docs[which[i]])], inner)
    return out


def _equal_inputs(memory: TableMemory, records: Records, which: NDArray[np.int64], slots: Slots) -> NDArray[np.bool_]:
    """Mark the records with the same field inputs as in memory. The other records differ from the stored ones."""
    old = memory.take_fields(slots)
    at = records.doc[which]
    out = np.ones(which.size, bool)
    for key, codes in records.columns.codes.items():
        out &= codes[at] == old.codes[key]
    for path, column in records.columns.inputs.items():
        before, now = old.inputs[path], column.take(at)
        out &= (now.lane == before.lane) & (now.kinds() == before.kinds())
        if type(before.objs) is PooledTexts and now.objs:
            texts = (before.objs.number >= 0) & out
            rows = texts.nonzero()[0]
            values = map(now.objs.get, rows.tolist())
            out[rows] = before.objs.pool.find(list(values)) == before.objs.number[rows]
    for where, conditions in records.columns.where.items():
        out &= conditions[at] == old.where[where]
    return out


def is_equal_to_stored(
    log: DocumentLog, memory: TableMemory, reader: Reader, slot: int, fields: DocumentFields, line: bytes
) -> bool:
    """Return True if one document, with these fields and this line, equals the stored one of its slot."""
    if not fields.may_equal(memory.read(slot)):
        return False
    inner = unwrap(log.lines(reader, np.array([slot]))[0]).line
    return inner is not None and same_document(line, inner)
