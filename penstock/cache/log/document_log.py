"""Keep the documents of a table in a log of segments, and their places in an index that is updated in bounded steps.

Each batch appends one segment in its own transaction, which makes it durable. The index fold later writes the place of
the newest line of each changed key. Compaction copies live lines of the oldest segments to the end. Invariants:

- record numbers only grow. Of two lines of one key, the higher number is the newer line or an equal copy;
- the index names a line for every key with a record below `folded`. This is the key's newest line, unless a record from
  `folded` on is newer. `open` lays the segments from `folded` on over the index, by their key lanes alone;
- only the last step of a fold deletes segments, and only those whose live lines were copied before the fold began. Then
  no row of the index names them. A crash before that leaves dead lines, which compaction skips later;
- a line counts as dead only if the index matches its digest. Each pass over the log compares them first;
- each step is one transaction. Memory changes only after the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache.encoding.checksum import seal, unseal
from penstock.cache.errors import StoreDamaged
from penstock.cache.log import hash_index
from penstock.cache.log.index_fold import IndexFold
from penstock.cache.log.key_cache import GONE, LOADED, PRESENT, RECORD, KeyCache
from penstock.cache.log.key_slots import Lane, Slots, key_hash
from penstock.cache.log.log_reader import Records, log_db, read_lines, record_key, runs_from, segments_from
from penstock.cache.log.segment import Segment, build_segment, build_small
from penstock.cache.store.protocol import META, Reader, Writer

_WORTH = 16  # compact if more than one line in 16 is dead, or if there are more than about 16 small segments
_MOST_BYTES = 16 << 20  # bytes of the lines that one step of compaction reads
_NO_SLOTS: Slots = np.zeros(0, np.int64)
Carry = Callable[[Writer, Sequence[tuple[Segment, NDArray[np.int64]]], int], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds that start work between batches, and the size of its steps."""

    few: int = 8  # batches up to this size use plain values, larger ones columns. At most FEW
    fold_least: int = 1 << 17
    fold_most: int = 3 << 18
    fold_buckets: int = 64
    bucket: int | None = None  # keys per bucket of the index, at most, on average
    space: float = 2.5
    entries: int = 1 << 13
    segment: int = 1 << 10


class LogMark(msgspec.Struct, array_like=True, frozen=True):
    """The stored state of a table's log: one row, written with every batch."""

    tail: int = 0  # the next record number
    folded: int = 0
    bits: int = 0
    doubling: bool = False
    present: int = 0
    tombstones: int = 0
    forgotten: int = 0  # how often tombstones were removed. Knowledge of the log from before that is outdated


_decode_mark = msgspec.msgpack.Decoder(LogMark).decode


def index_db(table: int) -> str:
    """Return the name of the database of a table's index."""
    return f"index:{table}"


def mark_key(table: int) -> bytes:
    """Return the key of a table's mark in `meta`."""
    return b"log:%d" % table


def mark_of_log(db: str) -> bytes | None:
    """Return the key of the mark of a log database, or None for any other database."""
    kind, _, number = db.partition(":")
    return mark_key(int(number)) if kind == "log" else None


def read_mark(reader: Reader, table: int) -> LogMark:
    """Read the mark of a table's log."""
    key = mark_key(table)
    row = reader.get_many(META, [key])[0]
    return LogMark() if row is None else _decode_mark(unseal(key, row, META))


class DocumentLog:
    """The documents of one table, for the writer."""

    def __init__(self, table: int, tombstones: bool, capacity: int, limits: Limits) -> None:
        self.table = table
        self.tombstones = tombstones
        self.limits = limits
        self.mark = LogMark()
        self.keys = KeyCache(capacity)
        self._capacity = capacity
        self.complete = True  # memory has all keys of the table
        self._fold: IndexFold | None = None
        self._owed = 0.0  # steps of the fold
        self._checked: set[int] = set()
        self._head = 0  # the first record that is not compacted away
        self._compared = 0  # up to this record, compaction uses an index that matched its digest
        self.halted = False  # the index lost rows, so compaction would delete live lines
        self._entries = 0
        self._db, self._index = log_db(table), index_db(table)
        self.sides: list[str] = []  # databases with a row per segment, which are deleted with it

    # -- opening and dropping

    def open(self, reader: Reader) -> None:
        """Read the mark, and lay the segments that are not in the index over it."""
        self.mark = read_mark(reader, self.table)
        self.complete = reader.count(self._index) == 0
        first = next(iter(reader.scan(self._db)), None)
        self._head = self.mark.tail if first is None else int.from_bytes(first[0], "big")
        self._entries = reader.count(self._db)
        unfolded = self.mark.tail - self.mark.folded
        if not self.keys.room(unfolded):
            self.keys = KeyCache(unfolded)
        for run in runs_from(reader, self.table, self.mark.folded):
            self.keys.overlay(run.k0, run.k1, run.base, run.gone)

    def forget(self, room: int = 0) -> None:
        """Drop the cached keys, except those that are not in the index. Afterwards `room` more keys fit."""
        fold, self._fold = self._fold, None
        room = max(room, self._capacity // 2)
        self.keys = self.keys.heir(None if fold is None else fold.slots, self._capacity, room)
        self.complete = False

    # -- reading

    def resolve(self, reader: Reader, k0: Lane, k1: Lane | None) -> tuple[Slots, Slots]:
        """Return the slot of each key, and the slots whose lines must be read before use."""
        keys = self.keys
        slots = keys.find_or_add(k0, k1)
        if self.mark.tail == 0:
            keys.state[slots] = LOADED
            return slots, slots[:0]
        loaded = keys.state[slots] & LOADED
        if np.count_nonzero(loaded) == slots.size:
            return slots, _NO_SLOTS
        raw = (loaded == 0).nonzero()[0]
        fresh = np.unique(slots[raw])
        if not self.tombstones:  # the line only says that there is no document, and may be compacted away
            keys.state[fresh[keys.state[fresh] & GONE != 0]] |= LOADED
        unknown = fresh[keys.state[fresh] == 0]
        if unknown.size:
            self._ask_index(reader, unknown)
        return slots, fresh[keys.state[fresh] & LOADED == 0]

    def resolve_few(self, reader: Reader, keys: Sequence[tuple[int, int]]) -> tuple[list[int], Slots]:
        """Do the same as `resolve` for a few keys."""
        cache, known = self.keys, True
        slots = cache.find_or_add_few(keys)
        for slot in slots:
            if cache.state.item(slot) == 0 and (self.complete or self.mark.tail == 0):
                cache.state[slot] = LOADED
            known = known and bool(cache.state.item(slot) & LOADED)
        if known:
            return slots, _NO_SLOTS
        return slots, self.resolve(reader, *cache.map.lanes(np.array(slots)))[1]

    def _ask_index(self, reader: Reader, slots: Slots) -> None:
        keys = self.keys
        if self.complete:
            keys.state[slots] = LOADED
            return
        lane0, lane1 = keys.map.lanes(slots)
        found, record = hash_index.look_up(
            reader, self._index, self.mark.bits, key_hash(lane0, lane1), hash_index.rest_of(lane1)
        )
        keys.record[slots] = record
        keys.state[slots] = np.where(found, RECORD, LOADED)

    def records(self, slots: Slots) -> Records:
        """Return the full record numbers of slots that have a record."""
        last = self.mark.tail - 1
        return last - ((last - self.keys.record[slots].astype(np.int64)) & 0xFFFFFFFF)

    def lines(self, reader: Reader, slots: Slots) -> list[bytes]:
        """Return the newest lines of slots that have a record."""
        return read_lines(reader, self.table, self.records(slots), self._checked)

    # -- writing a batch

    def append(
        self,
        writer: Writer,
        lines: Sequence[bytes],
        slots: Slots,
        gone: NDArray[np.bool_] | None,
        change: tuple[int, int],
    ) -> LogMark:
        """Write a segment and the mark in a transaction. `change` is the change of (documents, tombstones)."""
        k0, k1 = self.keys.map.lanes(slots)
        segment = build_segment(self.mark.tail, lines, k0, k1, gone) if lines else b""
        return self._append(writer, len(lines), segment, change)

    def append_few(
        self,
        writer: Writer,
        lines: Sequence[bytes],
        keys: Sequence[tuple[int, int]],
        gone: Sequence[bool] | None,
        change: tuple[int, int],
    ) -> LogMark:
        """Do the same as `append` for a few lines. `keys` are their lanes."""
        segment = build_small(self.mark.tail, lines, keys, self.keys.map.lane1 is not None, gone)
        return self._append(writer, len(lines), segment, change)

    def _append(self, writer: Writer, n: int, segment: bytes, change: tuple[int, int]) -> LogMark:
        old = self.mark
        if n:
            writer.put_many(self._db, [(record_key(old.tail), segment)], append=True)
        present, tombstones = old.present + change[0], old.tombstones + change[1]
        new = LogMark(old.tail + n, old.folded, old.bits, old.doubling, present, tombstones, old.forgotten)
        self.put_mark(writer, new)
        return new

    def appended(self, mark: LogMark, slots: Slots, gone: NDArray[np.bool_] | None) -> None:
        """Remember the places of the lines after the commit."""
        base, self.mark = self.mark.tail, mark
        if not slots.size:
            return
        present = np.uint8(PRESENT | LOADED | RECORD)
        state = present if gone is None else np.where(gone, np.uint8(GONE | LOADED | RECORD), present)
        self.keys.put(slots, np.arange(base, base + slots.size), state)
        self._entries += 1

    def appended_few(self, mark: LogMark, slots: list[int], gone: Sequence[bool] | None) -> None:
        """Do the same as `appended` for a few lines."""
        base, self.mark = self.mark.tail, mark
        present, absent = PRESENT | LOADED | RECORD, GONE | LOADED | RECORD
        self.keys.put_few(
            slots, base, [present] * len(slots) if gone is None else [absent if g else present for g in gone]
        )
        self._entries += 1

    def put_mark(self, writer: Writer, mark: LogMark) -> None:
        """Write the mark in a transaction."""
        key = mark_key(self.table)
        writer.put_many(META, [(key, seal(key, msgspec.msgpack.encode(mark)))])

    # -- work between batches

    def fold_steps(self, n: int) -> int:
        """Return how many fold steps are due after a batch of n documents. At this rate a fold ends before the next is
        due.

        If a fold is due, this begins it by sorting its keys. Its steps follow after later batches.
        """
        if self._fold is not None:
            self._owed += self._fold.steps * n * 2 / self._fold_every()
        elif self._fold_due():
            self._begin_fold()
            self._owed = 0.0
        steps = int(self._owed)
        self._owed -= steps
        return steps

    def _fold_every(self) -> int:
        wanted = max(self.limits.fold_least, min(self.limits.fold_most, 2 * self.mark.present))
        return min(wanted, max(1, self._capacity // 4))  # keys that are not in the index must stay in memory

    def _fold_due(self) -> bool:
        return self.keys.dirty_count >= self._fold_every()

    def fold_step(self, writer: Writer, steps: int = 1) -> Callable[[], None]:
        """Write the next parts of the index. The caller calls the result after the commit."""
        fold = self._fold or self._begin_fold()
        stop = min(fold.at + steps, fold.steps)
        for at in range(fold.at, stop):
            fold.step(writer, self._index, self.keys, self.tombstones, at)
        done = stop == fold.steps
        mark = msgspec.structs.replace(
            self.mark,
            bits=fold.bits,
            doubling=fold.doubling and not done,
            folded=fold.mark if done else self.mark.folded,
        )
        if done:
            self._release(writer, fold.release)
        self.put_mark(writer, mark)

        def committed() -> None:
            self.mark = mark
            fold.at = stop
            self._fold = None if done else fold

        return committed

    @property
    def folding(self) -> bool:
        """Return whether a fold is in progress."""
        return self._fold is not None

    def _begin_fold(self) -> IndexFold:
        wanted = hash_index.bits_for(self.mark.present + self.mark.tombstones, self.limits.bucket)
        bits, doubling = self.mark.bits or wanted, self.mark.doubling
        if wanted > bits and not doubling:
            bits, doubling = bits + 1, True
        self._fold = IndexFold.begin(self.keys, bits, doubling, self.mark.tail, self._head, self.limits.fold_buckets)
        return self._fold

    def _release(self, writer: Writer, release: int) -> None:
        keys = [k for k, _ in writer.scan(self._db, b"", record_key(release))]
        if keys:
            for db in (self._db, *self.sides):
                writer.delete_many(db, keys)
            self._checked.clear()

    @property
    def head(self) -> int:
        """Return the first record that is not compacted away."""
        return self._head

    def compact_worth(self) -> bool:
        """Return whether compacting the whole log would free space."""
        held = self.mark.tail - self._head
        garbage = held - self.mark.present - self.mark.tombstones
        return garbage * _WORTH > held or self._entries > _WORTH + held // self.limits.segment

    def compact_due(self) -> bool:
        limits, entries, held = self.limits, self._entries, self.mark.tail - self._head
        living = max(self.mark.present + self.mark.tombstones, limits.fold_least)
        return not self.halted and (held > limits.space * living or entries > limits.entries + held // 256)

    def compact_step(self, writer: Writer, n: int, carry: Carry, asked: bool = False) -> Callable[[], None] | None:
        """Copy the live lines of the oldest segments, about n records, to the end. Return None if it is not due.

        With `asked` it is always due. A step is limited like a batch. The caller calls the result after the commit.
        """
        if not (asked or self.compact_due()):
            return None
        self._compare_index(writer)
        parts: list[tuple[Segment, NDArray[np.int64]]] = []
        lines: list[bytes] = []
        found: list[Slots] = []
        passed, head, size = 0, self._head, 0
        for segment in segments_from(writer, self.table, head):
            size += segment.size
            if passed and (passed + len(segment) > n or size > _MOST_BYTES):
                break
            if not self.keys.room(len(segment)):
                break
            slots, at = self.living(writer, segment)
            lines += segment.lines(at)
            parts.append((segment, at))
            found.append(slots)
            passed += len(segment)
            head = segment.base + len(segment)
        if not parts:
            return None
        slots = np.concatenate(found)
        gone = np.concatenate([np.zeros(at.size, bool) if s.gone is None else s.gone[at] for s, at in parts])
        state = (self.keys.state[slots] | np.where(gone, GONE, 0)).astype(np.uint8)
        mark = self.append(writer, lines, slots, gone if gone.any() else None, (0, 0))
        carry(writer, parts, self.mark.tail)

        def committed() -> None:
            base, self.mark = self.mark.tail, mark
            if slots.size:
                self.keys.put(slots, np.arange(base, base + slots.size), state)
            self._head = head
            self._entries += bool(lines) - len(parts)

        return committed

    def _compare_index(self, writer: Writer) -> None:
        """Once per pass over the log, refuse an index that lost rows, because live lines would count as dead."""
        if self._head >= self._compared or self.halted:
            self.halted, self._compared = writer.lost_rows(self._index), self.mark.tail
        if self.halted:
            raise StoreDamaged(f"{self._index}, rows were lost or added, so that compaction would delete documents")

    def newest(self, reader: Reader, k0: Lane, k1: Lane | None, records: Records) -> tuple[Slots, NDArray[np.bool_]]:
        """Return the slots of these keys, and for each record whether it is the newest of its key."""
        keys = self.keys
        slots = keys.find_or_add(k0, k1)
        unknown = slots[keys.state[slots] == 0]
        if unknown.size:
            self._ask_index(reader, np.unique(unknown))
        newest: NDArray[np.bool_] = (keys.state[slots] & RECORD != 0) & (
            keys.record[slots] == records.astype(np.uint32)
        )
        return slots, newest

    def living(self, reader: Reader, segment: Segment) -> tuple[Slots, NDArray[np.int64]]:
        """Return the slots and positions of a segment's live lines, the newest lines of their keys."""
        slots, living = self.newest(reader, segment.k0, segment.k1, segment.base + np.arange(len(segment)))
        if not self.tombstones and segment.gone is not None:
            settled = segment.gone & (segment.base + len(segment) <= self.mark.folded)
            living &= ~settled  # the index has removed the key, so the line is not needed
        at = living.nonzero()[0]
        return slots[at], at
