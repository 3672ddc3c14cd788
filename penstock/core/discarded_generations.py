"""Databases of discarded generations: emptied in steps, once the feed no longer reaches back to them."""

from __future__ import annotations

from itertools import islice

import msgspec

from penstock.cache import META, Store, mark_of_log
from penstock.core.metadata.catalog import Catalog, write_catalog
from penstock.mapreduce import rows_db

__all__ = ["empty_trash", "forget_former"]

_EMPTIED = 1 << 10  # rows that one step deletes from a database
Written = tuple[Catalog, bytes]
"""A catalog, and its row in the store."""


def empty_trash(store: Store, catalog: Catalog) -> Written | None:
    """Take one step of emptying the first database of the trash. Return the changed catalog, or None.

    The mark of a table's log goes with the log.
    """
    db, *others = catalog.trash
    with store.write() as writer:
        keys = [key for key, _ in islice(writer.scan(db), _EMPTIED)]
        if len(keys) == _EMPTIED:
            writer.delete_many(db, keys)
            return None
        writer.clear(db)
        mark = mark_of_log(db)
        writer.delete_many(META, [] if mark is None else [mark])
        catalog = msgspec.structs.replace(catalog, trash=tuple(others), last=catalog.highest())
        return catalog, write_catalog(writer, catalog)


def forget_former(store: Store, catalog: Catalog, followed: int) -> Written | None:
    """Discard the generations that a feed from this position does not reach. Return None if there are none."""
    gone = [former for former in catalog.former if former.until <= followed]
    if not gone:
        return None
    trash = [*catalog.trash, *(rows_db(former.number) for former in gone if former.number)]
    left = tuple(former for former in catalog.former if former.until > followed)
    catalog = msgspec.structs.replace(catalog, former=left, trash=tuple(trash), last=catalog.highest())
    with store.write() as writer:
        return catalog, write_catalog(writer, catalog)
