"""The documents of a table, written behind: a log of segments, and an index folded from it in bounded steps.

A batch appends one segment in its own transaction and is durable with it. Folding writes for each key that changed
since only where its newest line stands; compacting copies the living lines of the oldest segments to the end.
Invariants:

- record numbers only grow; of two lines of one key the higher number is the newer, or its equal copy;
- the index names a line for every key with a record below `folded`. It has the newest version of the key, unless a line
  at or above `folded` has it. An opening applies the segments from `folded` on to the index, by their key lanes alone;
- only the last step of a fold deletes a segment, if the fold began after its living lines were copied. No row of the
  index names it then. A crash before that leaves lines without a name, and compaction passes over them later;
- a line counts as dead only by an index that has the keys of its digest: each pass over the log compares them first;
- a step is one transaction; memory changes only after a commit.
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
from penstock.cache.log.index_fold import Fold
from penstock.cache.log.key_cache import GONE, LOADED, PRESENT, RECORD, KeyCache
from penstock.cache.log.key_slots import Lane, Slots, key_hash
from penstock.cache.log.log_reader import Records, log_db, read_lines, record_key, runs_from, segments_from
from penstock.cache.log.segment import Segment, build_few, build_segment
from penstock.cache.store.protocol import META, Reader, Writer

_WORTH = 16  # one line in so many that is dead, or so many small segments, are worth compacting
_MOST_BYTES = 16 << 20  # of the lines that a step of compaction looks at
_NO_SLOTS: Slots = np.zeros(0, np.int64)
Carry = Callable[[Writer, Sequence[tuple[Segment, NDArray[np.int64]]], int], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """When work between batches begins, and how much of it is done at once."""

    few: int = 8  # records of a batch that are taken as plain values; columns are quicker for more. At most FEW
    fold_least: int = 1 << 17
    fold_most: int = 3 << 18
    fold_buckets: int = 64
    bucket: int | None = None  # keys a bucket of the index, on average at most
    space: float = 2.5
    entries: int = 1 << 13
    segment: int = 1 << 10


class LogMark(msgspec.Struct, array_like=True, frozen=True):
    """What the store says of a table's log: one row, written with every batch."""

    tail: int = 0  # the next record number
    folded: int = 0
    bits: int = 0
    doubling: bool = False
    present: int = 0
    tombstones: int = 0
    forgotten: int = 0  # how often tombstones were dropped: what was learnt of the log before that is not to be used


_decode_mark = msgspec.msgpack.Decoder(LogMark).decode


def index_db(table: int) -> str:
    """The database of a table's index."""
    return f"index:{table}"


def mark_key(table: int) -> bytes:
    """The key of a table's mark in `meta`."""
    return b"log:%d" % table


def mark_of_log(db: str) -> bytes | None:
    """The key of the mark of a table whose log is this database; None if it is no log."""
    kind, _, number = db.partition(":")
    return mark_key(int(number)) if kind == "log" else None


def read_mark(reader: Reader, table: int) -> LogMark:
    """The mark of a table's log."""
    key = mark_key(table)
    row = reader.get_many(META, [key])[0]
    return LogMark() if row is None else _decode_mark(unseal(key, row, META))


class DocLog:
    """The writer's side of one table's documents."""

    def __init__(self, table: int, tombstones: bool, capacity: int, limits: Limits) -> None:
        self.table = table
        self.tombstones = tombstones
        self.limits = limits
        self.mark = LogMark()
        self.keys = KeyCache(capacity)
        self._capacity = capacity
        self.complete = True  # memory holds every key there is
        self._fold: Fold | None = None
        self._owed = 0.0  # steps of folding
        self._checked: set[int] = set()
        self._head = 0  # the first record not yet compacted away
        self._compared = 0  # the record up to which compaction goes by an index that was compared with its digest
        self.halted = False  # the index lost rows, so that compaction would take living lines for dead ones
        self._entries = 0
        self._db, self._index = log_db(table), index_db(table)
        self.sides: list[str] = []  # databases with a row for each segment, which go with it

    # -- opening and dropping

    def open(self, reader: Reader) -> None:
        """Read the mark and lay the unfolded segments over the index."""
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
        """Drop what memory holds, but for what the index does not name yet; there is room for so many keys then."""
        fold, self._fold = self._fold, None
        room = max(room, self._capacity // 2)
        self.keys = self.keys.heir(None if fold is None else fold.slots, self._capacity, room)
        self.complete = False

    # -- reading

    def resolve(self, reader: Reader, k0: Lane, k1: Lane | None) -> tuple[Slots, Slots]:
        """The slot of each key, and those slots whose line must be read before they can be used."""
        keys = self.keys
        slots = keys.find_or_add(k0, k1)
        if self.mark.tail == 0:
            keys.state[slots] = LOADED
            return slots, slots[:0]
        state = keys.state[slots]
        raw = (state & LOADED == 0).nonzero()[0]
        if not raw.size:
            return slots, slots[:0]
        fresh = np.unique(slots[raw])
        if not self.tombstones:  # that there is no document is all that the line says, and it may be compacted away
            keys.state[fresh[keys.state[fresh] & GONE != 0]] |= LOADED
        unknown = fresh[keys.state[fresh] == 0]
        if unknown.size:
            self._ask_index(reader, unknown)
        return slots, fresh[keys.state[fresh] & LOADED == 0]

    def resolve_few(self, reader: Reader, keys: Sequence[tuple[int, int]]) -> tuple[list[int], Slots]:
        """The same for a handful of keys."""
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
        """The full record numbers of slots that have one."""
        last = self.mark.tail - 1
        return last - ((last - self.keys.record[slots].astype(np.int64)) & 0xFFFFFFFF)

    def lines(self, reader: Reader, slots: Slots) -> list[bytes]:
        """The newest lines of slots that have a record."""
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
        """Add a segment and the mark to the transaction; `change` is of (documents, tombstones)."""
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
        """The same for a handful of lines; `keys` are their lanes."""
        segment = build_few(self.mark.tail, lines, keys, self.keys.map.lane1 is not None, gone)
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
        """The transaction is committed: remember where the lines stand."""
        base, self.mark = self.mark.tail, mark
        if not slots.size:
            return
        state = np.full(slots.size, PRESENT | LOADED | RECORD, np.uint8)
        if gone is not None:
            state[gone] = GONE | LOADED | RECORD
        self.keys.put(slots, np.arange(base, base + slots.size), state)
        self._entries += 1

    def appended_few(self, mark: LogMark, slots: list[int], gone: Sequence[bool] | None) -> None:
        """The same for a handful of lines."""
        base, self.mark = self.mark.tail, mark
        here, absent = PRESENT | LOADED | RECORD, GONE | LOADED | RECORD
        self.keys.put_few(slots, base, [here] * len(slots) if gone is None else [absent if g else here for g in gone])
        self._entries += 1

    def put_mark(self, writer: Writer, mark: LogMark) -> None:
        """Write the mark, within a transaction."""
        key = mark_key(self.table)
        writer.put_many(META, [(key, seal(key, msgspec.msgpack.encode(mark)))])

    # -- work between batches

    def fold_steps(self, n: int) -> int:
        """How many steps of folding a batch of n documents owes, so that a fold ends before the next one is due.

        A fold that is due begins here, by putting its keys in order; its steps are for the batches after this one.
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
        return min(wanted, max(1, self._capacity // 4))  # what is not folded can't be forgotten

    def _fold_due(self) -> bool:
        return self.keys.dirty_count >= self._fold_every()

    def fold_step(self, writer: Writer, steps: int = 1) -> Callable[[], None]:
        """Write the next parts of the index; the answer is to be called after the commit."""
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
        """Whether a fold is under way."""
        return self._fold is not None

    def _begin_fold(self) -> Fold:
        wanted = hash_index.bits_for(self.mark.present + self.mark.tombstones, self.limits.bucket)
        bits, doubling = self.mark.bits or wanted, self.mark.doubling
        if wanted > bits and not doubling:
            bits, doubling = bits + 1, True
        self._fold = Fold.begin(self.keys, bits, doubling, self.mark.tail, self._head, self.limits.fold_buckets)
        return self._fold

    def _release(self, writer: Writer, release: int) -> None:
        keys = [k for k, _ in writer.scan(self._db, b"", record_key(release))]
        if keys:
            for db in (self._db, *self.sides):
                writer.delete_many(db, keys)
            self._checked.clear()

    @property
    def head(self) -> int:
        """The first record that is not compacted away."""
        return self._head

    def compact_worth(self) -> bool:
        """Whether compacting all of it would give something back."""
        held = self.mark.tail - self._head
        garbage = held - self.mark.present - self.mark.tombstones
        return garbage * _WORTH > held or self._entries > _WORTH + held // self.limits.segment

    def compact_due(self) -> bool:
        limits, entries, held = self.limits, self._entries, self.mark.tail - self._head
        living = max(self.mark.present + self.mark.tombstones, limits.fold_least)
        return not self.halted and (held > limits.space * living or entries > limits.entries + held // 256)

    def compact_step(self, writer: Writer, n: int, carry: Carry, asked: bool = False) -> Callable[[], None] | None:
        """Copy the living lines of the oldest segments to the end, passing over about n records; None if not due.

        It is always due where it is `asked` for. Lines of one step are bounded as those of a batch are.
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
        """Once for each pass over the log, refuse an index that lost rows: it makes living lines look dead."""
        if self._head >= self._compared or self.halted:
            self.halted, self._compared = writer.lost_rows(self._index), self.mark.tail
        if self.halted:
            raise StoreDamaged(f"{self._index}, rows were lost or added, so that compaction would delete documents")

    def newest(self, reader: Reader, k0: Lane, k1: Lane | None, records: Records) -> tuple[Slots, NDArray[np.bool_]]:
        """The slots of these keys, and whether these records are the newest of them."""
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
        """Which lines of a segment are the newest of their keys: their slots, and their places in it."""
        slots, living = self.newest(reader, segment.k0, segment.k1, segment.base + np.arange(len(segment)))
        if not self.tombstones and segment.gone is not None:
            settled = segment.gone & (segment.base + len(segment) <= self.mark.folded)
            living &= ~settled  # the index has dropped the key: nothing needs the line any more
        at = living.nonzero()[0]
        return slots[at], at
