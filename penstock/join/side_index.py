"""The side index: the stored entries of one side of a join, in pages that are written behind.

A transaction adds one row to the log of the index. The log is also in memory, as sorted runs. Between transactions it
is folded into the pages, step by step. A read joins pages and runs. Invariants:

- in every snapshot the pages with the log applied are the entries. A removal in the log wins over a page;
- the log stays whole until the last step of its fold. A fold that stops anywhere therefore changes no entry;
- memory belongs to the committed state, and is loaded at the first use. A snapshot needs an index of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.cache import Reader, Writer, record_key, seal, unseal, unseal_many
from penstock.join.conditions import Conditions
from penstock.join.entry_pages import changes_payload, page_keys, read_changes, read_pages
from penstock.join.page_fold import LEAST_PAGE, MOST, PAGES, fold_pages
from penstock.join.product import BLOCK
from penstock.join.side_entries import Entries, Ints, Positions, flat_places, in_order, places_within
from penstock.join.sorted_runs import EntryChanges, SortedRuns
from penstock.mapreduce import SourceKeys, Writes, view_dbs

__all__ = ["SideIndex", "SideKept", "join_dbs", "side_dbs", "side_log_db", "side_pages_db"]

LEAST_LOG = 1 << 17
"""Changes in the log below which it is not folded."""

_SHARE = 8  # a fold of a smaller share of the index would rewrite it too often
_MEAN = 110  # entries of a page, on average
_STEP = 1 << 13  # changes that one step folds
_FEW = 64  # condition values up to which pages are found one by one, while not all begins are known
_BUDGET = 64 << 20
_END = np.uint64((1 << 64) - 1)


def side_pages_db(number: int) -> str:
    """Return the name of the database of a side's pages."""
    return f"side:{number}"


def side_log_db(number: int) -> str:
    """Return the name of the database with the log of a side's changes."""
    return f"sidelog:{number}"


def side_dbs(number: int) -> list[str]:
    """Return the names of all databases of a side index."""
    return [side_pages_db(number), side_log_db(number)]


def join_dbs(number: int) -> list[str]:
    """Return the names of all databases that a join, or a side of one, may have."""
    return [*view_dbs(number), *side_dbs(number)]


@dataclass(slots=True)
class _Fold:
    """A fold in progress: its changes, the end of their log rows, and the number of changes folded so far."""

    changes: EntryChanges
    stop: int
    at: int = 0


@dataclass(slots=True)
class _Memory:
    """The log in memory, and the pages."""

    runs: SortedRuns
    first: int  # the number of the first log row
    stop: int  # the number of the next log row
    logged: int  # changes in these rows, except those of a fold in progress
    pages: int
    begins: Positions | None = None  # of all pages, once they are read
    fold: _Fold | None = None
    untended: int = 0  # changes since steps were last counted


class SideIndex:
    """The entries of one side, by condition value and document key."""

    def __init__(self, number: int, width: int) -> None:
        self.number = number
        self.width = width
        self.budget = _BUDGET
        self._pages, self._log = side_pages_db(number), side_log_db(number)
        self._memory: _Memory | None = None

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        own = self._memory
        if own is None:
            return 0
        folding = 0 if own.fold is None else own.fold.changes.nbytes
        return own.runs.nbytes + folding + (0 if own.begins is None else own.begins.nbytes)

    def forget(self) -> None:
        """Drop the memory. A fold in progress starts again."""
        self._memory = None

    def _load(self, reader: Reader) -> _Memory:
        """Return the memory; read the log if that has not happened yet."""
        if self._memory is None:
            runs, first, stop, logged = list[EntryChanges](), 0, 0, 0
            for key, row in reader.scan(self._log):
                changes = read_changes(unseal(key, row, self._log), self.width)
                stop = int.from_bytes(key, "big") + 1
                first = first if runs else stop - 1
                logged += len(changes)
                runs.append(changes)
            merged = SortedRuns([EntryChanges.last_of(runs)] if runs else [])
            self._memory = _Memory(merged, first, stop, logged, reader.count(self._pages))
        return self._memory

    def _begins(self, reader: Reader) -> Positions:
        """Return the positions where pages begin. The first is 0, with or without a row."""
        own = self._load(reader)
        if own.begins is None:
            raw = b"".join([key for key, _ in reader.scan(self._pages)])
            found = np.frombuffer(raw, ">u8").astype(np.uint64)
            own.begins = np.concatenate((np.zeros(1, np.uint64), found[found > 0]))
        return own.begins

    # -- reading

    def kept(self, reader: Reader, changed: Entries) -> SideKept:
        """Return the entries but the changed ones."""
        return SideKept(self, reader, changed)

    def read(
        self, reader: Reader, wanted: Conditions, changed: Entries | None = None
    ) -> Iterator[tuple[Ints, Entries]]:
        """Yield the entries with these condition values, but `changed`, in blocks with their indexes in `wanted`."""
        if not len(wanted):
            return
        for entries, changes in self._ranges(reader, wanted.low, wanted.high, changed):
            index = wanted.find(entries)
            own = index >= 0
            if changes is not None and len(changes):
                own[own] = changes.find(entries.take(own)) < 0
            if not own.all():
                index, entries = index[own], entries.take(own)
            for start in range(0, len(entries), BLOCK):
                yield index[start : start + BLOCK], entries.slice(start, start + BLOCK)

    def counts(self, reader: Reader, wanted: Conditions, changed: Entries | None = None) -> Ints:
        """Return the number of entries with each of these condition values; without `changed`."""
        out = np.zeros(len(wanted), np.int64)
        for index, _ in self.read(reader, wanted, changed):
            out += np.bincount(index, minlength=len(wanted))
        return out

    def most(self, reader: Reader, wanted: Conditions) -> Ints:
        """Return an upper bound of these numbers, without reading entries."""
        own, begins = self._load(reader), self._begins(reader)
        low, high = wanted.low, wanted.high
        pages = np.searchsorted(begins, high, "right") - np.searchsorted(begins, low, "right") + 1
        changes = own.runs.most(low, high)
        if own.fold is not None:
            changes += SortedRuns([own.fold.changes]).most(low, high)
        return changes + (MOST * pages if own.pages else 0)

    def find(self, reader: Reader, values: SourceKeys, keys: SourceKeys) -> tuple[Ints, Entries]:
        """Return the stored entries of these pairs of condition value and key, with the index of each pair."""
        asked = Entries.of(values, keys)
        order = in_order(asked)
        order = np.arange(len(asked)) if order is None else order
        pairs = EntryChanges(asked.take(order), np.zeros(len(asked), bool))
        found, index = [Entries.none(self.width)], [np.zeros(0, np.int64)]
        at = np.unique(asked.at)
        for entries, changes in self._ranges(reader, at, at, None) if at.size else ():
            place = pairs.find(entries)
            own = place >= 0
            if changes is not None and len(changes):
                own &= changes.find(entries) < 0
            found.append(entries.take(own))
            index.append(order[place[own]])
        return np.concatenate(index), Entries.join(found)

    def _ranges(
        self, reader: Reader, low: Positions, high: Positions, changed: Entries | None
    ) -> Iterator[tuple[Entries, EntryChanges | None]]:
        """Yield entries of these ranges: from the log, then from pages with the changes that win over them."""
        own = self._load(reader)
        if low.size > 1 and bool((low[1:] == low[:-1]).any()):
            low, high = np.unique(low), np.unique(high)
        parts = [] if own.fold is None else [own.fold.changes.within(low, high)]
        parts += own.runs.within(low, high)
        if changed is not None and len(changed):
            parts.append(EntryChanges.of(changed, Entries.none(self.width)))
        changes = EntryChanges.last_of(parts) if parts else EntryChanges.none(self.width)
        yield changes.put(), None
        for keys in self._addresses(reader, low, high) if own.pages else ():
            rows = unseal_many(keys, reader.get_many(self._pages, keys), self._pages)
            stored = read_pages([row for row in rows if row is not None], self.width)
            yield stored.take(places_within(stored.at, low, high)), changes

    def _addresses(self, reader: Reader, low: Positions, high: Positions) -> Iterator[list[bytes]]:
        """Yield the keys of the pages that cover these ranges, some at a time."""
        own = self._load(reader)
        if own.begins is None and low.size <= _FEW:
            yield from self._few_addresses(reader, low, high)
            return
        begins = self._begins(reader)
        first = np.searchsorted(begins, low, "right") - 1
        sizes = np.searchsorted(begins, high, "right") - first
        index = flat_places(first, sizes)
        index = index[np.concatenate(([True], index[1:] > index[:-1]))]
        for start in range(0, index.size, PAGES):
            yield page_keys(begins[index[start : start + PAGES]])

    def _few_addresses(self, reader: Reader, low: Positions, high: Positions) -> Iterator[list[bytes]]:
        """Find the pages one range after the other, while the begins of all pages are not known."""
        keys: list[bytes] = []
        last = b""
        for first, stop in zip(page_keys(low), page_keys(high), strict=True):
            floor = reader.floor(self._pages, first)
            if floor is not None and floor[0] > last:
                keys.append(floor[0])
            last = max(last, first)
            for key, _ in reader.scan(self._pages, last + b"\0", stop + b"\0"):
                if len(keys) == PAGES:
                    yield keys
                    keys = []
                keys.append(key)
            last = max(last, keys[-1] if keys else b"")
        if keys:
            yield keys

    def all(self, reader: Reader, begin: int = 0, most: int = BLOCK) -> Iterator[Entries]:
        """Yield the entries from a position on, in order of position, in blocks of about `most`.

        Entries of one position are in one block.
        """
        own = self._load(reader)
        begins = self._begins(reader)
        first = int(np.searchsorted(begins, np.uint64(begin), "right")) - 1
        pages = min(PAGES, 1 + most // LEAST_PAGE)
        edges = [*begins[first::pages].tolist(), 1 << 64]
        for i, (low, high) in enumerate(pairwise([max(begin, edges[0]), *edges[1:]])):
            keys = page_keys(begins[first + pages * i : first + pages * (i + 1)])
            rows = unseal_many(keys, reader.get_many(self._pages, keys), self._pages)
            stored = read_pages([row for row in rows if row is not None], self.width)
            span = np.array([low], np.uint64), np.array([high - 1], np.uint64)
            late = ([] if own.fold is None else [own.fold.changes.within(*span)]) + own.runs.within(*span)
            pages_of = stored.take(places_within(stored.at, *span))
            entries = EntryChanges.last_of([EntryChanges(pages_of, np.zeros(len(pages_of), bool)), *late]).put()
            start = 0
            while start < len(entries):
                stop = min(start + most, len(entries))
                if stop < len(entries):
                    stop = int(np.searchsorted(entries.at, entries.at[stop]))
                    stop = stop if stop > start else int(np.searchsorted(entries.at, entries.at[start], "right"))
                yield entries.slice(start, stop)
                start = stop

    # -- writing

    def stage(self, reader: Reader, minus: Entries, plus: Entries, writes: Writes) -> None:
        """Add the change of a transaction to its writes, once. Null condition values are not stored."""
        changes = EntryChanges.of(_stored(minus), _stored(plus))
        if not len(changes):
            return
        own = self._load(reader)
        key = record_key(own.stop)
        writes.put(self._log, [(key, seal(key, changes_payload(changes)))], new=[key])
        writes.after.append(lambda: self._logged(own, changes))

    @staticmethod
    def _logged(own: _Memory, changes: EntryChanges) -> None:
        own.runs.add(changes)
        own.stop += 1
        own.logged += len(changes)
        own.untended += len(changes)

    # -- between transactions

    @property
    def due(self) -> bool:
        """Return True if the log must be folded, or is being folded."""
        own = self._memory
        if own is None:
            return False
        most = max(LEAST_LOG, own.pages * _MEAN // _SHARE)
        return own.fold is not None or own.logged >= most or own.runs.nbytes > self.budget

    def fold_steps(self) -> int:
        """Return the number of steps that are due, so that a fold is faster than the log grows."""
        own = self._memory
        if own is None or not self.due:
            return 0
        steps, own.untended = 1 + 2 * own.untended // _STEP, 0
        return steps

    def fold_step(self, writer: Writer, steps: int = 1) -> Callable[[], None]:
        """Fold a part of the log into the pages. Call the result after the commit."""
        own = self._load(writer)
        begins = self._begins(writer)
        if own.fold is None:
            own.fold = _Fold(own.runs.merged(self.width), own.stop)
            own.runs, own.logged = SortedRuns(), 0
        fold = own.fold
        at, size = fold.at, len(fold.changes)
        stop = min(at + steps * _STEP, size)
        while at < stop:
            done = fold_pages(writer, self._pages, begins, fold.changes.slice(at, stop))
            begins, at = done.begins, at + done.changes
        if at == size:
            writer.delete_many(self._log, [record_key(number) for number in range(own.first, fold.stop)])
        pages = writer.count(self._pages)
        return lambda: self._folded(own, fold, begins, at, pages)

    @staticmethod
    def _folded(own: _Memory, fold: _Fold, begins: Positions, at: int, pages: int) -> None:
        own.begins, own.pages, fold.at = begins, pages, at
        if at == len(fold.changes):
            own.fold, own.first = None, fold.stop


def _stored(entries: Entries) -> Entries:
    null = entries.null()
    return entries if null is None else entries.take(~null)


@dataclass(slots=True)
class SideKept:
    """The entries of a side index that a transaction does not change."""

    index: SideIndex
    reader: Reader
    changed: Entries

    @property
    def width(self) -> int:
        """Return the number of fields of the projection."""
        return self.index.width

    def blocks(self, wanted: Conditions) -> Iterator[tuple[Ints, Entries]]:
        """Yield the entries with these condition values in blocks, with their indexes in `wanted`."""
        return self.index.read(self.reader, wanted, self.changed)

    def counts(self, wanted: Conditions) -> Ints:
        """Return the number of entries with each of these condition values."""
        return self.index.counts(self.reader, wanted, self.changed)

    def most(self, wanted: Conditions) -> Ints:
        """Return an upper bound for each of `counts`, without reading entries."""
        return self.index.most(self.reader, wanted)
