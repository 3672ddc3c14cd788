"""Reading a store's file back, page by page and row by row, without trusting it.

The pages are walked first, in Python: a damaged page must be found before LMDB follows it, for LMDB checks nothing and
would take the process along. Then each row is held against its CRC. Invariant: memory is bounded, whatever the size of
the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from penstock.cache.encoding.checksum import unseal
from penstock.cache.errors import StoreDamaged
from penstock.cache.lmdb.lmdb_page import Pages
from penstock.cache.lmdb.lmdb_snapshot import LmdbReader
from penstock.cache.lmdb.lmdb_store import open_lmdb
from penstock.cache.lmdb.page_scrub import Scrub
from penstock.cache.log.segment import Segment

__all__ = ["Tell", "check_file"]

Tell = Callable[[str, int, int], None]
"""Told what is being done ("copying", "checking"), how many bytes of it are, and of how many."""
_BLOCK = 1 << 20
_TRIM = 64 << 20  # bytes read after which mapped pages are given back


def check_file(folder: str, counts: Mapping[str, int] | None, tell: Tell) -> None:
    """Check the data file in a folder; StoreDamaged says what is wrong first.

    `counts` are the rows that each of its databases has to have, where that is known.
    """
    _read_through(os.path.join(folder, "data.mdb"))
    _check_pages(folder)
    store = open_lmdb(folder, readonly=True)
    try:
        with store.read() as snap:
            names, total, done = snap.names(), snap.used(), 0
            if counts is not None and {name: snap.count(name) for name in names} != counts:
                raise StoreDamaged(f"{folder}, whose rows are fewer or more than there were")
            trimmed = 0
            for name in names:
                for size in _check_rows(snap, name, folder):
                    done += size
                    tell("checking", min(done, total), total)
                    if done - trimmed > _TRIM:
                        trimmed = done
                        store.trim()
            tell("checking", total, total)
    finally:
        store.close()
        os.unlink(os.path.join(folder, "lock.mdb"))


def _read_through(file: str) -> None:
    """Have the system read all of it in order, which is many times faster than a page at a time."""
    with open(file, "rb", buffering=0) as read:
        while read.read(_BLOCK):
            pass


def _check_pages(folder: str) -> None:
    with Pages(folder) as pages:
        scrub = Scrub(pages)
        for _ in scrub.run():
            pass
    if scrub.found:
        first = scrub.found[0]
        raise first.of(f"{folder}, {first.db}")


def _check_rows(snap: LmdbReader, name: str, folder: str) -> Iterator[int]:
    """Check the rows of one database; the bytes of each, as they are checked."""
    where = f"{folder}, {name}"
    following: int | None = None
    for key, row in snap.scan(name):
        if name.startswith("log:"):
            base = int.from_bytes(key, "big")
            if following is not None and base != following:
                raise StoreDamaged(f"{where}, log entry {base} where {following} should follow")
            segment = Segment.parse(base, row, where)
            segment.lines(np.arange(len(segment)))
            following = base + len(segment)
        else:
            unseal(key, row, where)
        yield len(key) + len(row)
