"""Conditions of a write, and numbered writes of a session: their errors, and the numbers of documents.

A condition on a key holds if the key has no document, or a document of this ts. Both are checked under the writer's
lock. So no other write comes between a check and its commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cache import DefinitionError, PenstockError, encode_key, key_text, normalise
from penstock.core.input.batches import Batch
from penstock.core.reading.document_facts import DocumentFacts
from penstock.core.reading.store_snapshot import Snapshot
from penstock.views import ABSENT, App, Counts, Table, reach

__all__ = [
    "ConditionFailed",
    "Conditions",
    "SessionGap",
    "WriteResult",
    "must_hold",
    "number_documents",
    "session_source",
]

Conditions = Mapping[str, Sequence[tuple[Any, Any]]]
"""The conditions of a write: by table, keys with the ts that each document must have, or ABSENT."""


class ConditionFailed(PenstockError):
    """A condition of a write does not hold, so nothing was written. `failed` has (key, wanted, found) as texts.

    >>> print(ConditionFailed("users", [["7", "no document", "a document of ts 3"]]))
    table 'users': key 7 has a document of ts 3, and the write needs no document; read it again, then repeat the write
    """

    def __init__(self, table: str, failed: Sequence[Sequence[str]]) -> None:
        super().__init__(table, failed)
        self.table = table
        self.failed = [tuple(own) for own in failed]

    def __str__(self) -> str:
        key, wanted, found = self.failed[0]
        more = f" ({len(self.failed)} conditions fail)" if len(self.failed) > 1 else ""
        return (
            f"table {self.table!r}: key {key} has {found}, and the write needs {wanted}{more}; "
            "read it again, then repeat the write"
        )


class SessionGap(PenstockError):
    """A numbered write does not follow the last one of its session, so nothing was written.

    >>> print(SessionGap("importer", 12, 10))
    session 'importer' has stored number 10, and this write begins with 12; send number 11 first
    """

    def __init__(self, session: str, number: int, upto: int) -> None:
        super().__init__(session, number, upto)
        self.session = session
        self.number = number
        self.upto = upto

    def __str__(self) -> str:
        return (
            f"session {self.session!r} has stored number {self.upto}, and this write begins with {self.number}; "
            f"send number {self.upto + 1} first"
        )


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The counts of a write; `upto` is the last number that its session has stored, and 0 without a session."""

    counts: Counts
    upto: int = 0


def session_source(session: str) -> str:
    """Return the source whose offsets number the documents of a session."""
    return f"session:{session}"


def number_documents(tables: Mapping[str, Sequence[Batch]], number: int) -> int:
    """Number the documents of a write from `number` on. Return the number after the last one."""
    for batches in tables.values():
        for batch in batches:
            numbers = range(number, number + batch.size)
            if batch.skips:  # blank lines, and refused records
                blank = set(batch.skips) - batch.refused.keys()
                places = range(batch.records.n + len(batch.skips))
                batch.run = dict(zip([place for place in places if place not in blank], numbers, strict=True))
            else:
                batch.run = numbers
            number += batch.size
    return number


def must_hold(app: App, snap: Snapshot, conditions: Conditions) -> None:
    """Raise ConditionFailed unless all conditions hold in a snapshot."""
    for name, wanted in conditions.items():
        table = app.table_of(name)
        failed = [own for key, ts in wanted if (own := _failure(table, snap, key, ts)) is not None]
        if failed:
            raise ConditionFailed(name, failed)


def _failure(table: Table, snap: Snapshot, key: Any, wanted: Any) -> list[str] | None:
    """Return the texts of a condition that does not hold: its key, the wanted state and the found one."""
    encode_key(key)  # a key of a wrong kind is an error, not an absent document
    if wanted is not ABSENT and not table.has_ts:
        raise DefinitionError(f"table {table.name!r} has no ts=, so a condition can only want that a key is absent")
    facts = snap.stored(table.name, key)
    found = ABSENT if facts is None or facts.document is None else _ts_of(table, facts)
    if found is wanted or (wanted is not ABSENT and found is not ABSENT and _same(found, wanted)):
        return None
    return [key_text(key), _text(table, wanted), _text(table, found)]


def _ts_of(table: Table, facts: DocumentFacts) -> Any:
    if facts.ts is not None or table.ts is None:
        return facts.ts
    return reach(facts.document, table.ts)


def _same(a: Any, b: Any) -> bool:
    a, b = normalise(a), normalise(b)
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _text(table: Table, ts: Any) -> str:
    if ts is ABSENT:
        return "no document"
    return f"a document of ts {key_text(ts)}" if table.has_ts else "a document"
