"""The deltas of a small batch for the views, version by version; `view_deltas` does the same with columns.

A view that folds lanes gets plain values. A view that keeps contributions gets columns of them, with their sources.
If a view holds one of the documents, the columnar form does the work instead. So no rule about held documents stands
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from penstock.cache import PRESENT, DocumentLog, Lane, Reader, Slots, encode_key
from penstock.gateway.cold_keys import ColdKeyLoader
from penstock.gateway.table_memory import TableMemory
from penstock.gateway.versions.version_stamps import plain_ts
from penstock.gateway.view_deltas import ScannedViews, ViewDeltas, WinningVersions, by_view
from penstock.mapreduce import (
    Column,
    Decoder,
    DocumentContributions,
    DocumentFields,
    Emissions,
    FewContributions,
    FewFields,
    FieldMapper,
    FieldPlan,
    Hold,
    SourceChange,
    SourceKeys,
    Spaces,
    ViewNode,
    Writes,
    Yielded,
    deltas_of,
    in_columns,
    of_yielded,
)
from penstock.views import TS, Table

FunctionOutputs = dict[str, tuple[Emissions, dict[int, Hold]]]  # by view, the emissions of its function for the batch
_LANE = 1 << 64
_EXACT = frozenset({str, int, bool, type(None)})  # equal values of one of these types are identical


class Few(Protocol):
    """The part of a table node that a small batch needs."""

    table: Table
    views: tuple[ViewNode, ...]
    log: DocumentLog
    memory: TableMemory
    loader: ColdKeyLoader
    deltas: ViewDeltas
    decoder: Decoder
    spaces: Spaces
    plan: FieldPlan
    ts_kind: str | None
    seed: int

    def tell(self, reader: Reader, new: WinningVersions, writes: Writes) -> list[int]:
        """Send versions to the views as columns, and write the segment. Return the indexes of held versions."""
        ...

    def slots_of(self, reader: Reader, k0: Lane, k1: Lane | None) -> Slots:
        """Load all data of these keys, given by their lanes, into memory. Return their slots."""
        ...

    @property
    def build(self) -> ScannedViews | None:
        """Return the scan of the views that are being built, or None."""
        ...


@dataclass(slots=True)
class FewRecord:
    """A document, or with `doc` -1 a deletion, perhaps without a ts yet."""

    lanes: tuple[int, int]
    ts: Any  # the number that orders it; None without one
    doc: int
    line: bytes
    key: Any
    reading: DocumentFields | None = None


@dataclass(slots=True)
class FewVersion:
    """A version to write."""

    slot: int
    record: FewRecord
    line: bytes  # as it is stored
    old: DocumentFields | None  # the fields of the document before, for field views
    state: int  # of the slot, before


@dataclass(slots=True)
class _Changed:
    """The numbers of the versions that change the contributions to a view."""

    now: list[int]  # documents: the view adds their contributions
    was: list[int]  # versions in place of a document that counts: the view retracts its contributions
    added: list[DocumentFields]  # of `now`
    removed: list[DocumentFields]  # of `was`, the fields of the former documents

    @classmethod
    def of(cls, new: list[FewVersion], now: list[int], was: list[int]) -> _Changed:
        """Return the numbers with the fields of their documents."""
        return cls(now, was, [_document(new[i].record.reading) for i in now], [_document(new[i].old) for i in was])


@dataclass(slots=True)
class _Side:
    """Contributions to add, or to retract, each with the number of its version."""

    pairs: FewContributions = field(default_factory=list)
    who: list[int] = field(default_factory=list)

    def add(self, who: int, pairs: FewContributions) -> None:
        """Add the contributions of one version."""
        self.pairs += pairs
        self.who += [who] * len(pairs)

    def equals(self, other: _Side) -> bool:
        """Return True if all contributions are identical. Values of other kinds than text, int and null differ."""
        if self.who != other.who or self.pairs != other.pairs:
            return False
        return all(
            type(a) is type(b) and type(a) in _EXACT
            for (_, own), (_, values) in zip(self.pairs, other.pairs, strict=True)
            for a, b in zip(own, values, strict=True)
        )

    def columns(self, view: ViewNode) -> DocumentContributions:
        """Return the contributions as columns."""
        who = sorted(set(self.who))
        counts = None if len(who) == len(self.who) else np.array([self.who.count(i) for i in who])
        return DocumentContributions(in_columns(self.pairs, view.reduce.fields), np.array(who, np.int64), counts)


class FewTelling:
    """The sender of deltas to the views of one table."""

    def __init__(self, node: Few) -> None:
        self._node = node
        self._fields = {
            view.name: FewFields(view, view.mapper, node.plan)
            for view in node.views
            if isinstance(view.mapper, FieldMapper)
        }
        self._keeps = any(view.keeps for view in node.views)

    def wrong(self, readings: Sequence[DocumentFields]) -> bool:
        """Return True if a view cannot accept one of these documents."""
        return any(few.passes(reading) and few.bad(reading) for few in self._fields.values() for reading in readings)

    def tell(self, reader: Reader, new: list[FewVersion], outputs: FunctionOutputs, writes: Writes) -> None:
        """Send the deltas to all views."""
        node = self._node
        keys = self._keys(new) if self._keeps else None
        whole = _Changed.of(
            new,
            [i for i, n in enumerate(new) if n.record.doc >= 0],
            [i for i, n in enumerate(new) if n.state & PRESENT],
        )
        for view, changed in by_view(node.views, node.build, whole, lambda some, scan: self._scanned(new, some, scan)):
            fields = self._fields.get(view.name)
            if fields is not None:
                if not view.keeps:
                    added, removed = fields.contributions(changed.added), fields.contributions(changed.removed)
                    view.advance_small(reader, added, removed, writes)
                    continue
                plus = _mapped(fields, changed.now, changed.added)
                minus = _mapped(fields, changed.was, changed.removed)
                if view.drops_equal and plus.equals(minus):
                    continue
            else:
                plus, minus = self._by_function(view, new, changed, outputs[view.name][0], writes)
            if keys is None or not view.keeps:
                view.advance_small(reader, plus.pairs, minus.pairs, writes)
                continue
            deltas = deltas_of(view, SourceChange(plus.columns(view), minus.columns(view)), {}, keys)
            if view.stamped:
                deltas.plus.inputs[TS] = Column.of([plain_ts(new[i].record.ts) for i in plus.who])
            view.advance(reader, deltas.plus, deltas.minus, writes)

    def _scanned(self, new: list[FewVersion], whole: _Changed, scan: ScannedViews) -> _Changed:
        """Return the changes for views that are being built. Documents that they lack have nothing to retract."""
        counted = self._node.deltas.scanned(np.array([new[i].slot for i in whole.was], np.int64), scan)
        return _Changed.of(new, whole.now, [i for i, counts in zip(whole.was, counted.tolist(), strict=True) if counts])

    @staticmethod
    def _keys(new: list[FewVersion]) -> SourceKeys:
        """Return the keys of the new versions."""
        lane, text = np.zeros(len(new), np.int64), np.full(len(new), None, object)
        for i, n in enumerate(new):
            k0, k1 = n.record.lanes
            if k1:
                text[i] = encode_key(n.record.key)
            else:
                lane[i] = k0 if k0 < _LANE >> 1 else k0 - _LANE
        return SourceKeys(lane, text if any(n.record.lanes[1] for n in new) else None)

    def _by_function(
        self, view: ViewNode, new: list[FewVersion], changed: _Changed, emissions: Emissions, writes: Writes
    ) -> tuple[_Side, _Side]:
        log, memory = self._node.log, self._node.memory.functions[view.name]
        docs = [n.record.doc for n in new]
        if docs == list(range(emissions.documents)):
            row = emissions
        else:
            row = emissions.take_or_none(np.array(docs, np.int64))
        self._node.deltas.write_emissions(view, row, writes)
        parts = list(row.each(range(len(docs))))
        yielded: list[Yielded] = [part.yielded() for part in parts]
        plus, minus, fields = _Side(), _Side(), view.reduce.fields
        for i in changed.now:
            plus.add(i, of_yielded(yielded[i], fields))
        for i in changed.was:
            minus.add(i, of_yielded(memory.take_one(new[i].slot), fields))

        def remember() -> None:
            used = log.keys.map.used
            for n, part, pairs in zip(new, parts, yielded, strict=True):
                memory.put_one(n.slot, part, pairs, used)

        writes.after.append(remember)
        return plus, minus


def _document(reading: DocumentFields | None) -> DocumentFields:
    assert reading is not None, "the version is a document"
    return reading


def _mapped(few: FewFields, numbers: list[int], readings: list[DocumentFields]) -> _Side:
    """Return the contributions of these versions, with their numbers."""
    side = _Side()
    for i, reading in zip(numbers, readings, strict=True):
        side.add(i, few.contributions([reading]))
    return side
