"""Read a store's data file back, page by page and row by row, without trusting it.

The pages are first walked in Python. LMDB checks nothing, and a damaged page would crash the process. Then each row is
compared with its checksum. Invariant: memory is bounded for a file of any size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from penstock.cache.encoding.checksum import unseal
from penstock.cache.errors import StoreDamaged
from penstock.cache.lmdb.lmdb_page import Pages
from penstock.cache.lmdb.lmdb_store import open_lmdb
from penstock.cache.lmdb.page_scrub import Scrub
from penstock.cache.lmdb.read_snapshot import LmdbReader
from penstock.cache.log.segment import Segment

__all__ = ["Tell", "check_file"]

Tell = Callable[[str, int, int], None]
"""A progress callback: the step ("copying", "checking"), the bytes done, and all bytes."""
_BLOCK = 1 << 20
_TRIM = 64 << 20  # after this many bytes, mapped pages are released


def check_file(folder: str, counts: Mapping[str, int] | None, tell: Tell) -> None:
    """Check the data file in a folder. Raise StoreDamaged for the first fault.

    `counts` gives the expected number of rows of each database. With None the numbers are not compared.
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
    """Read the whole file in order, which is many times faster than page by page."""
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
    """Check the rows of one database. Yield the size of each checked row in bytes."""
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
