"""The router of records: it splits the batches of a table by the partitions that own their keys.

Only the keys are decoded. A record without a key, or with an invalid one, goes to the first partition, which rejects
it. Invariant: records of one key keep their order, and each record keeps its place in the original batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Batch
from penstock.gateway import TableBatch, kind_of
from penstock.mapreduce import Decoder, FieldPlan, KeyRanges, Spaces, key_lanes
from penstock.views import App, Path, Table

_FIRST = 0
Routed = dict[int, dict[str, list[Batch]]]
"""Batches by partition and table."""


class Router:
    """Splits batches of an app's tables by partition."""

    def __init__(self, app: App, ranges: KeyRanges) -> None:
        self._ranges = ranges
        self._tables = {table.name: table for table in app.tables()}
        self._decoders = {name: self._decoder(table, None) for name, table in self._tables.items()}
        self.kinds: dict[str, str] = {}  # of ts, by table, once a record showed it

    def _decoder(self, table: Table, ts: Path | None) -> Decoder:
        return Decoder(FieldPlan.of(table.key, ts, []), Spaces(), self._ranges.seed)

    def parted(self, table: str, batch: Batch) -> dict[int, Batch]:
        """Split a batch by partition; partitions that get nothing are left out."""
        records = batch.records
        self._add_kinds(self._tables[table], records)
        owners = np.full(records.n, _FIRST, np.int64)
        docs = records.places() if records.deletes else np.arange(records.n)
        if docs.size:
            columns = self._decoders[table].columns(records.lines, fields=records.fields)
            own = self._ranges.of_lanes(columns.k0, columns.k1)
            own[list(columns.bad)] = _FIRST
            owners[docs] = own
        if records.deletes:
            places = list(records.deletes)
            (k0, k1), refused = key_lanes([records.deletes[place].key for place in places], self._ranges.seed)
            own = self._ranges.of_lanes(k0, k1)
            own[list(refused)] = _FIRST
            owners[places] = own
        whole = np.unique(owners).tolist()
        if batch.refused and _FIRST not in whole:
            whole.append(_FIRST)
        if len(whole) == 1:
            return {whole[0]: batch}
        line_of = _line_of(records)
        return {owner: _part(batch, np.flatnonzero(owners == owner), line_of, owner == _FIRST) for owner in whole}

    def foreign(self, table: str, records: TableBatch, partition: int) -> dict[int, int]:
        """Return the places of the records whose keys other partitions than `here` own, and these partitions."""
        parts = self.parted(table, Batch(records))
        return {
            place: owner
            for owner, own in parts.items()
            if owner != partition
            for place in own.places(range(own.records.n))
        }

    def routed(self, work: Iterable[tuple[str, Batch]]) -> tuple[Routed, dict[int, list[Batch]]]:
        """Split batches of tables by partition; the second answer has the parts of each batch, by its identity."""
        out: Routed = {}
        shares: dict[int, list[Batch]] = {}
        for name, batch in work:
            parts = shares.setdefault(id(batch), [])
            for owner, own in self.parted(name, batch).items():
                out.setdefault(owner, {}).setdefault(name, []).append(own)
                parts.append(own)
        return out, shares

    def _add_kinds(self, table: Table, records: TableBatch) -> None:
        """Note the kind of a table's ts: that of its first valid record, whichever partition owns it."""
        if not table.has_ts or table.name in self.kinds:
            return
        columns = self._decoder(table, table.ts).columns(records.lines, fields=records.fields)
        given: Sequence[Any] = columns.ts.tolist() if isinstance(columns.ts, np.ndarray) else columns.ts or ()
        stamps: dict[int, Any] = {
            place: records.stamp(place) if table.broker_ts else given[i]
            for i, place in enumerate(records.places().tolist())
            if i not in columns.bad
        }
        stamps |= {place: own.ts for place, own in records.deletes.items() if not key_lanes([own.key], 0)[1]}
        for place in sorted(stamps):
            kind = kind_of(stamps[place])
            if kind is not None:
                self.kinds[table.name] = kind
                return


def after(batch: Batch, offset: int) -> Batch:
    """Return the records of a batch from this offset on, and those without a known offset."""
    places = batch.places(range(batch.records.n))
    known = [batch.offset(place) for place in places]
    late = [own is not None and own < offset for own in known]
    refused = [place for place in batch.refused if (own := batch.offset(place)) is not None and own < offset]
    if not any(late) and not refused:
        return batch
    out = _part(batch, np.flatnonzero(~np.array(late, bool)), _line_of(batch.records), True)
    out.refused = {place: why for place, why in batch.refused.items() if place not in refused}
    out.received = {place: own for place, own in batch.received.items() if place not in refused}
    out.records.refused -= len(refused)
    return out


def _line_of(records: TableBatch) -> NDArray[np.int64]:
    """Return the line of each record; -1 for a deletion."""
    out = np.full(records.n, -1, np.int64)
    docs = records.places()
    out[docs] = np.arange(docs.size)
    return out


def _part(batch: Batch, at: NDArray[np.int64], line_of: NDArray[np.int64], rest: bool) -> Batch:
    """Return the records at these places of a batch; with `rest`, also the records already refused."""
    records, listed = batch.records, at.tolist()
    lines = line_of[at]
    own = TableBatch(list(map(records.lines.__getitem__, lines[lines >= 0].tolist())))
    if records.deletes:
        own.deletes = {i: records.deletes[place] for i, place in enumerate(listed) if place in records.deletes}
    if records.stamps:
        own.stamps = {i: records.stamps[place] for i, place in enumerate(listed) if place in records.stamps}
    if records.beside is not None:
        own.beside = _beside(records.beside, listed)
    places = batch.places(listed)
    out = Batch(own, batch.unit, batch.first, origin=batch.origin, at=places)
    if rest:
        own.refused = records.refused
        out.refused, out.received = batch.refused, batch.received
        places = [*places, *batch.refused]
    if batch.run:
        out.run = {place: batch.run[place] for place in places}
    elif batch.offsets:
        out.offsets = {place: batch.offsets[place] for place in places if place in batch.offsets}
    return out


def _beside(stamp: Callable[[int], Any], places: list[int]) -> Callable[[int], Any]:
    return lambda record: stamp(places[record])
