"""The intake of a batch: decode the records, compute their keys and stamps, and reject bad records.

A batch has documents as lines and deletions by key, in one order. The intake returns rejected records with a reason,
and the accepted records as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Lane, Slots
from penstock.gateway.versions.version_stamps import Ints, Stamps, kind_of, stamps_of, unpaired
from penstock.gateway.versions.winners import StoredVersions
from penstock.mapreduce import DecodedColumns, Decoder, Spaces, key_lanes
from penstock.views import Merge, Table

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Ahead = Callable[[Spaces], DecodedColumns | None]
REJECTED = 255  # the outcome of a rejected record


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion: the key, and its ts if it has one."""

    key: Any
    ts: Any = None


@dataclass(slots=True)
class TableBatch:
    """Records of one table in their order: documents as lines, and deletions by their place among all records."""

    lines: list[bytes]
    deletes: dict[int, Deletion] = field(default_factory=dict)
    stamps: dict[int, Any] = field(default_factory=dict)  # by record: the ts that came beside it
    beside: Callable[[int], Any] | None = None  # returns the ts of a record outside `stamps`
    decoded: Ahead | None = None  # returns columns of the lines decoded in advance, if any
    refused: int = 0  # records without a line, already rejected
    offset: Callable[[int], int | None] | None = None  # returns the offset of a record, for streams
    fields: Mapping[str, list[Any]] | None = None  # the values of all lines by field, if they came as columns

    @property
    def n(self) -> int:
        """Count the records."""
        return len(self.lines) + len(self.deletes)

    def stamp(self, record: int) -> Any:
        """Return the ts that came beside a record, or None."""
        own = self.stamps.get(record)
        return self.beside(record) if own is None and self.beside is not None else own

    def places(self) -> Index:
        """Return the place of each document among all records."""
        every = np.ones(self.n, bool)
        every[list(self.deletes)] = False
        return every.nonzero()[0]


@dataclass(slots=True)
class IntakeReport:
    """The result of a batch: the outcome of each record, the reasons of rejections, and the held documents."""

    outcome: NDArray[np.uint8] | bytearray
    rejected: dict[int, str] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Records:
    """The accepted records, as columns."""

    at: Index  # their places in the batch
    k0: Lane
    k1: Lane | None
    stamps: Stamps | None
    gone: Mask | None
    doc: Index  # the document of each in `columns` and `lines`; -1 of a deletion
    columns: DecodedColumns
    lines: list[bytes]
    unstamped: list[int]  # deletions without a ts, in a table that has one
    void: Mask | None = None  # deletions of keys without a version

    @property
    def n(self) -> int:
        """Count the accepted records."""
        return int(self.at.size)

    def settle(self, slots: Slots, stored: StoredVersions) -> None:
        """Give each deletion without a ts the ts of the version that it deletes."""
        if not self.unstamped:
            return
        assert self.stamps is not None
        assert stored.ts is not None
        stamps = self.stamps.paired()
        assert stamps.hi is not None
        before = stored.ts.paired()
        assert before.hi is not None
        versioned = stored.present | stored.tombstone
        waiting = set(self.unstamped)
        void = np.zeros(self.n, bool)
        current: dict[int, tuple[float, int]] = {}
        for record in np.isin(slots, slots[self.unstamped]).nonzero()[0].tolist():
            slot = int(slots[record])
            best = current.get(slot)
            if best is None and versioned[record]:
                best = float(before.hi[record]), int(before.lo[record])
            if record not in waiting:
                own = float(stamps.hi[record]), int(stamps.lo[record])
                current[slot] = own if best is None else max(best, own)
            elif best is None:
                void[record] = True
            else:
                stamps.hi[record], stamps.lo[record] = current[slot] = best
        self.stamps = _narrowed(stamps)
        if void.any():
            self.void = void

    def ts_of(self, record: int) -> int | float | None:
        """Return the number that orders a record."""
        if self.stamps is None:
            return None
        if self.stamps.hi is None:
            return int(self.stamps.lo[record])
        return unpaired(float(self.stamps.hi[record]), int(self.stamps.lo[record]))


class IntakeTable(Protocol):
    """The part of a table node that the intake needs."""

    table: Table
    decoder: Decoder
    spaces: Spaces
    ts_kind: str | None

    @property
    def seed(self) -> int:
        """Return the seed of hashed keys."""
        ...


def _narrowed(stamps: Stamps) -> Stamps:
    """Reduce pairs to one lane if it can hold all values."""
    assert stamps.hi is not None
    whole = np.abs(stamps.hi) < float(1 << 62)
    if bool(whole.all()) and bool((stamps.hi == np.floor(stamps.hi)).all()):
        return Stamps(stamps.hi.astype(np.int64) + stamps.lo)
    return stamps


def take_in(
    node: IntakeTable, batch: TableBatch, columns: DecodedColumns | None = None
) -> tuple[Records, dict[int, str]]:
    """Split a batch into accepted records and reasons of rejected ones; `columns` if already decoded."""
    if columns is None and batch.decoded is not None:
        columns = batch.decoded(node.spaces)
    if columns is None:
        tell = node.table.merge is Merge.REPLACE
        columns = node.decoder.columns(batch.lines, tell=tell, fields=batch.fields)
    places = batch.places() if batch.deletes else None
    bad = dict(columns.bad)
    stamps: Stamps | None = None
    if node.table.has_ts:
        values = _ts_of(node, columns, batch, places)
        if node.ts_kind is None and places is not None:
            node.ts_kind = _first_kind(batch, values, places, bad)
        stamps, node.ts_kind, late = stamps_of(values, node.ts_kind, set(bad))
        bad.update(late)
    rejected = {(i if places is None else int(places[i])): reason for i, reason in bad.items()}
    if places is None and not bad:
        every = np.arange(columns.n)
        return Records(every, columns.k0, columns.k1, stamps, None, every, columns, batch.lines, []), {}
    docs = np.array([i for i in range(columns.n) if i not in bad], np.int64)
    if places is None:
        part = None if stamps is None else stamps.take(docs)
        k1 = None if columns.k1 is None else columns.k1[docs]
        return Records(docs, columns.k0[docs], k1, part, None, docs, columns, batch.lines, []), rejected
    return _with_deletes(node, batch, columns, places, docs, stamps, rejected)


def _ts_of(node: IntakeTable, columns: DecodedColumns, batch: TableBatch, places: Index | None) -> Sequence[Any] | Ints:
    """Return the ts of each document: from the document or from beside it."""
    if node.table.broker_ts:
        return [batch.stamp(i if places is None else int(places[i])) for i in range(len(batch.lines))]
    assert columns.ts is not None
    return columns.ts


def _first_kind(batch: TableBatch, values: Sequence[Any] | Ints, places: Index, bad: dict[int, str]) -> str | None:
    """Return the kind of the first valid ts among documents and deletions, in their order."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    by_place = {
        place: value for i, (place, value) in enumerate(zip(places.tolist(), listed, strict=True)) if i not in bad
    }
    for place, deletion in batch.deletes.items():
        if deletion.ts is not None and not key_lanes([deletion.key], 0)[1]:
            by_place[place] = deletion.ts
    for place in sorted(by_place):
        found = kind_of(by_place[place])
        if found is not None:
            return found
    return None


def _with_deletes(
    node: IntakeTable,
    batch: TableBatch,
    columns: DecodedColumns,
    places: Index,
    docs: Index,
    stamps: Stamps | None,
    rejected: dict[int, str],
) -> tuple[Records, dict[int, str]]:
    """Merge documents and deletions into one order."""
    where = list(batch.deletes)
    (d0, d1), refused = key_lanes([batch.deletes[i].key for i in where], node.seed)
    own = dict(refused)
    unstamped: set[int] = set()
    ts: list[Any] = []
    for i, at in enumerate(where):
        value = batch.deletes[at].ts
        if value is None:
            unstamped.add(i)
        ts.append(value)
    part: Stamps | None = None
    if stamps is not None:
        part, node.ts_kind, late = stamps_of(ts, node.ts_kind, unstamped | set(own))
        own.update({i: reason for i, reason in late.items() if i not in own})
    for i, reason in own.items():
        rejected[where[i]] = f"its key can't be taken: {reason}" if i in refused else reason
    good = np.array([i for i in range(len(where)) if i not in own], np.int64)
    joint = np.concatenate((places[docs], np.array(where, np.int64)[good]))
    order = np.argsort(joint, kind="stable")
    place = joint[order]
    k1: Lane | None = None
    if columns.k1 is not None or d1 is not None:
        first = np.zeros(columns.n, np.uint64) if columns.k1 is None else columns.k1
        second = np.zeros(len(where), np.uint64) if d1 is None else d1
        k1 = np.concatenate((first[docs], second[good]))[order]
    joined = None if stamps is None or part is None else Stamps.join([stamps.take(docs), part.take(good)]).take(order)
    gone = np.concatenate((np.zeros(docs.size, bool), np.ones(good.size, bool)))[order]
    doc = np.concatenate((docs, np.full(good.size, -1, np.int64)))[order]
    late_ts = {where[i] for i in unstamped} if stamps is not None else set()
    waiting = [r for r, at in enumerate(place.tolist()) if at in late_ts]
    k0 = np.concatenate((columns.k0[docs], d0[good]))[order]
    return Records(place, k0, k1, joined, gone, doc, columns, batch.lines, waiting), rejected
