"""Read the pages of a data file without LMDB, which trusts each page that it follows.

LMDB keeps no checksums. A damaged page makes it read outside the file, or ends the process. This module checks each
value before it uses it. An error names the page, and no page can crash the process. Invariants of a sound tree:

- the nodes of a page fill it from `upper` to its end, without gaps and without overlaps;
- keys ascend, and lie between the separators of all pages above them;
- the counters in a tree's record match its pages;
- each page belongs to one tree, or is free.

A file belongs to one kind of machine: numbers have its byte order. Only 64-bit LMDB 0.9 is supported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from penstock.cache.lmdb.data_file import DATA
from penstock.cache.lmdb.lmdb_meta import NO_PAGE, Meta, PageDamaged, TooOld, Tree, chosen_meta, read_metas

__all__ = ["DATA", "FREE", "MAIN", "Extent", "ForeignFile", "Meta", "Page", "PageDamaged", "Pages", "TooOld", "Tree"]

MAIN, FREE = "the list of databases", "the free list"
_HEADER = Struct("=QHHHH")  # page number, pad, flags, lower, upper
_EXTENT = Struct("=QHHI")  # of an overflow page: page number, pad, flags, pages
_NODE = Struct("=HHHH")  # low and high half of the size or the page number, flags, size of the key
_TREE = Struct("=IHHQQQQQ")  # pad, flags, depth, branch, leaf and overflow pages, entries, root
_NUMBER = Struct("=Q")
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_BIG, _TREE_NODE = 1, 2
_METAS = 2
_MOST_DEPTH = 32
_MAX_KEY = 511


class ForeignFile(PageDamaged):
    """An LMDB file that is no store: it has rows outside of named databases, or databases of another kind."""


class Page(NamedTuple):
    """A branch or leaf page with checked nodes."""

    number: int
    leaf: bool
    keys: list[bytes]
    values: list[int | bytes | Extent | Tree]
    """Page numbers of a branch's children, or values of a leaf: bytes, an extent in overflow pages, or a tree."""


class Extent(NamedTuple):
    """A value in its own overflow pages: the first page, and the size of the value in bytes."""

    first: int
    size: int


class Pages:
    """The pages of the data file in a folder as of one transaction, as a context manager.

    `transaction` is that of an open snapshot, so LMDB does not reuse its pages. Without it, the newest transaction is
    read,
    and no writer may commit meanwhile.
    """

    def __init__(self, folder: str, transaction: int | None = None) -> None:
        self.folder = folder
        self.passed = 0  # pages that were walked
        self._freed = 0  # walked pages that the free list names
        self._file = os.open(os.path.join(folder, DATA), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._both = read_metas(self._file, folder)
            self.meta = chosen_meta(self._both, transaction)
        except BaseException:
            os.close(self._file)
            raise
        self._size = self.meta.page_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def check_newest(self) -> None:
        """Check that no damaged meta page makes an earlier commit the newest one.

        From the second commit on, the free list of each commit ends with a record under its own number.
        """
        chosen, number = self.meta, self._both.index(self.meta)
        other = self._both[1 - number]
        last = self._last_record(chosen)
        if last != chosen.transaction and (last or chosen.transaction > 1):
            reason = f"its meta page {number} is not of transaction {chosen.transaction}"
        elif other.transaction > chosen.transaction:
            return
        else:
            try:
                newer = self._last_record(other) == chosen.transaction + 1 or chosen.is_empty > other.is_empty
            except PageDamaged:
                return  # later commits may have reused the pages of the other meta page
            if not newer:
                return
            reason = f"its meta page {1 - number} is of a later transaction than it says"
        if read_metas(self._file, self.folder) != self._both:
            raise TooOld(chosen.transaction)  # a commit came in between
        raise PageDamaged(self.folder, reason)

    def _last_record(self, meta: Meta) -> int:
        """Return the last transaction number in the free list of a meta page, 0 for an empty list."""
        chosen, self.meta = self.meta, meta
        try:
            number = meta.free.root
            for _ in range(min(meta.free.depth, _MOST_DEPTH)):
                page = self.page(FREE, number)
                if page.leaf:
                    return int.from_bytes(page.keys[-1], sys.byteorder)
                child = page.values[-1]
                number = child if isinstance(child, int) else 0
            return 0
        finally:
            self.meta = chosen

    def page(self, db: str, number: int) -> Page:
        """Read a branch or leaf page, and check that each node lies within it."""
        size, raw = self._size, self._raw(db, number)
        own, pad, flags, lower, upper = _HEADER.unpack_from(raw, 0)
        n = (lower - _HEADER.size) >> 1
        if own != number or pad or flags not in (_BRANCH, _LEAF):
            raise PageDamaged(db, f"page {number} has a wrong header")
        if not _HEADER.size < lower <= upper <= size or lower & 1:
            raise PageDamaged(db, f"page {number} has wrong bounds")
        starts = Struct(f"={n}H").unpack_from(raw, _HEADER.size)
        keys: list[bytes] = []
        values: list[int | bytes | Extent | Tree] = []
        total = 0
        for at in starts:
            if at < upper or at + _NODE.size > size:
                raise PageDamaged(db, f"page {number} has a node outside of it")
            low, high, kind, width = _NODE.unpack_from(raw, at)
            begin = at + _NODE.size
            end = begin + width
            keys.append(raw[begin:end])
            if flags == _BRANCH:
                values.append(low | high << 16 | kind << 32)
            elif kind == _BIG:
                values.append(Extent(_NUMBER.unpack_from(raw, end)[0] if end + 8 <= size else 0, low | high << 16))
                end += _NUMBER.size
            else:
                begin, end = end, end + (low | high << 16)
                values.append(raw[begin:end] if kind == 0 else _tree(db, number, kind, raw[begin:end]))
            if end > size:
                raise PageDamaged(db, f"page {number} has a node that ends outside of it")
            total += end - at + ((end - at) & 1)
        if total != size - upper or len(set(starts)) != n:
            raise PageDamaged(db, f"page {number} has nodes that overlap, or a gap between them")
        return Page(number, flags == _LEAF, keys, values)

    def extent(self, db: str, extent: Extent) -> int:
        """Check the header of an extent, and return its number of pages."""
        pages = (_HEADER.size - 1 + extent.size) // self._size + 1
        if not _METAS <= extent.first <= self.meta.last + 1 - pages:
            raise PageDamaged(db, f"a value lies on page {extent.first}, which the file does not have")
        own, pad, flags, count = _EXTENT.unpack_from(self._raw(db, extent.first), 0)
        if (own, pad, flags, count) != (extent.first, 0, _OVERFLOW, pages):
            raise PageDamaged(db, f"page {extent.first} has a wrong header")
        return pages

    def value(self, extent: Extent) -> bytes:
        """Read the value in an extent."""
        return os.pread(self._file, extent.size, extent.first * self._size + _HEADER.size)

    def _raw(self, db: str, number: int) -> bytes:
        if not _METAS <= number <= self.meta.last:
            raise PageDamaged(db, f"page {number} is named, which the file does not have")
        raw = os.pread(self._file, self._size, number * self._size)
        if len(raw) != self._size:
            raise PageDamaged(db, f"page {number} is cut off")
        return raw

    def leaves(self, db: str, tree: Tree, seen: bytearray, ordered: bool = True) -> Iterator[Page]:
        """Yield the leaves of a tree in key order. Check each of its pages and mark it in `seen`.

        `ordered=False` is for the free list, whose keys are numbers.
        """
        if tree.root == NO_PAGE:
            if tree.pages or tree.entries or tree.depth:
                raise PageDamaged(db, "it has no pages, and counts some")
            return
        if tree.depth > _MOST_DEPTH:
            raise PageDamaged(db, f"it is {tree.depth} pages deep")
        counts = [0, 0, 0, 0]  # branches, leaves, overflow pages, entries
        before: bytes | None = None
        stack: list[tuple[int, int, bytes, bytes | None]] = [(tree.root, 1, b"", None)]
        while stack:
            number, depth, low, high = stack.pop()
            self._mark(db, number, 1, seen)
            page = self.page(db, number)
            if page.leaf != (depth == tree.depth):
                raise PageDamaged(db, f"page {number} is not as deep as its kind says")
            counts[page.leaf] += 1
            keys = page.keys if page.leaf else page.keys[1:]
            if ordered:
                first = before if page.leaf else None
                _check_keys(db, page, keys, first, low, high)
            if not page.leaf:
                lows, highs = [low, *keys], [*keys, high]
                below = zip(page.values, lows, highs, strict=True)
                stack += [(child, depth + 1, a, b) for child, a, b in below if isinstance(child, int)][::-1]
                continue
            before = keys[-1]
            counts[3] += len(keys)
            for value in page.values:
                if isinstance(value, Extent):
                    pages = self.extent(db, value)
                    self._mark(db, value.first, pages, seen)
                    counts[2] += pages
                elif isinstance(value, Tree) != (db == MAIN):
                    raise (ForeignFile if db == MAIN else PageDamaged)(db, f"page {number} has a node of another kind")
            yield page
        if counts != [tree.branches, tree.leaves, tree.overflow, tree.entries]:
            raise PageDamaged(db, "it has other pages and rows than its record counts")

    def _mark(self, db: str, number: int, pages: int, seen: bytearray) -> None:
        if any(seen[number : number + pages]):
            raise PageDamaged(db, f"page {number} is used twice")
        seen[number : number + pages] = b"\1" * pages
        self.passed += pages

    def databases(self, seen: bytearray) -> dict[str, Tree]:
        """Check the main tree, and return the trees of all databases by name."""
        out: dict[str, Tree] = {}
        for page in self.leaves(MAIN, self.meta.main, seen):
            for key, value in zip(page.keys, page.values, strict=True):
                if isinstance(value, Tree):
                    try:
                        out[key.decode()] = value
                    except UnicodeDecodeError as error:
                        raise PageDamaged(MAIN, f"page {page.number} has a name that is no text") from error
        return out

    def check_length(self) -> None:
        """Check that each page beyond the end of the file is free.

        LMDB never reads a free page, and may never write it.
        """
        size = os.fstat(self._file).st_size
        end = size // self._size
        if end > self.meta.last:
            return
        seen = self.new_marks()
        try:
            for _ in self.free(seen):
                pass
            if (used := seen.find(0, end)) >= 0:
                raise PageDamaged(DATA, f"page {used} is used")
        except PageDamaged as damage:
            reason = f"it was cut to {size} bytes of at most {(self.meta.last + 1) * self._size}, and {damage.reason}"
            raise PageDamaged(DATA, reason) from damage

    def free(self, seen: bytearray) -> Iterator[Page]:
        """Yield the leaves of the free list. The pages that it names are also marked in `seen`."""
        db, before, self._freed = FREE, 0, 0
        for page in self.leaves(db, self.meta.free, seen, ordered=False):
            for key, value in zip(page.keys, page.values, strict=True):
                number = _NUMBER.unpack(key)[0] if len(key) == _NUMBER.size else 0
                if not before < number <= self.meta.transaction:
                    raise PageDamaged(db, f"page {page.number} has a record of transaction {number}")
                before = number
                listed = _numbers(self.value(value) if isinstance(value, Extent) else value)
                if listed is None or (listed[:-1] <= listed[1:]).any():
                    raise PageDamaged(db, f"page {page.number} has a record that is no list of pages")
                if listed.size and not _METAS <= listed[-1] <= listed[0] <= self.meta.last:
                    raise PageDamaged(db, f"page {listed[0]} is named, which the file does not have")
                marks = np.frombuffer(seen, np.uint8)
                if (twice := listed[marks[listed] != 0]).size:
                    raise PageDamaged(db, f"page {twice[0]} is used twice")
                marks[listed] = 1
                self.passed += listed.size
                self._freed += listed.size
            yield page

    def check_count(self, trees: Iterable[Tree]) -> None:
        """Check that these trees and the walked free list have all pages, since LMDB appends new pages after the last
        one.
        """
        used = _METAS + sum(tree.pages for tree in (self.meta.main, self.meta.free, *trees)) + self._freed
        if used != self.meta.last + 1:
            raise PageDamaged(FREE, f"it and the databases have {used} pages of {self.meta.last + 1}")

    def new_marks(self) -> bytearray:
        """Return marks for all pages of the file, set for the meta pages only."""
        marks = bytearray(self.meta.last + 1)
        marks[:_METAS] = b"\1" * _METAS
        return marks


def _tree(db: str, number: int, kind: int, value: bytes) -> Tree:
    """Decode the record of a database. All databases of a store have plain keys."""
    if kind == _TREE_NODE and len(value) == _TREE.size:
        tree = Tree(*_TREE.unpack(value))
        if not (tree.flags or tree.pad):
            return tree
    raise (ForeignFile if db == MAIN else PageDamaged)(db, f"page {number} has a node of no known kind")


def _numbers(value: object) -> NDArray[np.uint64] | None:
    """Decode a record of the free list: the count of page numbers, then the numbers. Return None if it is invalid."""
    if not isinstance(value, bytes) or not value or len(value) % _NUMBER.size:
        return None
    numbers = np.frombuffer(value, np.uint64)
    return numbers[1:] if numbers[0] == numbers.size - 1 else None


def _check_keys(
    db: str, page: Page, keys: Sequence[bytes], before: bytes | None, low: bytes, high: bytes | None
) -> None:
    """Check that keys ascend and lie between the separators of the pages above."""
    if not keys:
        return
    if any(a >= b for a, b in pairwise(keys)) or (before is not None and keys[0] <= before):
        raise PageDamaged(db, f"page {page.number} has keys out of order")
    if keys[0] < low or (high is not None and keys[-1] >= high):
        raise PageDamaged(db, f"page {page.number} has keys that belong on another page")
    if not keys[0] or max(map(len, keys)) > _MAX_KEY:
        raise PageDamaged(db, f"page {page.number} has a key of no bytes, or of more than {_MAX_KEY}")
