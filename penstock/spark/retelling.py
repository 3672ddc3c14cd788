"""What documents contribute to views, mapped anew from a copy of a store: the first half of verifying.

Documents and rows are read by the forms in which they are stored; what they contribute is said by the oracle in plain
Python, which shares no code with what keeps views. Beside it goes what a store shows of each group, so that both meet
where they are compared. Invariants:

- a group and all that is known of it goes to one task;
- a group that counts what a held document was told last, or what a function yields no more, is said to be unsure.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any
from zlib import crc32

import msgspec
import numpy as np

from penstock.cache import (
    Reader,
    Segment,
    decode_key,
    encode_entry,
    encode_key,
    record_key,
    segments_from,
)
from penstock.engine import Engine, Shipped, Snapshot, open_engine
from penstock.gateway import document_of, key_value, unwrap
from penstock.mapreduce import Emissions, FunctionMapper, Groups, ViewNode, read_emissions, told_db
from penstock.recovery import emission, moment_in, same_pairs
from penstock.spark.spans import Span
from penstock.views import FieldMap, Path, Table, View

__all__ = ["SCHEMA", "Fact", "Known", "Part", "Retelling", "Verifying"]

SCHEMA = "p int, blob binary"
_BLOCK = 1 << 10
_WAIT = 1 << 17  # facts that wait
Known = tuple[str, bytes, list[tuple[Any, ...]]]
_encode = msgspec.msgpack.Encoder().encode
_part = msgspec.msgpack.Decoder(tuple[str, list[bytes | None]]).decode


class Fact(IntEnum):
    """What is known of a group; the numbers are what tasks hand on."""

    GIVEN = 0
    """A contribution: the key, its number among the key's, the value, and the ts."""
    SHOWN = 1
    """A row: its result, and how many contributions it counts."""
    HELD = 2
    """That nobody can know its result: it counts what a held document was told, or its reducer fails."""
    TOLD = 3
    """The same: a function yields something else now."""
    COUNT = 4
    """Of a table or view: documents and rows read, documents held, documents told otherwise."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """One piece of work: the copy, the views asked for, and how many tasks compare."""

    app: Shipped
    path: str
    views: tuple[str, ...]
    parts: int


@dataclass(slots=True)
class Part:
    """A part of a copy: of the documents of a table, or of the rows of a view."""

    name: str
    span: Span

    def data(self) -> bytes:
        """As bytes."""
        return _encode((self.name, [self.span.start, self.span.stop]))


@dataclass(slots=True)
class _Facts:
    """Facts that wait for the task that compares their group."""

    many: int
    rows: dict[tuple[str, bytes], list[tuple[Any, ...]]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    n: int = 0

    def add(self, view: str, group: bytes, fact: Fact, *more: Any) -> None:
        """A fact of a group."""
        self.rows.setdefault((view, group), []).append((fact, *more))
        self.n += 1

    def count(self, name: str, documents: int = 0, rows: int = 0, held: int = 0, told: int = 0) -> None:
        """Add to what is counted of a table or view."""
        known = self.counts.get(name, [0, 0, 0, 0])
        self.counts[name] = [a + b for a, b in zip(known, (documents, rows, held, told), strict=True)]

    def last(self) -> Iterator[Any]:
        """All that wait, and what was counted."""
        for name, counts in self.counts.items():
            self.add(name, b"", Fact.COUNT, *counts)
        yield from self.blobs()

    def blobs(self) -> Iterator[Any]:
        """All that wait."""
        import pyarrow as pa

        parts: dict[int, list[Known]] = {}
        for (view, group), facts in self.rows.items():
            parts.setdefault(crc32(group) % self.many, []).append((view, group, facts))
        for number, known in sorted(parts.items()):
            data = pickle.dumps(known, pickle.HIGHEST_PROTOCOL)
            arrays = [pa.array([number], pa.int32()), pa.array([data], pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, names=["p", "blob"])
        self.rows, self.n = {}, 0


@dataclass(frozen=True, slots=True)
class Retelling:
    """The task: parts of a copy in, facts out."""

    work: Verifying

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The facts."""
        facts = _Facts(self.work.parts)
        with open_engine(self.work.app.app(), self.work.path, readonly=True) as engine:
            for batch in batches:
                for data in batch.column("part").to_pylist():
                    name, (start, stop) = _part(data)
                    yield from self._facts(engine, name, Span(start or b"", stop), facts)
        yield from facts.last()

    def _facts(self, engine: Engine, name: str, span: Span, facts: _Facts) -> Iterator[Any]:
        with engine.snapshot() as snap:
            definition = self.work.app.app().lookup(name)
            asked = [v for v in self.work.app.app().views() if v.source is definition and v.name in self.work.views]
            if isinstance(definition, Table):
                steps = _of_table(snap, definition, asked, span, facts)
            else:
                steps = _of_rows(snap, definition, asked, span, facts, name in self.work.views)
            for _ in steps:
                if facts.n >= _WAIT:
                    yield from facts.blobs()


def _of_table(snap: Snapshot, table: Table, views: list[View], span: Span, facts: _Facts) -> Iterator[None]:
    """What the documents of a part contribute."""
    shown, reader = snap.schema.table(table.name), snap.reader()
    documents = snap.log(table.name)
    tellers = [_Teller(snap, view, facts) for view in views]
    stop = None if span.stop is None else int.from_bytes(span.stop, "big")
    stamped = any(teller.stamped for teller in tellers)
    for segment in segments_from(reader, shown.number, int.from_bytes(span.start or b"\0", "big")):
        if stop is not None and segment.base >= stop:
            return
        told = [teller.told_of(reader, segment) for teller in tellers]
        at = np.arange(len(segment))
        at = at[documents.newest(segment.k0, segment.k1, segment.base + at)]
        documents_read = 0
        for place, line in zip(at.tolist(), segment.lines(at), strict=True):
            found = unwrap(line)
            if found.absent:
                continue
            doc = document_of(line)
            key = key_value(table, doc)
            encoded = encode_key(key)
            moment = moment_in(table, found, doc) if stamped else None
            documents_read += 1
            for teller, own in zip(tellers, told, strict=True):
                teller.tell(key, encoded, doc, moment, None if own is None else partial(own, place))
        facts.count(table.name, documents=documents_read)
        yield


def _of_rows(snap: Snapshot, view: View, views: list[View], span: Span, facts: _Facts, asked: bool) -> Iterator[None]:
    """What a view shows of the groups of a part, where it is asked for, and what those rows contribute to others."""
    node, reader = snap.schema.view(view.name, snap.reader()), snap.reader()
    tellers = [_Teller(snap, child, facts) for child in views]
    codec = node.reduce.codec
    for i, (key, row) in enumerate(reader.scan(node.reduce.db, span.start, span.stop)):
        state = codec.decode(key, row, f"view {view.name!r}")
        whole, result = state.whole or key, codec.result(state)
        if asked:
            facts.add(view.name, whole, Fact.HELD if state.held is not None else Fact.SHOWN, result, state.n)
            facts.count(view.name, rows=1)
        for teller in tellers:
            teller.tell(decode_key(whole), whole, result, None, teller.told_of_row(reader, key))
        if i % _BLOCK == 0:
            yield
    yield


class _Teller:
    """Maps for one view."""

    def __init__(self, snap: Snapshot, view: View, facts: _Facts) -> None:
        self._view = view
        self._facts = facts
        self._node: ViewNode = snap.schema.view(view.name, snap.reader())
        groups, self._held = snap.held(view.name)
        for group in groups:
            facts.add(view.name, group, Fact.HELD)
        self._roots = _roots(view)
        self._described = [reducer.describe() for reducer in view.reducers]
        self.stamped = any(said["reducer"] in ("first", "last") for said in self._described)

    def tell(self, key: Any, encoded: bytes, doc: Any, moment: Any, told: Callable[[], Any] | None) -> None:
        """What a document, or a row, contributes; `moment` is there where a view is `stamped`."""
        view, facts = self._view, self._facts
        held = encoded in self._held
        try:
            pairs = emission(view, key, doc, self._described)
        except Exception:
            pairs = []
            if not held:  # it could be mapped once, and can't be now
                self._unsure(told, [])
                return
        if held:
            facts.count(view.name, held=1)
        own = [(encode_key(group), value) for group, value in pairs]
        if held:
            for group, _ in own:
                facts.add(view.name, group, Fact.HELD)
            return
        if told is not None and not same_pairs(told(), own):
            self._unsure(told, own)
            return
        numbers: dict[bytes, int] = {}
        for group, value in own:
            number = numbers[group] = numbers.get(group, -1) + 1
            whole = group
            if view.index:
                entry = (decode_key(group), decode_key(encoded))
                whole = encode_entry((*entry, number) if number else entry)
            facts.add(view.name, whole, Fact.GIVEN, encoded, number, self._projected(value), moment)

    def _unsure(self, told: Callable[[], Any] | None, own: list[tuple[bytes, Any]]) -> None:
        self._facts.count(self._view.name, told=1)
        before = [] if told is None else told()
        for group in {group for group, _ in (*own, *before)}:
            self._facts.add(self._view.name, group, Fact.TOLD)

    def _projected(self, value: Any) -> Any:
        """Of a document what reducers read."""
        if self._roots is None:
            return value
        return {name: value[name] for name in self._roots if isinstance(value, dict) and name in value}

    def told_of(self, reader: Reader, segment: Segment) -> Callable[[int], Any] | None:
        """What the view's function yielded for the documents of a segment, as far as it has one."""
        if not isinstance(self._node.mapper, FunctionMapper):
            return None
        db, key, groups = told_db(self._node.number), record_key(segment.base), Groups()
        row = reader.get_many(db, [key])[0]
        told = Emissions.none(len(segment))
        if row is not None:
            told = read_emissions(key, row, groups, db).padded(len(segment))
        return lambda place: told.pairs(place, groups)

    def told_of_row(self, reader: Reader, key: bytes) -> Callable[[], Any] | None:
        """The same of a row of the view that it is on."""
        if not isinstance(self._node.mapper, FunctionMapper):
            return None
        db, groups = told_db(self._node.number), Groups()
        row = reader.get_many(db, [key])[0]
        return lambda: [] if row is None else read_emissions(key, row, groups, db).pairs(0, groups)


def _roots(view: View) -> tuple[str, ...] | None:
    """The fields of a document that a field view's reducers read."""
    if not isinstance(view.map, FieldMap):
        return None
    paths: list[Path | None] = [view.map.value]
    for reducer in view.reducers:
        described = reducer.describe()
        paths.append(view.map.path_of(reducer.field))
        by: Any = described.get("by")
        paths.append(view.map.path_of(tuple(by)) if by else None)
    return tuple(dict.fromkeys(path[0] for path in paths if path))
