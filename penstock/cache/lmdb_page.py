"""The pages of a data file, read without LMDB, which trusts each page that it follows.

LMDB keeps no checksums. A damaged page makes it read outside the file, or end the process. So what this module reads is
checked before it is used: an error names the page, and nothing here can crash. Invariants that a sound tree meets:

- the nodes of a page fill it from `upper` to its end, without a gap and without an overlap;
- keys ascend, and lie between the separators of all pages above them;
- the counters of a tree's record are those of its pages;
- each page belongs to one tree, or is free.

A file is of one machine: numbers have its byte order. Only 64-bit LMDB 0.9 is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import NamedTuple, Self

from penstock.cache.data_file import DATA
from penstock.cache.errors import StoreDamaged

__all__ = ["DATA", "FREE", "MAIN", "Extent", "ForeignFile", "Meta", "Page", "PageDamaged", "Pages", "TooOld", "Tree"]

MAIN, FREE = "the list of databases", "the free list"
_STEP = "restore the store from a copy, or load its documents into a new path"
_HEADER = Struct("=QHHHH")  # page number, pad, flags, lower, upper
_EXTENT = Struct("=QHHI")  # page number, pad, flags, pages: of an overflow page
_NODE = Struct("=HHHH")  # low and high half of the size, or of the page number, flags, size of the key
_TREE = Struct("=IHHQQQQQ")  # pad, flags, depth, branch, leaf and overflow pages, entries, root
_META = Struct("=IIQQ")  # magic, version, address, map size
_NUMBER = Struct("=Q")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _IS_META = 1, 2, 4, 8
_BIG, _TREE_NODE = 1, 2
_METAS = 2
_NO_PAGE = (1 << 64) - 1
_INTEGER_KEYS = 8
_MOST_DEPTH = 32
_MAX_KEY = 511


class PageDamaged(StoreDamaged):
    """A page that LMDB must not follow; `where` names the database and the page.

    >>> print(PageDamaged("view:3", "page 17 is cut off"))
    damaged row: view:3, page 17 is cut off; restore the store from a copy, or load its documents into a new path
    """

    def __init__(self, db: str, reason: str) -> None:
        super().__init__(f"{db}, {reason}", None, _STEP)
        self.args = (db, reason)
        self.db, self.reason = db, reason

    def of(self, place: str) -> PageDamaged:
        """The same damage, its database called so."""
        return PageDamaged(place, self.reason)


class TooOld(Exception):
    """Two transactions were committed since the snapshot began, so the file has no meta page of it: take another."""


class ForeignFile(PageDamaged):
    """A file with rows outside of named databases, or databases of another kind: LMDB's, and no store."""


class Tree(NamedTuple):
    """The record of a database: its tree, and the counts of it."""

    pad: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflow: int
    entries: int
    root: int

    @property
    def pages(self) -> int:
        """The pages that it takes."""
        return self.branches + self.leaves + self.overflow


@dataclass(frozen=True, slots=True)
class Meta:
    """A meta page: the state of the file after one transaction."""

    transaction: int
    last: int
    page_size: int
    free: Tree
    main: Tree


class Page(NamedTuple):
    """A branch or leaf page whose nodes were checked."""

    number: int
    leaf: bool
    keys: list[bytes]
    values: list[int | bytes | Extent | Tree]
    """Of a branch the page numbers of its children; of a leaf the values: bytes, the extent where they lie, a tree."""


class Extent(NamedTuple):
    """A value in overflow pages of its own: the first one, and the bytes of the value."""

    first: int
    size: int


class Pages:
    """The pages of the data file in a folder, as of one transaction; a context manager.

    `transaction` is that of an open snapshot, so that LMDB uses none of its pages again. Without it, it is the newest
    one, and nobody may write meanwhile.
    """

    def __init__(self, folder: str, transaction: int | None = None) -> None:
        self.folder = folder
        self.passed = 0  # pages that were walked
        self._file = os.open(os.path.join(folder, DATA), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.meta = self._meta(transaction)
        except BaseException:
            os.close(self._file)
            raise
        self._size = self.meta.page_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def _meta(self, transaction: int | None) -> Meta:
        first = self._read_meta(0, 0)
        both = [first, self._read_meta(1, first.page_size)]
        if both[0].page_size != both[1].page_size:
            raise PageDamaged(self.folder, "its meta pages have different page sizes")
        newest = max(both, key=lambda meta: meta.transaction)
        if transaction is None:
            return newest
        for meta in both:
            if meta.transaction == transaction:
                return meta
        raise TooOld(transaction)

    def _read_meta(self, number: int, at: int) -> Meta:
        raw = os.pread(self._file, _HEADER.size + _META.size + 2 * _TREE.size + 2 * _NUMBER.size, at)
        name = f"meta page {number}"
        try:
            own, _, flags, _, _ = _HEADER.unpack_from(raw, 0)
            magic, version, _, _ = _META.unpack_from(raw, _HEADER.size)
            trees = [Tree(*_TREE.unpack_from(raw, _HEADER.size + _META.size + i * _TREE.size)) for i in range(2)]
            end = _HEADER.size + _META.size + 2 * _TREE.size
            last, transaction = _NUMBER.unpack_from(raw, end)[0], _NUMBER.unpack_from(raw, end + _NUMBER.size)[0]
        except Exception as error:  # struct.error has no better name
            raise PageDamaged(self.folder, f"{name} is cut off") from error
        size = trees[0].pad
        if (own, flags, magic, version) != (number, _IS_META, _MAGIC, _VERSION):
            raise PageDamaged(self.folder, f"{name} has a wrong header")
        if size & (size - 1) or not 512 <= size <= 1 << 15:
            raise PageDamaged(self.folder, f"{name} has the page size {size}")
        if transaction and transaction & 1 != number:
            raise PageDamaged(self.folder, f"{name} is of transaction {transaction}, which the other one holds")
        if trees[0].flags != _INTEGER_KEYS or trees[1].flags or trees[1].pad:
            raise PageDamaged(self.folder, f"{name} has flags of no store")
        return Meta(transaction, last, size, *trees)

    def page(self, db: str, number: int) -> Page:
        """A branch or leaf page, each node of which lies within it."""
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
        """How many pages an extent takes, whose header says the same."""
        pages = (_HEADER.size - 1 + extent.size) // self._size + 1
        if not _METAS <= extent.first <= self.meta.last + 1 - pages:
            raise PageDamaged(db, f"a value lies on page {extent.first}, which the file does not have")
        own, pad, flags, count = _EXTENT.unpack_from(self._raw(db, extent.first), 0)
        if (own, pad, flags, count) != (extent.first, 0, _OVERFLOW, pages):
            raise PageDamaged(db, f"page {extent.first} has a wrong header")
        return pages

    def value(self, extent: Extent) -> bytes:
        """The value in an extent."""
        return os.pread(self._file, extent.size, extent.first * self._size + _HEADER.size)

    def _raw(self, db: str, number: int) -> bytes:
        if not _METAS <= number <= self.meta.last:
            raise PageDamaged(db, f"page {number} is named, which the file does not have")
        raw = os.pread(self._file, self._size, number * self._size)
        if len(raw) != self._size:
            raise PageDamaged(db, f"page {number} is cut off")
        return raw

    def leaves(self, db: str, tree: Tree, seen: bytearray, ordered: bool = True) -> Iterator[Page]:
        """The leaves of a tree in the order of their keys, every page of it checked and marked in `seen`.

        `ordered=False` is for the free list, whose keys are numbers.
        """
        if tree.root == _NO_PAGE:
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
        """The trees of all databases by name, from the main tree, whose pages are checked."""
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
        """Check that each page beyond the end of the file is free: LMDB reads none of these, and may never write it."""
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
            why = f"it was cut to {size} bytes of at most {(self.meta.last + 1) * self._size}, and {damage.reason}"
            raise PageDamaged(DATA, why) from damage

    def free(self, seen: bytearray) -> Iterator[Page]:
        """The leaves of the free list; the pages that it names are marked in `seen` as well."""
        db, before = FREE, 0
        for page in self.leaves(db, self.meta.free, seen, ordered=False):
            for key, value in zip(page.keys, page.values, strict=True):
                number = _NUMBER.unpack(key)[0] if len(key) == _NUMBER.size else 0
                if not before < number <= self.meta.transaction:
                    raise PageDamaged(db, f"page {page.number} has a record of transaction {number}")
                before = number
                listed = _numbers(self.value(value) if isinstance(value, Extent) else value)
                if listed is None or any(a <= b for a, b in pairwise(listed)):
                    raise PageDamaged(db, f"page {page.number} has a record that is no list of pages")
                for one in listed:
                    if not _METAS <= one <= self.meta.last:
                        raise PageDamaged(db, f"page {one} is named, which the file does not have")
                    self._mark(db, one, 1, seen)
            yield page

    def new_marks(self) -> bytearray:
        """Marks for the pages of the file, none of them set but those of the meta pages."""
        marks = bytearray(self.meta.last + 1)
        marks[:_METAS] = b"\1" * _METAS
        return marks


def _tree(db: str, number: int, kind: int, value: bytes) -> Tree:
    """The record of a database that a value is; all databases of a store have plain keys."""
    if kind == _TREE_NODE and len(value) == _TREE.size:
        tree = Tree(*_TREE.unpack(value))
        if not (tree.flags or tree.pad):
            return tree
    raise (ForeignFile if db == MAIN else PageDamaged)(db, f"page {number} has a node of no known kind")


def _numbers(value: object) -> Sequence[int] | None:
    """The page numbers of a record of the free list: their count, then the numbers."""
    if not isinstance(value, bytes):
        return None
    n, odd = divmod(len(value), _NUMBER.size)
    if odd or not n:
        return None
    count, *listed = Struct(f"={n}Q").unpack(value)
    return listed if count == len(listed) else None


def _check_keys(
    db: str, page: Page, keys: Sequence[bytes], before: bytes | None, low: bytes, high: bytes | None
) -> None:
    """That keys ascend, and lie where the pages above say."""
    if not keys:
        return
    if any(a >= b for a, b in pairwise(keys)) or (before is not None and keys[0] <= before):
        raise PageDamaged(db, f"page {page.number} has keys out of order")
    if keys[0] < low or (high is not None and keys[-1] >= high):
        raise PageDamaged(db, f"page {page.number} has keys that belong on another page")
    if not keys[0] or max(map(len, keys)) > _MAX_KEY:
        raise PageDamaged(db, f"page {page.number} has a key of no bytes, or of more than {_MAX_KEY}")
