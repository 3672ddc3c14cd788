"""The index of a table: it maps hash buckets to record numbers. The index fold writes nothing else.

The key of a row is the bucket's hash prefix, left-aligned in 4 bytes. So a bucket keeps its key when its upper half
splits off. A row has the hashes of its keys, sorted, and their record numbers modulo 2³²:

    flags u8 | hash (n × u64) | rest (n × u32, flag 1) | record (n × u32) | crc32c

`rest` is the upper half of the second lane, stored if keys are hashes. That makes 96 bits, so that two keys are never
confused. The log is one window of fewer than 2³² consecutive record numbers, so 32 bits identify a record.

While the number of buckets doubles, a bucket may still be in its parent's row. A look-up without a row asks the parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.cache.encoding.checksum import seal, unseal
from penstock.cache.log.key_slots import Lane
from penstock.cache.store.protocol import Reader, Writer

U32 = NDArray[np.uint32]
BUCKET = 1024  # keys per bucket, at most, on average
_MIN_BITS = 4
_WIDE = 1
_AT_ONCE = 1 << 10  # buckets whose rows are in memory together


@dataclass(slots=True)
class IndexEntries:
    """Index entries, sorted by (hash, rest)."""

    hash: Lane
    rest: U32 | None
    record: U32

    @classmethod
    def none(cls) -> IndexEntries:
        """Return no entries."""
        return cls(np.zeros(0, np.uint64), None, np.zeros(0, np.uint32))


def bits_for(keys: int, bucket: int | None = None) -> int:
    """Return the bits of the hash that identify a bucket, for this many keys and `bucket` or BUCKET keys per bucket."""
    return max(_MIN_BITS, (keys // (bucket or BUCKET)).bit_length())


def bucket_keys(buckets: NDArray[np.uint64], bits: int) -> list[bytes]:
    """Return the row keys of buckets, which are given by their numbers at `bits`."""
    raw = (buckets << np.uint64(32 - bits)).astype(">u4").tobytes()
    return [raw[i : i + 4] for i in range(0, len(raw), 4)]


def rest_of(lane1: Lane | None) -> U32 | None:
    """Return the part of the second lane that the index stores."""
    return None if lane1 is None else (lane1 >> np.uint64(32)).astype(np.uint32)


def _unpack(rows: Sequence[tuple[bytes, bytes]], where: str) -> IndexEntries:
    hashes: list[bytes] = []
    rests: list[bytes] = []
    records: list[bytes] = []
    wide = any(row[:1] == b"\x01" for _, row in rows)
    for key, row in rows:
        payload = unseal(key, row, where)
        own = payload[0] == _WIDE
        n = (len(payload) - 1) // (16 if own else 12)
        hashes.append(bytes(payload[1 : 1 + 8 * n]))
        if wide:
            rests.append(bytes(payload[1 + 8 * n : 1 + 12 * n]) if own else bytes(4 * n))
        records.append(bytes(payload[len(payload) - 4 * n :]))
    return IndexEntries(
        np.frombuffer(b"".join(hashes), np.uint64),
        np.frombuffer(b"".join(rests), np.uint32) if wide else None,
        np.frombuffer(b"".join(records), np.uint32),
    )


def look_up(reader: Reader, db: str, bits: int, hashes: Lane, rest: U32 | None) -> tuple[NDArray[np.bool_], U32]:
    """Return for each key whether the index has it, and its record number modulo 2³²."""
    found = np.zeros(hashes.size, bool)
    records = np.zeros(hashes.size, np.uint32)
    todo = np.arange(hashes.size)
    for level in range(bits, _MIN_BITS - 1, -1):
        ids = np.unique(hashes[todo] >> np.uint64(64 - level))
        keys = bucket_keys(ids, level)
        rows = [(k, v) for k, v in zip(keys, reader.get_many(db, keys), strict=True) if v is not None]
        got = _unpack(rows, db)
        hit, record = _match(got, hashes[todo], None if rest is None else rest[todo])
        found[todo], records[todo] = hit, record
        present = np.fromiter((int.from_bytes(k, "big") for k, _ in rows), np.uint64, len(rows))
        own = np.isin((hashes[todo] >> np.uint64(64 - level)) << np.uint64(32 - level), present)
        todo = todo[~hit & ~own]
        if not todo.size or level == bits - 1:
            break  # a doubling advances one level at a time
    return found, records


def entries_from(reader: Reader, db: str, begin: int, most: int) -> tuple[IndexEntries, int | None]:
    """Return about `most` entries from a hash on, in order, and the hash after them; None for no more."""
    first = reader.floor(db, (begin >> 32).to_bytes(4, "big"))
    rows: list[tuple[bytes, bytes]] = []
    n, end = 0, None
    for key, row in reader.scan(db, b"" if first is None else first[0]):
        if n >= most:
            end = int.from_bytes(key, "big") << 32
            break
        hashes = _unpack([(key, row)], db).hash
        n += hashes.size - int(np.searchsorted(hashes, np.uint64(begin)))
        rows.append((key, row))
    got = _unpack(rows, db)
    at = slice(got.hash.size - n, None)
    return IndexEntries(got.hash[at], None if got.rest is None else got.rest[at], got.record[at]), end


def _match(got: IndexEntries, hashes: Lane, rest: U32 | None) -> tuple[NDArray[np.bool_], U32]:
    size = got.hash.size
    if not size:
        return np.zeros(hashes.size, bool), np.zeros(hashes.size, np.uint32)
    at = np.searchsorted(got.hash, hashes)
    want = np.zeros(hashes.size, np.uint32) if rest is None else rest
    while True:
        inside = np.minimum(at, size - 1)
        same = (at < size) & (got.hash[inside] == hashes)
        mine = same & ((want == 0) if got.rest is None else (got.rest[inside] == want))
        other = same & ~mine
        if not other.any():
            return mine, got.record[inside]
        at = at + other


def merge(old: IndexEntries, new: IndexEntries, drop: NDArray[np.bool_]) -> IndexEntries:
    """Lay `new` entries over `old` ones. Keys marked in `drop` are removed."""
    wide = old.rest is not None or new.rest is not None
    old_rest = _rest_or_zero(old) if wide else None
    new_rest = _rest_or_zero(new) if wide else None
    at = np.searchsorted(old.hash, new.hash)
    inside = at < old.hash.size
    hit = np.zeros(new.hash.size, bool)
    hit[inside] = old.hash[at[inside]] == new.hash[inside]
    if old_rest is not None and new_rest is not None:
        twins = bool((new.hash[1:] == new.hash[:-1]).any()) or bool((old.hash[1:] == old.hash[:-1]).any())
        if twins or bool((old_rest[at[hit]] != new_rest[hit]).any()):
            return _merge_twins(old, old_rest, new, new_rest, drop)
    record = old.record.copy()
    record[at[hit]] = new.record[hit]
    hashes, rest = old.hash, old_rest
    gone = np.zeros(hashes.size, bool)
    gone[at[hit & drop]] = True
    fresh = ~hit & ~drop
    if gone.any():
        keep = ~gone
        at = at - np.concatenate(([0], np.cumsum(gone)))[at]
        hashes, record = hashes[keep], record[keep]
        rest = None if rest is None else rest[keep]
    if fresh.any():
        where = at[fresh]
        hashes = np.insert(hashes, where, new.hash[fresh])
        record = np.insert(record, where, new.record[fresh])
        if rest is not None and new_rest is not None:
            rest = np.insert(rest, where, new_rest[fresh])
    return IndexEntries(hashes, rest, record)


def _rest_or_zero(entries: IndexEntries) -> U32:
    return np.zeros(entries.hash.size, np.uint32) if entries.rest is None else entries.rest


def _merge_twins(
    old: IndexEntries, old_rest: U32, new: IndexEntries, new_rest: U32, drop: NDArray[np.bool_]
) -> IndexEntries:
    """Merge in the general case, in which two keys share 64 bits of hash."""
    hashes = np.concatenate((old.hash, new.hash))
    rest = np.concatenate((old_rest, new_rest))
    record = np.concatenate((old.record, new.record))
    gone = np.concatenate((np.zeros(old.hash.size, bool), drop))
    age = np.concatenate((np.zeros(old.hash.size, np.uint8), np.ones(new.hash.size, np.uint8)))
    order = np.lexsort((age, rest, hashes))
    hashes, rest, record, gone = hashes[order], rest[order], record[order], gone[order]
    last = np.ones(hashes.size, bool)
    last[:-1] = (hashes[1:] != hashes[:-1]) | (rest[1:] != rest[:-1])
    keep = last & ~gone
    return IndexEntries(hashes[keep], rest[keep], record[keep])


def write_anew(writer: Writer, db: str, bits: int, entries: IndexEntries) -> None:
    """Write all rows of buckets that have none. The entries, one per key, are complete and in any order."""
    rest = _rest_or_zero(entries)
    order = np.lexsort((rest, entries.hash)) if entries.rest is not None else np.argsort(entries.hash)
    hashes = entries.hash[order]
    step = np.uint64(1) << np.uint64(64 - bits)
    for first in range(0, 1 << bits, _AT_ONCE):
        last = first + _AT_ONCE
        a = int(np.searchsorted(hashes, np.uint64(first) * step))
        b = hashes.size if last >> bits else int(np.searchsorted(hashes, np.uint64(last) * step))
        if a < b:
            own = order[a:b]
            part = IndexEntries(hashes[a:b], None if entries.rest is None else rest[own], entries.record[own])
            _write(writer, db, bits, (), part)


def rewrite(
    writer: Writer, db: str, bits: int, buckets: NDArray[np.uint64], new: IndexEntries, drop: NDArray[np.bool_]
) -> None:
    """Lay changes over the rows of these buckets."""
    keys = bucket_keys(buckets, bits)
    rows = [(k, v) for k, v in zip(keys, writer.get_many(db, keys), strict=True) if v is not None]
    _write(writer, db, bits, keys, merge(_unpack(rows, db), new, drop))


def rewrite_range(
    writer: Writer, db: str, bits: int, span: tuple[int, int], new: IndexEntries, drop: NDArray[np.bool_]
) -> None:
    """Lay changes over all rows of the buckets span[0] … span[1]-1 at `bits`, and split rows that are not split yet."""
    low, high = (x << (32 - bits) for x in span)
    stop = None if high >> 32 else high.to_bytes(4, "big")
    rows = list(writer.scan(db, low.to_bytes(4, "big"), stop))
    _write(writer, db, bits, [k for k, _ in rows], merge(_unpack(rows, db), new, drop))


def _write(writer: Writer, db: str, bits: int, had: Sequence[bytes], entries: IndexEntries) -> None:
    if not entries.hash.size:
        writer.delete_many(db, had)
        return
    bucket = entries.hash >> np.uint64(64 - bits)
    cuts = np.concatenate(([True], bucket[1:] != bucket[:-1])).nonzero()[0]
    keys = bucket_keys(bucket[cuts], bits)
    hashes, records = entries.hash.tobytes(), entries.record.tobytes()
    rest = None if entries.rest is None else entries.rest.tobytes()
    flag = b"\x00" if rest is None else b"\x01"
    rows: list[tuple[bytes, bytes]] = []
    for key, a, b in zip(keys, cuts.tolist(), [*cuts[1:].tolist(), bucket.size], strict=True):
        middle = b"" if rest is None else rest[4 * a : 4 * b]
        rows.append((key, seal(key, flag + hashes[8 * a : 8 * b] + middle + records[4 * a : 4 * b])))
    writer.put_many(db, rows)
    empty = set(had).difference(keys)
    if empty:
        writer.delete_many(db, sorted(empty))
