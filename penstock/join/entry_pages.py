"""Pages of a side index: rows with the columns of adjacent entries.

    plain   0 | kind of each column | lanes, entry by entry           every column has values of one kind that has lanes
    mixed   1 | MessagePack [kinds, lanes of numbers, positions, other values], each entry by entry

The row of a page has 8 bytes as its key: the position where the page begins. The entries of one position are in one
page. A log row has the changes of a transaction: their number (u32), one bit for each that is set for a removal, and
all entries as one page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import canonical, unpack
from penstock.join.side_entries import FIELDS, Entries, Positions, positions_of
from penstock.join.sorted_runs import EntryChanges
from penstock.mapreduce import LaneKind

__all__ = ["changes_payload", "entry_bytes", "page_keys", "page_payloads", "read_changes", "read_pages"]

_PLAIN, _MIXED = b"\x00", b"\x01"
_SAMPLE = 64
_encode = msgspec.msgpack.Encoder().encode


def page_keys(begins: Positions) -> list[bytes]:
    """Return the keys of the pages that begin at these positions."""
    raw = begins.astype(">u8").tobytes()
    return [raw[i : i + 8] for i in range(0, len(raw), 8)]


def page_payloads(entries: Entries, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
    """Return the payload of a page for the entries from each start to its stop."""
    columns = FIELDS + entries.width
    if entries.kinds is None:
        return _plain(entries, starts, stops, [bytes([LaneKind.INT]) * columns] * len(starts))
    heads = [_one_kind(entries.kinds[a:b]) for a, b in zip(starts, stops, strict=True)]
    plain = [head for head in heads if head is not None]
    if len(plain) == len(heads):
        return _plain(entries, starts, stops, plain)
    return [_mixed(entries.slice(a, b)) for a, b in zip(starts, stops, strict=True)]


def _plain(entries: Entries, starts: Sequence[int], stops: Sequence[int], heads: Sequence[bytes]) -> list[bytes]:
    raw = entries.lanes.astype("<i8", copy=False).tobytes()
    size = 8 * (FIELDS + entries.width)
    rows = zip(heads, starts, stops, strict=True)
    return [_PLAIN + head + raw[size * a : size * b] for head, a, b in rows]


def _one_kind(kinds: NDArray[np.uint8]) -> bytes | None:
    """Return the kind of each column if all entries agree and the kind has lanes."""
    if not len(kinds) or bool((kinds[0] >= LaneKind.BIG).any()) or not bool((kinds == kinds[0]).all()):
        return None
    head: bytes = kinds[0].tobytes()
    return head


def _mixed(entries: Entries) -> bytes:
    kinds = entries.all_kinds()
    numbers = (kinds == LaneKind.INT) | (kinds == LaneKind.FLOAT)
    objs = [] if entries.objs is None else entries.objs[kinds >= LaneKind.BIG].tolist()
    lanes = entries.lanes[numbers].astype("<i8").tobytes()
    row = [kinds.tobytes(), lanes, entries.at.astype("<u8").tobytes(), objs]
    plain = set(map(type, objs)) <= {bytes, str, bool}
    return _MIXED + (_encode(row) if plain else canonical(row))


def read_pages(payloads: Sequence[bytes], width: int) -> Entries:
    """Return the entries of pages, in their order."""
    columns = FIELDS + width
    if not payloads:
        return Entries.none(width)
    if all(payload[:1] == _PLAIN for payload in payloads):
        return _read_plain(payloads, columns)
    each = (_read_plain([page], columns) if page[:1] == _PLAIN else _read_mixed(page, columns) for page in payloads)
    return Entries.join(list(each))


def _read_plain(payloads: Sequence[bytes], columns: int) -> Entries:
    first = 1 + columns
    lanes = np.frombuffer(b"".join([payload[first:] for payload in payloads]), "<i8").reshape(-1, columns)
    heads = {payload[1:first] for payload in payloads}
    kinds: NDArray[np.uint8] | None = None
    if heads != {bytes([LaneKind.INT]) * columns}:
        sizes = [(len(payload) - first) // (8 * columns) for payload in payloads]
        each = np.frombuffer(b"".join([payload[1:first] for payload in payloads]), np.uint8)
        kinds = np.repeat(each.reshape(-1, columns), sizes, axis=0)
    entries = Entries(np.zeros(len(lanes), np.uint64), lanes, kinds, None)
    entries.at = positions_of(entries.values(), entries.keys())
    return entries


def _read_mixed(payload: bytes, columns: int) -> Entries:
    row: list[Any] = unpack(payload[1:])
    raw_kinds, raw_lanes, raw_at, listed = row
    kinds = np.frombuffer(raw_kinds, np.uint8).reshape(-1, columns)
    lanes = np.zeros(kinds.shape, np.int64)
    lanes[(kinds == LaneKind.INT) | (kinds == LaneKind.FLOAT)] = np.frombuffer(raw_lanes, "<i8")
    objs: NDArray[np.object_] | None = None
    if listed:
        objs = np.full(kinds.shape, None, object)
        flat = np.empty(len(listed), object)
        flat[:] = listed
        objs[kinds >= LaneKind.BIG] = flat
    return Entries(np.frombuffer(raw_at, "<u8").astype(np.uint64), lanes, kinds, objs)


def entry_bytes(entries: Entries) -> int:
    """Return the bytes of an entry in a page, measured on a sample."""
    columns = FIELDS + entries.width
    if entries.objs is None or not len(entries):
        return 8 * columns
    sample = entries.take(np.arange(0, len(entries), 1 + len(entries) // _SAMPLE))
    return 1 + len(_mixed(sample)) // len(sample)


def changes_payload(changes: EntryChanges) -> bytes:
    """Return the payload of a log row."""
    n = len(changes)
    [page] = page_payloads(changes.entries, [0], [n])
    return n.to_bytes(4, "big") + np.packbits(changes.gone).tobytes() + page


def read_changes(payload: bytes, width: int) -> EntryChanges:
    """Return the changes in a log row."""
    n = int.from_bytes(payload[:4], "big")
    first = 4 + (n + 7) // 8
    gone = np.unpackbits(np.frombuffer(payload[4:first], np.uint8), count=n).astype(bool)
    return EntryChanges(read_pages([payload[first:]], width), gone)
