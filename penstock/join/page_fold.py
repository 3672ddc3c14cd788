"""Fold changes of entries into the pages of a side index, some adjacent pages at a time.

The pages are known by the positions where they begin. The first page begins at 0, and has no row while it is empty.
Invariants:

- a page covers the positions from its begin to that of the next page, and its entries are sorted;
- a page keeps its begin while it has entries. A large one is cut, a small one joins the page before it;
- a fold of the same changes a second time leaves the same pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.cache import Writer, seal, unseal_many
from penstock.join.entry_pages import entry_bytes, page_keys, page_payloads, read_pages
from penstock.join.side_entries import Entries, Ints, Positions
from penstock.join.sorted_runs import EntryChanges

__all__ = ["LEAST_PAGE", "MOST", "PAGES", "FoldedPages", "fill_pages", "fold_pages"]

MOST = 160
"""Most entries of a page, unless more have one position."""

LEAST_PAGE = 40
"""Least number of entries at which a large page is cut."""

_BYTES = 4000  # LMDB stores a larger row in whole pages of 4,096 bytes; a page is just below one
_CHANGES = 1 << 14  # most changes that are folded together
PAGES = 1 << 9
"""Most pages that are in memory together."""


@dataclass(slots=True)
class FoldedPages:
    """The begins of all pages after a fold, and the number of changes that are folded."""

    begins: Positions
    changes: int


def fold_pages(writer: Writer, db: str, begins: Positions, changes: EntryChanges) -> FoldedPages:
    """Fold the first of these changes into their pages, as many as concern `PAGES` pages."""
    page = np.searchsorted(begins, changes.entries.at[:_CHANGES], "right") - 1
    touched = page[np.concatenate(([True], page[1:] != page[:-1]))][:PAGES]
    n = int(np.searchsorted(page, touched[-1], "right"))
    keys = page_keys(begins[touched])
    rows = unseal_many(keys, writer.get_many(db, keys), db)
    stored = [key for key, row in zip(keys, rows, strict=True) if row is not None]
    old = read_pages([row for row in rows if row is not None], changes.entries.width)
    merged = changes.slice(0, n).over(old)
    starts = np.searchsorted(merged.at, begins[touched])
    parts = _Parts.cut(merged, begins, touched, [*starts.tolist(), len(merged)])
    puts = page_keys(np.array(parts.begins, np.uint64))
    payloads = page_payloads(merged, parts.starts, parts.stops)
    if puts:
        known = set(stored)
        writer.put_many(
            db,
            [(key, seal(key, payload)) for key, payload in zip(puts, payloads, strict=True)],
            new=[key for key in puts if key not in known],
        )
    gone = sorted(set(stored).difference(puts))
    if gone:
        writer.delete_many(db, gone)
    if len(puts) == touched.size and not gone:  # no page was cut, and none went
        return FoldedPages(begins, n)
    stays = np.ones(begins.size, bool)
    stays[touched] = False
    every = np.sort(np.concatenate((begins[stays], np.array(parts.begins, np.uint64))), kind="stable")
    return FoldedPages(every if every.size and not every[0] else np.insert(every, 0, np.uint64(0)), n)


def fill_pages(writer: Writer, db: str, begin: int, entries: Entries) -> None:
    """Write sorted entries into pages, of which the first one begins at this position. There are none yet."""
    changes = EntryChanges(entries, np.zeros(len(entries), bool))
    begins, at = np.array([begin], np.uint64), 0
    while at < len(changes):
        done = fold_pages(writer, db, begins, changes.slice(at, len(changes)))
        begins, at = done.begins, at + done.changes


@dataclass(slots=True)
class _Parts:
    """The pages to write: where they begin, and their entries from start to stop."""

    begins: list[int]
    starts: list[int]
    stops: list[int]

    @classmethod
    def cut(cls, merged: Entries, begins: Positions, touched: Ints, edges: Sequence[int]) -> _Parts:
        """Cut the entries of the touched pages, which are those between the edges."""
        most = min(max(_BYTES // entry_bytes(merged), LEAST_PAGE), MOST)
        out = cls([], [], [])
        near = False  # the last part is of the page before
        last = -1
        listed = zip(touched.tolist(), begins[touched].tolist(), edges, edges[1:], strict=False)
        for page, begin, start, stop in listed:
            near = near and page == last + 1
            last = page
            size = stop - start
            if not size:
                continue
            if near and size < most // 4 and stop - out.starts[-1] <= most:
                out.stops[-1] = stop
            elif size <= most:
                out.add(begin, start, stop)
            else:
                out.split(merged.at, begin, start, stop, most)
            near = True
        return out

    def add(self, begin: int, start: int, stop: int) -> None:
        """Add a page."""
        self.begins.append(begin)
        self.starts.append(start)
        self.stops.append(stop)

    def split(self, at: Positions, begin: int, start: int, stop: int, most: int) -> None:
        """Cut a page into pages of two thirds of the limit. Entries of one position stay together."""
        parts = -(-3 * (stop - start) // (2 * most))
        for i in range(1, parts):
            cut = int(np.searchsorted(at, at[start + (stop - start) // (parts - i + 1)]))
            if cut > start:
                self.add(begin, start, cut)
                begin, start = int(at[cut]), cut
        self.add(begin, start, stop)
