"""Entries of quarantine as people see them: what is kept apart, under which id, and what became of it.

An entry is a record that was rejected, a document that a view can't take, or a group that a reducer fails on. Its id
stays the same for as long as it is there: "r" and the number of a record; "d" or "g" and a digest of the view and the
key or group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b
from typing import Any

from penstock.cache import PenstockError, repr_by_fields, shown

__all__ = ["Left", "QuarantineKind", "Quarantined", "Settled", "Wanted", "document_id", "group_id", "record_id"]

KEPT = 100
_DIGEST = 8


class QuarantineKind(Enum):
    """What an entry is.

    >>> [kind.value for kind in QuarantineKind]
    ['record', 'document', 'group']
    """

    RECORD = "record"
    """A record that could not be taken: it changed nothing."""
    DOCUMENT = "document"
    """A document that one view can't take: the view keeps what it was last told."""
    GROUP = "group"
    """A group that a reducer fails on: it stays at its last good result."""

    @classmethod
    def of(cls, kind: str | QuarantineKind | None) -> QuarantineKind | None:
        """The kind of this name; PenstockError if there is none."""
        if kind is None or isinstance(kind, cls):
            return kind
        found = next((own for own in cls if isinstance(kind, str) and own.value == kind), None)
        if found is None:
            names = ", ".join(repr(own.value) for own in cls)
            raise PenstockError(f"there is no kind {shown(kind)} in quarantine; the kinds are {names}")
        return found


def record_id(number: int, part: int | None = None) -> str:
    """The id of a rejected record; where each partition counts its own, with the number of the partition.

    >>> record_id(17), record_id(17, part=2)
    ('r17', 'r17@2')
    """
    return f"r{number}" if part is None else f"r{number}@{part}"


def document_id(view: str, stored: bytes) -> str:
    """The id of a document that a view holds, by its stored key."""
    return "d" + _digest(view, stored)


def group_id(view: str, stored: bytes) -> str:
    """The id of a group that is held, by its stored key."""
    return "g" + _digest(view, stored)


def _digest(view: str, stored: bytes) -> str:
    return blake2b(view.encode() + b"\0" + stored, digest_size=_DIGEST).hexdigest()


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One entry of quarantine; what does not apply to its kind is None.

    `key` is that of a document, as far as a record has one, or the group. Of a record `data` is what was received, or
    the beginning of its `size` bytes where a spout gave more than 128 MiB. Its `document` is that of these bytes, where
    they are one of at most 16 MiB; of a document that a view holds, it is the current one. `told` is what the view
    counts for it; `result` what a held group shows. A document that is `resting` was dropped: it is left alone until
    its next version.

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
class Wanted:
    """Which entries are meant: those with these ids, or all, of a kind, a table, a view; at most so many."""

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
    ) -> Wanted:
        """What a call asks for."""
        named = None if ids is None else frozenset([ids] if isinstance(ids, str) else ids)
        return cls(named, QuarantineKind.of(kind), table, view, limit, resting or named is not None)

    def asked(self) -> dict[str, Any]:
        """As the arguments of a call, which are plain data."""
        kind = None if self.kind is None else self.kind.value
        ids = None if self.ids is None else sorted(self.ids)
        return {"ids": ids, "kind": kind, "table": self.table, "view": self.view, "limit": self.limit}

    @property
    def everything(self) -> bool:
        """Whether nothing says which."""
        return self.ids is None and self.kind is None and self.table is None and self.view is None

    def of_kind(self, kind: QuarantineKind) -> bool:
        """Whether entries of this kind are among them."""
        letter = kind.value[0]
        named = self.ids is None or any(own.startswith(letter) for own in self.ids)
        return named and (self.kind is None or self.kind is kind)

    def within(self, part: int) -> Wanted:
        """The same of the records of one partition, by the ids that these have there."""
        if self.ids is None:
            return self
        end = f"@{part}"
        return replace(self, ids=frozenset(own.removesuffix(end) for own in self.ids if own.endswith(end)))

    def has(self, name: str) -> bool:
        """Whether the entry with this id is among them."""
        return self.ids is None or name in self.ids


@dataclass(frozen=True, slots=True)
class Left:
    """An entry that stayed, and why."""

    id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.id}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of entries that were retried or dropped; counts add up.

    `applied`, `equal` and `late` are records that were taken; `released` documents and groups that views show as they
    are; `dropped` entries that were let go. `left` stayed, the first hundred with why.

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
        """These stayed."""
        return cls(left=len(left), why=tuple(left[:KEPT]))

    def data(self) -> list[Any]:
        """As plain data."""
        why = [[left.id, left.reason] for left in self.why]
        return [self.applied, self.equal, self.late, self.released, self.dropped, self.left, why]

    @classmethod
    def of_data(cls, data: list[Any]) -> Settled:
        """Made of that data."""
        applied, equal, late, released, dropped, stayed, why = data
        return cls(applied, equal, late, released, dropped, stayed, tuple(Left(*left) for left in why))

    @property
    def entries(self) -> int:
        """How many entries there were."""
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
