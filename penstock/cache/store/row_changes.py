"""The changes of rows that several transactions made to one database, as one set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.cache.store.protocol import Writer

__all__ = ["RowChanges", "apply_changes"]


class RowChanges(NamedTuple):
    """The changes to a database: it is emptied if `cleared`, then loses the `deleted` rows, and gets `rows`.

    Keys ascend, and no key is both deleted and put.
    """

    db: str
    cleared: bool
    deleted: list[bytes]
    rows: list[tuple[bytes, bytes]]


def apply_changes(writer: Writer, changes: Iterable[RowChanges]) -> None:
    """Make these changes within a transaction. To make them twice gives the same rows as once."""
    for db, cleared, deleted, rows in changes:
        if cleared:
            writer.clear(db)
        if deleted:
            writer.delete_many(db, deleted)
        if rows:
            last = next(writer.scan(db, reverse=True), None)
            writer.put_many(db, rows, append=last is None or last[0] < rows[0][0])
