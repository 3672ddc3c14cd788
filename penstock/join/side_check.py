"""Check the pages of a side index, and compute the digest of its entries."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from penstock.cache import Reader, canonical, unseal
from penstock.join.entry_pages import read_pages
from penstock.join.side_entries import Entries, positions_of, same_entries
from penstock.join.side_index import SideIndex, side_pages_db

__all__ = ["check_side", "side_digest"]

_BITS = 256


def side_digest(index: SideIndex, reader: Reader) -> int:
    """Return the sum of the hashes of all entries. Pages, log and order have no part in it."""
    total = 0
    for entries in index.all(reader):
        for entry in entries.listed():
            total += int.from_bytes(blake2b(canonical(list(entry)), digest_size=_BITS // 8).digest(), "big")
    return total % (1 << _BITS)


def check_side(index: SideIndex, reader: Reader) -> Iterator[str]:
    """Yield the faults of the pages of a side index. A damaged row raises StoreDamaged."""
    db = side_pages_db(index.number)
    before: tuple[bytes, Entries] | None = None
    for key, row in reader.scan(db):
        entries = read_pages([unseal(key, row, db)], index.width)
        where = f"page {key.hex()} of side index {index.number}"
        begin = np.uint64(int.from_bytes(key, "big"))
        if not len(entries):
            yield f"{where} has no entries"
            continue
        if entries.at[0] < begin:
            yield f"{where} has an entry before its begin"
        if before is not None and before[1].at[-1] >= begin:
            yield f"page {before[0].hex()} of side index {index.number} has an entry after its end"
        if not bool((entries.at == positions_of(entries.values(), entries.keys())).all()):
            yield f"{where} has an entry with the position of another"
        if not _ascends(entries):
            yield f"{where} has entries out of order"
        if entries.null() is not None:
            yield f"{where} has an entry with a null condition value"
        before = key, entries


def _ascends(entries: Entries) -> bool:
    """Return True if the entries are sorted by position and distinct."""
    if bool((entries.at[1:] < entries.at[:-1]).any()):
        return False
    tie = np.flatnonzero(entries.at[1:] == entries.at[:-1])
    return not bool(same_entries(entries, tie, entries, tie + 1).any())
