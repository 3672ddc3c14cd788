"""Pages of a side index: rows with the columns of adjacent entries.

    plain   0 | kind of each column | lanes, entry by entry       every column has values of one kind that has lanes
    mixed   1 | bytes of a size u8 | entries u32 | kinds, entry by entry | positions u64s | lanes of numbers
              | sizes of other values | their bytes
    alike   2 | the same, with the kinds of one entry, which all entries share

The row of a page has 8 bytes as its key: the position where the page begins. The entries of one position are in one
page. A log row has the changes of a transaction: their number (u32), a bit for each, and the entries as one page. The
bit is set for a removal. Arrays are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from penstock.join.entries.entry_texts import Texts, row_sums
from penstock.join.side_entries import FIELDS, Entries, Mask, Positions, positions_of
from penstock.join.sorted_runs import EntryChanges
from penstock.mapreduce import LaneKind

__all__ = ["changes_payload", "entry_bytes", "page_keys", "page_payloads", "read_changes", "read_pages"]

_PLAIN, _MIXED, _ALIKE = 0, 1, 2
_HEAD = Struct("<BBI")


def page_keys(begins: Positions) -> list[bytes]:
    """Return the keys of the pages that begin at these positions."""
    raw = begins.astype(">u8").tobytes()
    return [raw[i : i + 8] for i in range(0, len(raw), 8)]


def page_payloads(entries: Entries, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
    """Return the payload of a page for the entries from each start to its stop."""
    columns = FIELDS + entries.width
    if entries.kinds is None:
        return _plain(entries, starts, stops, [bytes([LaneKind.INT]) * columns] * len(starts))
    if entries.texts is not None:
        return _mixed(entries, starts, stops)
    heads = [_one_kind(entries.kinds[a:b]) for a, b in zip(starts, stops, strict=True)]
    plain = [head for head in heads if head is not None]
    if len(plain) == len(heads):
        return _plain(entries, starts, stops, plain)
    return _mixed(entries, starts, stops)


def _plain(entries: Entries, starts: Sequence[int], stops: Sequence[int], heads: Sequence[bytes]) -> list[bytes]:
    raw = entries.lanes.astype("<i8", copy=False).tobytes()
    size = 8 * (FIELDS + entries.width)
    rows = zip(heads, starts, stops, strict=True)
    return [bytes([_PLAIN]) + head + raw[size * a : size * b] for head, a, b in rows]


def _one_kind(kinds: NDArray[np.uint8]) -> bytes | None:
    """Return the kind of each column if all entries agree and the kind has lanes."""
    if not len(kinds) or bool((kinds[0] >= LaneKind.BIG).any()) or not bool((kinds == kinds[0]).all()):
        return None
    head: bytes = kinds[0].tobytes()
    return head


def _mixed(entries: Entries, starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
    kinds, columns = entries.all_kinds(), FIELDS + entries.width
    texts = Texts.none(*kinds.shape) if entries.texts is None else entries.texts
    numbers, beside = _has_lane(kinds), kinds >= LaneKind.BIG
    width = 2 if not texts.sizes.size or int(texts.sizes.max()) < 1 << 16 else 4
    heap, raw, at = texts.raw(), kinds.tobytes(), entries.at.astype("<u8", copy=False).tobytes()
    lanes, sizes = entries.lanes[numbers].astype("<i8").tobytes(), texts.sizes[beside].astype(f"<u{width}").tobytes()
    edges = [np.concatenate(([0], np.cumsum(row_sums(own)))) for own in (numbers, beside, texts.sizes)]
    begins, ends = (zip(*(own[list(at)].tolist() for own in edges), strict=True) for at in (starts, stops))
    out: list[bytes] = []
    for a, b, (i, k, x), (j, m, y) in zip(starts, stops, begins, ends, strict=True):
        own = raw[columns * a : columns * b]
        alike = own == own[:columns] * (b - a)
        head = _HEAD.pack(_ALIKE if alike else _MIXED, width, b - a)
        shown = own[:columns] if alike else own
        body = (head, shown, at[8 * a : 8 * b], lanes[8 * i : 8 * j], sizes[width * k : width * m], heap[x:y])
        out.append(b"".join(body))
    return out


def _has_lane(kinds: NDArray[np.uint8]) -> Mask:
    has: Mask = (kinds == LaneKind.INT) | (kinds == LaneKind.FLOAT)
    return has


def read_pages(payloads: Sequence[bytes], width: int) -> Entries:
    """Return the entries of pages, in their order."""
    columns = FIELDS + width
    if not payloads:
        return Entries.none(width)
    if all(payload[0] == _PLAIN for payload in payloads):
        return _read_plain(payloads, columns)
    if all(payload[0] != _PLAIN for payload in payloads):
        return _read_mixed(payloads, columns)
    each = (_read_plain if payload[0] == _PLAIN else _read_mixed for payload in payloads)
    return Entries.join([read([payload], columns) for read, payload in zip(each, payloads, strict=True)])


def _read_plain(payloads: Sequence[bytes], columns: int) -> Entries:
    first = 1 + columns
    lanes = np.frombuffer(b"".join([payload[first:] for payload in payloads]), "<i8").reshape(-1, columns)
    heads = {payload[1:first] for payload in payloads}
    kinds: NDArray[np.uint8] | None = None
    if heads != {bytes([LaneKind.INT]) * columns}:
        counts = [(len(payload) - first) // (8 * columns) for payload in payloads]
        each = np.frombuffer(b"".join([payload[1:first] for payload in payloads]), np.uint8)
        kinds = np.repeat(each.reshape(-1, columns), counts, axis=0)
    entries = Entries(np.zeros(len(lanes), np.uint64), lanes, kinds, None)
    entries.at = positions_of(entries.values(), entries.keys())
    return entries


def _read_mixed(payloads: Sequence[bytes], columns: int) -> Entries:
    kinds_of, at, lanes_of, sizes_of, heaps = list[bytes](), list[bytes](), list[bytes](), list[bytes](), list[bytes]()
    for payload in payloads:
        tag, width, n = _HEAD.unpack_from(payload)
        stop = _HEAD.size + columns * (1 if tag == _ALIKE else n)
        shown = payload[_HEAD.size : stop]
        times = n if tag == _ALIKE else 1
        numbers = times * (shown.count(LaneKind.INT) + shown.count(LaneKind.FLOAT))
        beside = columns * n - numbers - times * shown.count(LaneKind.NULL)
        kinds_of.append(shown * times)
        edges = [stop, stop + 8 * n, stop + 8 * (n + numbers), stop + 8 * (n + numbers) + width * beside]
        parts = [payload[a:b] for a, b in pairwise([*edges, len(payload)])]
        at.append(parts[0])
        lanes_of.append(parts[1])
        sizes_of.append(parts[2] if width == 4 else np.frombuffer(parts[2], "<u2").astype("<u4").tobytes())
        heaps.append(parts[3])
    kinds = np.frombuffer(b"".join(kinds_of), np.uint8).reshape(-1, columns)
    lanes, sizes = np.zeros(kinds.shape, np.int64), np.zeros(kinds.shape, np.int32)
    lanes[_has_lane(kinds)] = np.frombuffer(b"".join(lanes_of), "<i8")
    sizes[kinds >= LaneKind.BIG] = np.frombuffer(b"".join(sizes_of), "<u4")
    texts = Texts.in_order(b"".join(heaps), sizes) if sizes.any() else None
    return Entries(np.frombuffer(b"".join(at), "<u8").astype(np.uint64), lanes, kinds, texts)


def entry_bytes(entries: Entries) -> int:
    """Return the bytes of an entry in a page, on average."""
    columns = FIELDS + entries.width
    if entries.texts is None or not len(entries):
        return 8 * columns
    sizes = entries.texts.sizes
    beside = int((sizes > 0).sum())
    return 8 + 8 * columns + (int(sizes.sum()) - 6 * beside) // len(entries)


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
