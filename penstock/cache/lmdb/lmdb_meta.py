"""Read the meta pages of a data file. Each is the state after one of the last two commits.

LMDB uses the page with the greater transaction number, and checks little of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from penstock.cache.errors import StoreDamaged
from penstock.cache.lmdb.address_space import LARGEST

__all__ = ["NO_PAGE", "Meta", "PageDamaged", "TooOld", "Tree", "check_last", "chosen_meta", "read_metas"]

NO_PAGE = (1 << 64) - 1
_STEP = "restore the store from a copy, or load its documents into a new path"
_HEADER = Struct("=QHHHH")  # page number, pad, flags, lower, upper
_TREE = Struct("=IHHQQQQQ")  # pad, flags, depth, branch, leaf and overflow pages, entries, root
_META = Struct("=IIQQ")  # magic, version, address, map size
_NUMBER = Struct("=Q")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_IS_META = 8
_INTEGER_KEYS = 8


class PageDamaged(StoreDamaged):
    """LMDB must not follow this page. `where` names the database and the page.

    >>> print(PageDamaged("view:3", "page 17 is cut off"))
    damaged row: view:3, page 17 is cut off; restore the store from a copy, or load its documents into a new path
    """

    def __init__(self, db: str, reason: str) -> None:
        super().__init__(f"{db}, {reason}", None, _STEP)
        self.args = (db, reason)
        self.db, self.reason = db, reason

    def of(self, place: str) -> PageDamaged:
        """Return the same damage with this name for its database."""
        return PageDamaged(place, self.reason)


class TooOld(Exception):
    """The file has no meta page of the snapshot, because two transactions were committed since.

    Take another snapshot.
    """


class Tree(NamedTuple):
    """The record of a database: the root of its tree, and counters."""

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
        """Return the number of its pages."""
        return self.branches + self.leaves + self.overflow


@dataclass(frozen=True, slots=True)
class Meta:
    """A meta page: the state of the file after one transaction."""

    transaction: int
    last: int
    page_size: int
    free: Tree
    main: Tree

    @property
    def is_empty(self) -> bool:
        """Return whether the store has no database."""
        return self.main.root == NO_PAGE


def check_last(folder: str, number: int, last: int, size: int) -> None:
    """Check that a map can hold the last page that a meta page names: LMDB maps all pages before it reads one."""
    if last * size > LARGEST:
        raise PageDamaged(folder, f"meta page {number} says that page {last} is the last one")


def read_metas(file: int, folder: str) -> list[Meta]:
    """Read and check both meta pages of the open data file in a folder."""
    first = _read_meta(file, folder, 0, 0)
    both = [first, _read_meta(file, folder, 1, first.page_size)]
    if both[0].page_size != both[1].page_size:
        raise PageDamaged(folder, "its meta pages have different page sizes")
    return both


def _read_meta(file: int, folder: str, number: int, at: int) -> Meta:
    raw = os.pread(file, _HEADER.size + _META.size + 2 * _TREE.size + 2 * _NUMBER.size, at)
    name = f"meta page {number}"
    try:
        own, _, flags, _, _ = _HEADER.unpack_from(raw, 0)
        magic, version, _, _ = _META.unpack_from(raw, _HEADER.size)
        trees = [Tree(*_TREE.unpack_from(raw, _HEADER.size + _META.size + i * _TREE.size)) for i in range(2)]
        end = _HEADER.size + _META.size + 2 * _TREE.size
        last, transaction = _NUMBER.unpack_from(raw, end)[0], _NUMBER.unpack_from(raw, end + _NUMBER.size)[0]
    except Exception as error:  # struct.error has no narrower type
        raise PageDamaged(folder, f"{name} is cut off") from error
    size = trees[0].pad
    if (own, flags, magic, version) != (number, _IS_META, _MAGIC, _VERSION):
        raise PageDamaged(folder, f"{name} has a wrong header")
    if size & (size - 1) or not 512 <= size <= 1 << 15:
        raise PageDamaged(folder, f"{name} has the page size {size}")
    if transaction and transaction & 1 != number:
        raise PageDamaged(folder, f"{name} is of transaction {transaction}, which the other one holds")
    if trees[0].flags != _INTEGER_KEYS or trees[1].flags or trees[1].pad:
        raise PageDamaged(folder, f"{name} has flags of no store")
    check_last(folder, number, last, size)
    return Meta(transaction, last, size, *trees)


def chosen_meta(both: list[Meta], transaction: int | None) -> Meta:
    """Return the meta page of a transaction, or of the newest one if none is given."""
    if transaction is None:
        return max(both, key=lambda meta: meta.transaction)
    for meta in both:
        if meta.transaction == transaction:
            return meta
    raise TooOld(transaction)
