"""Rebuild a damaged index from the log.

The log tells the newest line of each key: the one with the highest number. So the index follows from the key lanes of
all segments, and no line is decoded. One transaction builds it range by range of the hash, so that memory has only a
part of the keys. Removed tombstones that are not compacted away yet come back.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache.encoding.checksum import seal
from penstock.cache.log import hash_index
from penstock.cache.log.document_log import LogMark, index_db, mark_key, read_mark
from penstock.cache.log.key_slots import Lane, key_hash
from penstock.cache.log.log_reader import segments_from
from penstock.cache.store.protocol import META, Writer

__all__ = ["reindex"]

_AT_ONCE = 1 << 21  # the approximate number of records whose keys are in memory together


def reindex(writer: Writer, table: int, tombstones: bool, at_once: int = _AT_ONCE) -> LogMark:
    """Rebuild the index of a table in a transaction. Return its mark with the numbers of documents and tombstones
    found.

    `tombstones` says whether the table keeps tombstones.
    """
    mark, db = read_mark(writer, table), index_db(table)
    writer.clear(db)
    first = next(segments_from(writer, table, 0), None)
    records = 0 if first is None else mark.tail - first.base
    bits = min(mark.bits, (records // at_once).bit_length())
    present = gone = 0
    for part in range(1 << bits):
        entries, deleted = _newest(writer, table, bits, part)
        present += int((~deleted).sum())
        gone += int(deleted.sum())
        if mark.bits:
            hash_index.write_anew(writer, db, mark.bits, entries if tombstones else _take(entries, ~deleted))
    mark = msgspec.structs.replace(
        mark, present=present, tombstones=gone if tombstones else mark.tombstones, forgotten=mark.forgotten + 1
    )
    key = mark_key(table)
    writer.put_many(META, [(key, seal(key, msgspec.msgpack.encode(mark)))])
    return mark


def _newest(writer: Writer, table: int, bits: int, part: int) -> tuple[hash_index.IndexEntries, NDArray[np.bool_]]:
    """Return the newest records of the keys in one part of the hashes, and which of them are deletions."""
    hashes: list[Lane] = [np.zeros(0, np.uint64)]
    rests: list[hash_index.U32] = [np.zeros(0, np.uint32)]
    records: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    gone: list[NDArray[np.bool_]] = [np.zeros(0, bool)]
    wide = False
    for segment in segments_from(writer, table, 0):
        own = key_hash(segment.k0, segment.k1)
        at = np.flatnonzero(own >> np.uint64(64 - bits) == part) if bits else np.arange(own.size)
        rest = hash_index.rest_of(segment.k1)
        wide = wide or rest is not None
        hashes.append(own[at])
        rests.append(np.zeros(at.size, np.uint32) if rest is None else rest[at])
        records.append(segment.base + at)
        gone.append(np.zeros(at.size, bool) if segment.gone is None else segment.gone[at])
    hashed, rested, record = np.concatenate(hashes), np.concatenate(rests), np.concatenate(records)
    order = np.lexsort((record, rested, hashed))
    hashed, rested = hashed[order], rested[order]
    last = np.ones(order.size, bool)
    last[:-1] = (hashed[1:] != hashed[:-1]) | (rested[1:] != rested[:-1])
    entries = hash_index.IndexEntries(
        hashed[last], rested[last] if wide else None, record[order][last].astype(np.uint32)
    )
    return entries, np.concatenate(gone)[order][last]


def _take(entries: hash_index.IndexEntries, at: NDArray[np.bool_]) -> hash_index.IndexEntries:
    rest = None if entries.rest is None else entries.rest[at]
    return hash_index.IndexEntries(entries.hash[at], rest, entries.record[at])
