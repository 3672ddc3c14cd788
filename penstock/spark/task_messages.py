"""What tasks are told, and what they say back: plain data, the same for every task of a piece of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.engine import Shipped

__all__ = ["Bucket", "Layout", "Note", "Origin", "Piece", "Report", "TablePlan"]


class Piece(msgspec.Struct, array_like=True, frozen=True):
    """A part of a file: `count` records from an offset on, of which `number` come before; -1: all there are."""

    table: str
    path: str
    format: str | None
    delimiter: str | None
    offset: int = 0
    number: int = 0
    count: int = -1
    origin: int = 0
    nulls: tuple[str, ...] = ()


class Origin(msgspec.Struct, array_like=True, frozen=True):
    """Where records come from, as quarantine calls it: a source, and what its records are counted in, if they are.

    The places of records in it are counted from 0, and called from 1 on; or they are its `offsets`.
    """

    source: str
    unit: str
    counted: bool = True
    offsets: bool = False

    def where(self, place: int) -> str:
        """What people call a place."""
        if not self.counted:
            return self.unit
        return f"{self.unit} {place if self.offsets else place + 1}"


class Note(msgspec.Struct, array_like=True, frozen=True):
    """Where a source was read to."""

    source: str
    offset: int
    note: bytes


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How the documents of a table are parted: by so many bits of their keys' hash, in buckets from `first` on."""

    number: int
    first: int
    bits: int
    ts_kind: str | None
    ordered: bool  # where not, a source has no order, and bytes decide between equal ts

    @property
    def buckets(self) -> int:
        """How many buckets."""
        return 1 << self.bits


@dataclass(frozen=True, slots=True)
class Layout:
    """One piece of work."""

    app: Shipped
    seed: int
    folder: str  # where runs are put
    tables: dict[str, TablePlan]
    views: dict[str, int]  # by name the number in the store
    origins: tuple[Origin, ...] = ()

    def table_of(self, bucket: int) -> str:
        """The table of a bucket."""
        for name, plan in self.tables.items():
            if plan.first <= bucket < plan.first + plan.buckets:
                return name
        raise AssertionError(f"bucket {bucket} is no table's")


class Bucket(msgspec.Struct, array_like=True):
    """Some records of one bucket on their way to it: what is in each, and its place among all."""

    major: bytes  # int64s: which source, and which part of it
    minor: bytes  # int64s: the place there
    k0: bytes
    k1: bytes | None
    lines: list[bytes]  # nothing of a deletion
    deletes: dict[int, tuple[bytes, Any]]  # by record the packed key, and the ts
    stamps: dict[int, Any]
    refused: list[tuple[int, int, str, str, bytes, int, Any]]  # place, reason, and what was received
    notes: list[Note]


class Report(msgspec.Struct, array_like=True):
    """What a task did: its file, and by view how many contributions are in it, with some of their groups."""

    number: int
    path: str
    shares: dict[str, tuple[int, list[bytes]]]
    records: int = 0
    present: int = 0
    tombstones: int = 0
    rejected: int = 0
    ties: int = 0
    held: dict[str, int] = {}
    held_groups: dict[str, int] = {}
    ts_kind: str | None = None
    notes: list[Note] = []
    rows: dict[str, int] = {}
