"""Entries of quarantine as users see them: their kind, their id, and the outcome of a retry or a drop.

An entry is a rejected record, a held document or a held group. Its id stays the same as long as it is in quarantine.
The id of a record is "r" and its number. Other ids are "d" or "g" and a digest of the view and the key or group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b
from typing import Any

from penstock.cache import PenstockError, repr_by_fields, value_text

__all__ = ["EntryFilter", "Left", "QuarantineKind", "Quarantined", "Settled", "document_id", "group_id", "record_id"]

KEPT = 100
_DIGEST = 8


class QuarantineKind(Enum):
    """The kind of an entry.

    >>> [kind.value for kind in QuarantineKind]
    ['record', 'document', 'group']
    """

    RECORD = "record"
    """A rejected record: it changed nothing."""
    DOCUMENT = "document"
    """A held document: the view keeps its last good emission."""
    GROUP = "group"
    """A held group: its reducer fails, and the row keeps its last good result."""

    @classmethod
    def of(cls, kind: str | QuarantineKind | None) -> QuarantineKind | None:
        """Return the kind of this name. Raise PenstockError if there is none."""
        if kind is None or isinstance(kind, cls):
            return kind
        found = next((own for own in cls if isinstance(kind, str) and own.value == kind), None)
        if found is None:
            names = ", ".join(repr(own.value) for own in cls)
            raise PenstockError(f"there is no kind {value_text(kind)} in quarantine; the kinds are {names}")
        return found


def record_id(number: int, part: int | None = None) -> str:
    """Return the id of a rejected record, with the partition's number if each partition counts its own.

    >>> record_id(17), record_id(17, part=2)
    ('r17', 'r17@2')
    """
    return f"r{number}" if part is None else f"r{number}@{part}"


def document_id(view: str, stored: bytes) -> str:
    """Return the id of a held document, by its stored key."""
    return "d" + _digest(view, stored)


def group_id(view: str, stored: bytes) -> str:
    """Return the id of a held group, by its stored key."""
    return "g" + _digest(view, stored)


def _digest(view: str, stored: bytes) -> str:
    return blake2b(view.encode() + b"\0" + stored, digest_size=_DIGEST).hexdigest()


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One entry of quarantine. A field that does not apply to its kind is None.

    `key` is the key of the document, if the record has one, or the group. For a record, `data` has the received bytes;
    if a spout gave more than 128 MiB, it has the first of its `size` bytes. `document` is decoded from at most 16 MiB
    of them. For a held document, `document` is the current one, and `told` the emission that the view counts. `result`
    is the result of a held group. A `resting` document was dropped: the view ignores it until its next version.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with ps.open(app, None) as engine:
    ...     counts = engine.put_many("users", [b'{"id": 7}', b'{"name": "Sue"}'])
    ...     for entry in engine.quarantine():
    ...         print(entry.id, entry.source, entry.place, entry.reason)
    r0 put_many line 2 no key in field 'id': it is null
    """

    id: str
    kind: QuarantineKind
    table: str
    reason: str
    view: str | None = None
    key: Any = None
    source: str | None = None
    offset: int | None = None
    place: str | None = None
    ts: Any = None
    data: bytes | None = None
    size: int | None = None
    document: Any = None
    told: tuple[tuple[Any, Any], ...] | None = None
    result: Any = None
    traceback: str = ""
    resting: bool = False

    __repr__ = repr_by_fields


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A selection of entries: by ids, or by kind, table and view; `limit` is the largest number."""

    ids: frozenset[str] | None = None
    kind: QuarantineKind | None = None
    table: str | None = None
    view: str | None = None
    limit: int | None = None
    resting: bool = False

    @classmethod
    def of(
        cls,
        ids: str | Sequence[str] | None = None,
        kind: str | QuarantineKind | None = None,
        table: str | None = None,
        view: str | None = None,
        limit: int | None = None,
        resting: bool = False,
    ) -> EntryFilter:
        """Build the selection from the arguments of a call."""
        named = None if ids is None else frozenset([ids] if isinstance(ids, str) else ids)
        return cls(named, QuarantineKind.of(kind), table, view, limit, resting or named is not None)

    def asked(self) -> dict[str, Any]:
        """Return the selection as arguments of a call, in plain data."""
        kind = None if self.kind is None else self.kind.value
        ids = None if self.ids is None else sorted(self.ids)
        return {"ids": ids, "kind": kind, "table": self.table, "view": self.view, "limit": self.limit}

    @property
    def everything(self) -> bool:
        """Return True if the selection has no criterion."""
        return self.ids is None and self.kind is None and self.table is None and self.view is None

    def of_kind(self, kind: QuarantineKind) -> bool:
        """Return True if the selection can contain entries of this kind."""
        letter = kind.value[0]
        named = self.ids is None or any(own.startswith(letter) for own in self.ids)
        return named and (self.kind is None or self.kind is kind)

    def within(self, part: int) -> EntryFilter:
        """Return the selection for the records of one partition, with their ids in that partition."""
        if self.ids is None:
            return self
        end = f"@{part}"
        return replace(self, ids=frozenset(own.removesuffix(end) for own in self.ids if own.endswith(end)))

    def has(self, name: str) -> bool:
        """Return True if the selection allows this id."""
        return self.ids is None or name in self.ids


@dataclass(frozen=True, slots=True)
class Left:
    """An entry that stayed in quarantine, and the reason."""

    id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.id}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a retry or a drop. Outcomes can be added.

    `applied`, `equal` and `late` count accepted records; `released` counts documents and groups that are held no
    longer; `dropped` counts dropped entries. `left` counts entries that stayed, and `why` has the first hundred
    reasons.

    >>> print(Settled(applied=2, released=1) + Settled(left=1, why=(Left("r7", "no key in field 'id': it is null"),)))
    2 applied, 1 released, 1 left (r7: no key in field 'id': it is null)
    """

    applied: int = 0
    equal: int = 0
    late: int = 0
    released: int = 0
    dropped: int = 0
    left: int = 0
    why: tuple[Left, ...] = field(default=())

    @classmethod
    def of_left(cls, left: Sequence[Left]) -> Settled:
        """Return the outcome for entries that stayed."""
        return cls(left=len(left), why=tuple(left[:KEPT]))

    def data(self) -> list[Any]:
        """Return the outcome as plain data."""
        why = [[left.id, left.reason] for left in self.why]
        return [self.applied, self.equal, self.late, self.released, self.dropped, self.left, why]

    @classmethod
    def of_data(cls, data: list[Any]) -> Settled:
        """Build the outcome from plain data."""
        applied, equal, late, released, dropped, stayed, why = data
        return cls(applied, equal, late, released, dropped, stayed, tuple(Left(*left) for left in why))

    @property
    def entries(self) -> int:
        """Return the number of entries."""
        return self.applied + self.equal + self.late + self.released + self.dropped + self.left

    def __add__(self, other: Settled) -> Settled:
        return Settled(
            self.applied + other.applied,
            self.equal + other.equal,
            self.late + other.late,
            self.released + other.released,
            self.dropped + other.dropped,
            self.left + other.left,
            (self.why + other.why)[:KEPT],
        )

    def __str__(self) -> str:
        if not self.entries:
            return "nothing of that is in quarantine"
        names = ("applied", "equal", "late", "released", "dropped", "left")
        text = ", ".join(f"{n:,} {name}" for name in names if (n := getattr(self, name)))
        more = ", …" if self.left > 1 else ""
        return f"{text} ({self.why[0]}{more})" if self.why else text
