"""Readers of tables: documents by key in one snapshot, from any process.

A reader looks a key up in the segments after the index, then in the index, and reads the line of the document.
Snapshots share the keys of unfolded segments, so a snapshot reads only the segments added since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    GONE,
    RECORD,
    IndexEntries,
    KeyCache,
    KeyKind,
    Lane,
    LogMark,
    Reader,
    Segment,
    encode_key,
    entries_from,
    index_db,
    key_hash,
    look_up,
    naming,
    read_lines,
    read_mark,
    rest_of,
    runs_from,
    segments_from,
    segments_of,
)
from penstock.gateway.lines.stored_lines import is_wrapped, unwrap
from penstock.gateway.table_databases import table_labels
from penstock.gateway.table_readers import TableReading
from penstock.gateway.view_deltas import key_of
from penstock.mapreduce import key_lanes
from penstock.views import Table

_BATCH = 4096
_LAYERED = 1 << 16


@dataclass(frozen=True, slots=True)
class Tail:
    """The keys of the segments from `start` to `tail`, in immutable layers from the oldest to the newest."""

    start: int
    tail: int
    layers: tuple[KeyCache, ...]
    forgotten: int

    @property
    def keys(self) -> int:
        """Count the keys. A key in several layers counts several times."""
        return sum(layer.map.used for layer in self.layers)


class Tails:
    """The newest tail of each table, shared by snapshots.

    New segments become a layer at the end of the tail. Small layers merge. A tail may begin before the folded mark,
    since
    its newest record of a key is still correct. It is read again if it is too large, if segments after its end may be
    gone,
    or if tombstones were forgotten.
    """

    def __init__(self) -> None:
        self._tails: dict[int, Tail] = {}
        self._checked: dict[int, set[int]] = {}

    def checked(self, table: int) -> set[int]:
        """Return the segments of a table with columns that are checked already. A segment never changes."""
        known = self._checked.setdefault(table, set())
        if len(known) > _LAYERED:
            known.clear()
        return known

    def of(self, reader: Reader, table: int, mark: LogMark) -> Tail:
        """Return the tail of a table in this snapshot."""
        known = self._tails.get(table)
        if known is not None and known.forgotten != mark.forgotten:
            known = None
        if known is not None and known.tail == mark.tail and known.start <= mark.folded:
            return known
        if (
            known is None
            or not known.start <= mark.folded <= known.tail < mark.tail
            or known.keys > _LAYERED + 2 * (mark.tail - mark.folded)
        ):
            layer = _layer(reader, table, mark.folded)
            tail = Tail(mark.folded, mark.tail, (layer,), mark.forgotten)
        else:
            layers = [*known.layers, _layer(reader, table, known.tail)]
            while len(layers) > 1 and 2 * layers[-1].map.used >= layers[-2].map.used:
                newer = layers.pop()
                layers[-1] = layers[-1].under(newer)
            tail = Tail(known.start, mark.tail, tuple(layers), mark.forgotten)
        if known is None or known.tail <= tail.tail:
            self._tails[table] = tail
        return tail


def _layer(reader: Reader, table: int, start: int) -> KeyCache:
    runs = list(runs_from(reader, table, start))
    layer = KeyCache(max(1, sum(map(len, runs))))
    for run in runs:
        layer.overlay(run.k0, run.k1, run.base, run.gone)
    return layer


Part = tuple[Segment, NDArray[np.int64]]  # a segment, and places in it


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines of the log of a table, with the lanes of their keys and their record numbers."""

    k0: Lane
    k1: Lane | None
    records: NDArray[np.int64]
    lines: list[bytes]

    @classmethod
    def of(cls, parts: Sequence[Part]) -> LineBlock:
        """Read the lines at these places of segments."""
        return cls(*_keys_of(parts), [line for segment, at in parts for line in segment.lines(at)])

    @classmethod
    def join(cls, blocks: Sequence[LineBlock]) -> LineBlock:
        """Concatenate blocks."""
        if not blocks:
            return cls(np.zeros(0, np.uint64), None, np.zeros(0, np.int64), [])
        second = [np.zeros(block.k0.size, np.uint64) if block.k1 is None else block.k1 for block in blocks]
        k1 = np.concatenate(second) if any(block.k1 is not None for block in blocks) else None
        k0 = np.concatenate([block.k0 for block in blocks])
        records = np.concatenate([block.records for block in blocks])
        return cls(k0, k1, records, [line for block in blocks for line in block.lines])


def _keys_of(parts: Sequence[Part]) -> tuple[Lane, Lane | None, NDArray[np.int64]]:
    """Return the lanes of the keys and the record numbers of the lines at these places of segments."""
    k1: Lane | None = None
    if any(segment.k1 is not None for segment, _ in parts):
        k1 = np.concatenate([np.zeros(at.size, np.uint64) if s.k1 is None else s.k1[at] for s, at in parts])
    k0 = np.concatenate([segment.k0[at] for segment, at in parts])
    return k0, k1, np.concatenate([segment.base + at for segment, at in parts])


class TableReader(TableReading):
    """The documents of one table in one snapshot."""

    def __init__(
        self,
        table: Table,
        number: int,
        seed: int,
        reader: Callable[[], Reader],
        tails: Tails,
        held: Callable[[], frozenset[bytes]],
    ) -> None:
        super().__init__(table, held)
        self._number = number
        self._seed = seed
        self._reader = reader
        self._tails = tails
        with self._naming():
            self._mark = read_mark(reader(), number)
        self._tail: Tail | None = None

    def __len__(self) -> int:
        return self._mark.present

    @property
    def tombstones(self) -> int:
        """Count the deletions that the table remembers."""
        return self._mark.tombstones

    def lines_of(self, keys: Iterable[Any]) -> list[bytes | None]:
        """Return the stored lines of several keys, in their order; None for a key without a document."""
        wanted = list(keys)
        (k0, k1), refused = key_lanes(wanted, self._seed)
        if refused:
            i, why = next(iter(refused.items()))
            encode_key(wanted[i])  # raises the reason, except for null
            raise KeyKind(wanted[i], why)
        return self.lines_at(k0, k1)

    def lines_at(self, k0: Lane, k1: Lane | None) -> list[bytes | None]:
        """Return the stored lines of keys given by their lanes; None for a key without a document."""
        out: list[bytes | None] = [None] * int(k0.size)
        found, records = self._find(k0, k1)
        at = found.nonzero()[0]
        with self._naming():
            lines = read_lines(self._reader(), self._number, records[at], self._tails.checked(self._number))
        for i, line in zip(at.tolist(), lines, strict=True):
            if not (is_wrapped(line) and unwrap(line).absent):
                out[i] = line
        return out

    def lines(self) -> Iterator[bytes]:
        """Iterate over the newest lines of all keys, including tombstones."""
        for _, _, line in self.places():
            yield line

    def places(self) -> Iterator[tuple[int, int, bytes]]:
        """Iterate over the newest lines of all keys, each with its segment and its place there."""
        with self._naming():
            for parts in self._parts(0, None):
                k0, k1, records = _keys_of(parts)
                newest, first = self.newest(k0, k1, records), 0
                for segment, at in parts:
                    own = at[newest[first : first + at.size]]
                    first += at.size
                    if own.size:
                        for i, line in zip(own.tolist(), segment.lines(own), strict=True):
                            yield segment.base, i, line

    @property
    def tail(self) -> int:
        """Return the record number after the last line."""
        return self._mark.tail

    def segments(self) -> Iterator[Segment]:
        """Iterate over all segments of the log, with older versions of documents."""
        return segments_from(self._reader(), self._number, 0)

    def blocks(self) -> Iterator[LineBlock]:
        """Iterate over all lines of the log in blocks of a few thousand."""
        return self.blocks_between(0, None)

    def blocks_between(self, start: int, stop: int | None) -> Iterator[LineBlock]:
        """Iterate over the blocks of the segments that begin from record `start` on and before `stop`."""
        return map(LineBlock.of, self._parts(start, stop))

    def _parts(self, start: int, stop: int | None) -> Iterator[list[Part]]:
        """Iterate over the places of the lines in these segments, a few thousand at a time."""
        parts: list[Part] = []
        n = 0
        for segment in segments_from(self._reader(), self._number, start):
            if stop is not None and segment.base >= stop:
                break
            for a in range(0, len(segment), _BATCH):
                at = np.arange(a, min(a + _BATCH, len(segment)))
                parts.append((segment, at))
                n += int(at.size)
                if n >= _BATCH:
                    yield parts
                    parts, n = [], 0
        if parts:
            yield parts

    def hashed_from(self, begin: int, most: int) -> tuple[LineBlock, int | None]:
        """Return the newest lines of about `most` keys from a hash on, and the hash after them; None for no more.

        The order is that of the hashes of the index, and does not depend on the versions of documents.
        """
        with self._naming():
            index, end = IndexEntries.none(), None
            if self._mark.bits:
                index, end = entries_from(self._reader(), index_db(self._number), begin, most)
            k0, k1 = self._tail_keys(begin, end)
            late = key_hash(k0, k1)
            hashes = np.unique(np.concatenate((index.hash, late)))
            if hashes.size > most:
                end = int(hashes[most])
            if end is not None:
                own = late < np.uint64(end)
                k0, k1, late = k0[own], k1[own], late[own]
            found, records = self._found(k0, k1)
            known = set(zip(late.tolist(), (k1 >> np.uint64(32)).tolist(), strict=True))
            n = index.hash.size if end is None else int(np.searchsorted(index.hash, np.uint64(end)))
            rest = [0] * n if index.rest is None else index.rest[:n].tolist()
            old = [i for i, name in enumerate(zip(index.hash[:n].tolist(), rest, strict=True)) if name not in known]
            own_records = np.concatenate((self._whole_records(index.record[old]), records[found]))
            return self._lines_of(own_records), end

    def _tail_keys(self, begin: int, end: int | None) -> tuple[Lane, Lane]:
        """Return the distinct keys of the tail with hashes in a range."""
        parts = [np.zeros((0, 2), np.uint64)]
        for keys in self._tail_in().layers:
            k0, k1 = keys.map.lanes(np.arange(keys.map.used))
            hashes = key_hash(k0, k1)
            own = hashes >= np.uint64(begin)
            if end is not None:
                own &= hashes < np.uint64(end)
            second = np.zeros(k0.size, np.uint64) if k1 is None else k1
            parts.append(np.stack((k0[own], second[own]), axis=1))
        both = np.unique(np.concatenate(parts), axis=0)
        return both[:, 0].copy(), both[:, 1].copy()

    def _lines_of(self, records: NDArray[np.int64]) -> LineBlock:
        """Return the lines with these record numbers, in the order of the numbers."""
        found = segments_of(self._reader(), self._number, records, self._tails.checked(self._number))
        return LineBlock.join([LineBlock.of([(segment, at)]) for segment, _, at in found])

    def newest_keys(self, block: LineBlock, at: NDArray[np.int64]) -> list[bytes | None]:
        """Return the encoded keys of lines of a block; None for a line that is not the newest of its key."""
        k0, k1 = block.k0[at], None if block.k1 is None else block.k1[at]
        newest = self.newest(k0, k1, block.records[at]).tolist()
        hashed = [0] * len(newest) if k1 is None else k1.tolist()
        out: list[bytes | None] = []
        for i, key, second, own in zip(at.tolist(), k0.view(np.int64).tolist(), hashed, newest, strict=True):
            if not own:
                out.append(None)
            else:
                out.append(key_of(self._table, block.lines[i]) if second else encode_key(key))
        return out

    def newest(self, k0: Lane, k1: Lane | None, records: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the records that are the newest of their keys."""
        found, newest = self._find(k0, k1)
        own: NDArray[np.bool_] = found & (newest == records)
        return own

    def place(self, key: Any) -> tuple[int, int, bytes] | None:
        """Return the newest line of one key with its segment and its place there, or None."""
        (k0, k1), refused = key_lanes([key], self._seed)
        if refused:
            encode_key(key)  # raises the reason, except for null
            raise KeyKind(key, refused[0])
        found, records = self._find(k0, k1)
        if not found[0]:
            return None
        with self._naming():
            segment, _, at = next(segments_of(self._reader(), self._number, records))
            [line] = segment.lines(at)
        return segment.base, int(at[0]), line

    def _find(self, k0: Any, k1: Any) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Mark the keys with a record that may hold a document, and return these records."""
        with self._naming():
            return self._found(k0, k1)

    def _naming(self) -> AbstractContextManager[None]:
        return naming(lambda: table_labels(self.name, self._number))

    def _found(self, k0: Any, k1: Any) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        found = np.zeros(k0.size, bool)
        low = np.zeros(k0.size, np.uint32)
        rest = np.arange(k0.size)
        for keys in reversed(self._tail_in().layers):
            if not rest.size or not keys.map.used:
                continue
            slots = keys.map.find(k0[rest], None if k1 is None else k1[rest])
            known = slots >= 0
            at, own = rest[known], slots[known]
            state = keys.state[own]
            found[at] = (state & RECORD != 0) & ((state & GONE == 0) | self._table.has_ts)
            low[at] = keys.record[own]
            rest = rest[~known]
        if rest.size and self._mark.bits:
            second = None if k1 is None else k1[rest]
            hit, record = look_up(
                self._reader(), index_db(self._number), self._mark.bits, key_hash(k0[rest], second), rest_of(second)
            )
            found[rest], low[rest] = hit, record
        return found, self._whole_records(low)

    def _tail_in(self) -> Tail:
        if self._tail is None:
            self._tail = self._tails.of(self._reader(), self._number, self._mark)
        return self._tail

    def _whole_records(self, low: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return record numbers from their lower halves, which the index stores."""
        last = self._mark.tail - 1
        return last - ((last - low.astype(np.int64)) & 0xFFFFFFFF)
