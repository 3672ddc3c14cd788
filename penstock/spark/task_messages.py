"""Messages to tasks and from tasks: plain data. All tasks of a piece of work get equal messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.engine import AppTransfer

__all__ = ["Bucket", "JobPlan", "Origin", "Piece", "SourceOffset", "TablePlan", "TaskReport"]


class Piece(msgspec.Struct, array_like=True, frozen=True):
    """A part of a file: `count` records from `offset` on (-1: to the end). `number` counts the records before it."""

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
    """The origin of records, as quarantine names it: a source, and the unit in which it counts records.

    With `offsets`, the place of a record is its offset. Otherwise places are counted from 0, and shown from 1 on.
    """

    source: str
    unit: str
    counted: bool = True
    offsets: bool = False

    def where(self, place: int) -> str:
        """Return a place as text for people."""
        if not self.counted:
            return self.unit
        return f"{self.unit} {place if self.offsets else place + 1}"


class SourceOffset(msgspec.Struct, array_like=True, frozen=True):
    """The offset that a source was read to."""

    source: str
    offset: int
    state: bytes


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The division of a table's documents: by `bits` bits of the hash of their keys, into buckets from `first` on."""

    number: int
    first: int
    bits: int
    ts_kind: str | None
    ordered: bool  # if false, bytes decide between equal ts

    @property
    def buckets(self) -> int:
        """Return the number of buckets."""
        return 1 << self.bits


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan of one backfill."""

    app: AppTransfer
    seed: int
    folder: str  # for the results of tasks
    tables: dict[str, TablePlan]
    views: dict[str, int]  # from name to number in the store
    origins: tuple[Origin, ...] = ()

    def table_of(self, bucket: int) -> str:
        """Return the table of a bucket."""
        for name, plan in self.tables.items():
            if plan.first <= bucket < plan.first + plan.buckets:
                return name
        raise AssertionError(f"bucket {bucket} is no table's")


class Bucket(msgspec.Struct, array_like=True):
    """Some records of one bucket: their content, and the place of each in the input."""

    major: bytes  # int64s: the source and its part
    minor: bytes  # int64s: the place in that part
    k0: bytes
    k1: bytes | None
    lines: list[bytes]  # empty for a deletion
    deletes: dict[int, tuple[bytes, Any]]  # from record to packed key and ts
    stamps: dict[int, Any]
    refused: list[tuple[int, int, str, str, bytes, int, Any]]  # place, reason, and received bytes
    source_offsets: list[SourceOffset]


class TaskReport(msgspec.Struct, array_like=True):
    """The result of a task: its file, and for each view the number of contributions in it, with a sample of groups."""

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
    source_offsets: list[SourceOffset] = []
    rows: dict[str, int] = {}
