"""Map the documents of a copy again: the first half of a verification.

Documents and rows are read in their stored form. The oracle computes their contributions in plain Python, without code
of the incremental path. Documents with plain values are first tallied together (`tallies`), and the oracle examines
groups that differ. The stored row of each group is sent too, so that both meet in one task. Invariants:

- A group and all facts about it go to one task.
- A group is marked unsure in two cases: a held document had contributed to it, or a function now yields something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from penstock.cache import (
    Reader,
    Segment,
    canonical,
    decode_key,
    encode_entry,
    encode_key,
    record_key,
)
from penstock.engine import AppTransfer, Snapshot, open_engine
from penstock.mapreduce import Emissions, FunctionMapper, Groups, Pairs, ViewNode, emissions_db
from penstock.recovery import emission, same_pairs
from penstock.spark.verify_job.document_blocks import DocumentBlock, document_blocks, span_segments
from penstock.spark.verify_job.group_facts import Fact, Facts
from penstock.spark.verify_job.plain_contributions import PlainContributions, emitted
from penstock.spark.verify_job.spans import Span
from penstock.views import TS, FieldMap, Table, View, fields_read

__all__ = ["CopyPart", "FactMapper", "RemapTask", "VerifyJob", "copy_parts"]

_BLOCK = 1 << 10
_COMPARABLE = {str, int, type(None)}
_encode = msgspec.msgpack.Encoder().encode
_part = msgspec.msgpack.Decoder(tuple[int, str, list[bytes | None]]).decode


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """The plan of one verification: the copy, its partitions, the requested views, and the parts for comparison.

    If `groups` is set, only these groups are examined, by the oracle.
    """

    app: AppTransfer
    path: str
    views: tuple[str, ...]
    parts: int
    partitions: int
    groups: dict[str, frozenset[bytes]] | None = None


@dataclass(slots=True)
class CopyPart:
    """A part of a copy, in one of its partitions: some documents of a table, or some rows of a view."""

    partition: int
    name: str
    span: Span

    def data(self) -> bytes:
        """Return the part as bytes."""
        return _encode((self.partition, self.name, [self.span.start, self.span.stop]))

    @classmethod
    def of(cls, data: bytes) -> CopyPart:
        """Return the part that these bytes describe."""
        partition, name, (start, stop) = _part(data)
        return cls(partition, name, Span(start or b"", stop))


def copy_parts(work: VerifyJob, batches: Iterator[Any]) -> Iterator[tuple[Snapshot, CopyPart]]:
    """Yield the parts of the copy in these batches, each with a snapshot of its partition."""
    with open_engine(work.app.app(), work.path, readonly=True) as engine:
        for batch in batches:
            for data in batch.column("part").to_pylist():
                part = CopyPart.of(data)
                with engine.snapshot() as snap:
                    yield snap.parts[part.partition], part


@dataclass(frozen=True, slots=True)
class RemapTask:
    """The task that turns parts of a copy into facts."""

    work: VerifyJob

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the facts."""
        facts = Facts(self.work.parts, self.work.groups)
        for snap, part in copy_parts(self.work, batches):
            yield from self._facts(snap, part, facts)
        yield from facts.last()

    def _facts(self, snap: Snapshot, part: CopyPart, facts: Facts) -> Iterator[Any]:
        name, span = part.name, part.span
        definition = self.work.app.app().lookup(name)
        asked = [v for v in self.work.app.app().views() if v.source is definition and v.name in self.work.views]
        if isinstance(definition, Table):
            steps = _of_table(snap, definition, asked, span, facts)
        else:
            assert isinstance(definition, View), "a join has no rows of its own"
            steps = _of_rows(snap, definition, asked, span, facts, name in self.work.views)
        for _ in steps:
            if facts.full:
                yield from facts.blobs()


def _of_table(snap: Snapshot, table: Table, views: list[View], span: Span, facts: Facts) -> Iterator[None]:
    """Add the contributions of the documents of a part."""
    visible, reader = snap.schema.table(table.name), snap.reader()
    documents = snap.log(table.name)
    tellers = [FactMapper(snap, view, facts) for view in views]
    stamped = any(teller.stamped for teller in tellers)
    for segment in span_segments(reader, visible.number, span):
        emissions = [teller.segment_emissions(reader, segment) for teller in tellers]
        for block in document_blocks(table, documents, segment, stamped):
            for teller, own in zip(tellers, emissions, strict=True):
                teller.tell_all(block, own)
            facts.count(table.name, documents=len(block.docs))
            yield


def _of_rows(snap: Snapshot, view: View, views: list[View], span: Span, facts: Facts, asked: bool) -> Iterator[None]:
    """Add the stored rows of a part, if the view is requested, and their contributions to the views on it."""
    node, reader = snap.schema.view(view.name, snap.reader()), snap.reader()
    tellers = [FactMapper(snap, child, facts) for child in views]
    codec = node.reduce.codec
    for i, (key, row) in enumerate(reader.scan(node.reduce.db, span.start, span.stop)):
        state = codec.decode(key, row, f"view {view.name!r}")
        whole, result = state.whole or key, codec.result(state)
        if asked:
            facts.add(view.name, whole, Fact.HELD if state.held is not None else Fact.SHOWN, result, state.n)
            facts.count(view.name, rows=1)
        for teller in tellers:
            teller.tell(decode_key(whole), whole, result, None, teller.row_emissions(reader, key))
        if i % _BLOCK == 0:
            yield
    yield


class FactMapper:
    """The mapper of one view."""

    def __init__(self, snap: Snapshot, view: View, facts: Facts) -> None:
        self._view = view
        self._facts = facts
        self._node: ViewNode = snap.schema.view(view.name, snap.reader())
        groups, self._held = snap.held(view.name)
        for group in groups:
            facts.add(view.name, group, Fact.HELD)
        self._roots = _roots(view)
        self._described = [reducer.describe() for reducer in view.reducers]
        self.stamped = any(described["reducer"] in ("first", "last") for described in self._described)

    def holds(self, encoded: bytes) -> bool:
        """Return True if the view holds the document or row with this key."""
        return encoded in self._held

    def tell(self, key: Any, encoded: bytes, doc: Any, moment: Any, remembered: Callable[[], Any] | None) -> None:
        """Add the contributions of a document or row. `moment` is set if the view is `stamped`."""
        view, facts = self._view, self._facts
        held = self.holds(encoded)
        try:
            own = [(encode_key(group), value) for group, value in emission(view, key, doc, self._described)]
        except Exception:
            own = []
            if not held:  # the function now fails on a document that it accepted before
                self._unsure(remembered, [])
                return
        if held:
            facts.count(view.name, held=1)
            for group, _ in own:
                facts.add(view.name, group, Fact.HELD)
            return
        if remembered is not None and not same_pairs(remembered(), own):
            self._unsure(remembered, own)
            return
        numbers: dict[bytes, int] = {}
        for group, value in own:
            number = numbers[group] = numbers.get(group, -1) + 1
            whole = group
            if view.index:
                whole = encode_entry((decode_key(group), decode_key(encoded), number))
            facts.add(view.name, whole, Fact.GIVEN, encoded, number, self._projected(value), moment)

    def _unsure(self, remembered: Callable[[], Any] | None, own: list[tuple[bytes, Any]]) -> None:
        self._facts.count(self._view.name, different=1)
        before = [] if remembered is None else remembered()
        for group in {group for group, _ in (*own, *before)}:
            self._facts.add(self._view.name, group, Fact.DIFFERENT)

    def _projected(self, value: Any) -> Any:
        """Return the part of a document that reducers read."""
        if self._roots is None:
            return value
        return {name: value[name] for name in self._roots if isinstance(value, dict) and name in value}

    def tell_all(self, block: DocumentBlock, remembered: _DecodedEmissions | None) -> None:
        """Add the contributions of the documents of a block: tallied if they are plain, else one by one."""
        counting, n = self._facts.counting_of(self._view, self._described), len(block.docs)
        rest = set(range(n))
        if counting is not None:
            held = self._held_of(block) if self._held else set[int]()
            docs = block.docs if isinstance(self._view.map, FieldMap) else block.anew()
            found = emitted(self._view, counting, docs, held)
            if remembered is not None:
                found = found.without(remembered.otherwise(block.at, found))
            wanted = None if self._facts.wanted is None else self._facts.wanted.get(self._view.name, frozenset())
            if wanted is None:
                counting.add(found.groups, found.columns)
                rest = found.rest
            else:
                rest = found.rest | {i for i, group in zip(found.whose, found.encoded, strict=True) if group in wanted}
        for i in sorted(rest):
            key = block.key(i)
            before = None if remembered is None else partial(remembered.pairs, block.at[i])
            self.tell(key, encode_key(key), block.docs[i], block.moment(i), before)

    def _held_of(self, block: DocumentBlock) -> set[int]:
        return {i for i in range(len(block.docs)) if encode_key(block.key(i)) in self._held}

    def segment_emissions(self, reader: Reader, segment: Segment) -> _DecodedEmissions | None:
        """Return the remembered emissions of a function view for the documents of a segment, else None."""
        if not isinstance(self._node.mapper, FunctionMapper):
            return None
        groups = Groups()
        return _DecodedEmissions(
            self._node.remembered(reader, groups).block(record_key(segment.base), len(segment)), groups
        )

    def row_emissions(self, reader: Reader, key: bytes) -> Callable[[], Any] | None:
        """Return a function for the remembered emission of a row of the parent view, or None for field views."""
        if not isinstance(self._node.mapper, FunctionMapper):
            return None
        remembered = self._node.remembered(reader, Groups())
        [row] = reader.get_many(emissions_db(self._node.number), [key])
        return lambda: [] if row is None else remembered.emissions_in(key, row).pairs(0, remembered.groups)


@dataclass(frozen=True)
class _DecodedEmissions:
    """The remembered emissions of a function for the documents of a segment."""

    emissions: Emissions
    names: Groups

    def pairs(self, place: int) -> Pairs:
        """Return the emission of one document."""
        return self._pairs[place]

    @cached_property
    def _pairs(self) -> list[Pairs]:
        return self.emissions.pairs_of_each(self.names)

    def otherwise(self, places: Sequence[int], found: PlainContributions) -> set[int]:
        """Return the documents at these places whose remembered emission differs from the found one."""
        values = found.values or []
        asked = [i for i in range(len(places)) if i not in found.rest]
        counts = [0] * len(places)
        for row in found.whose:
            counts[row] += 1
        emissions = self.emissions.take(np.array([places[i] for i in asked], np.int64))
        known = [1] * len(asked) if emissions.counts is None else emissions.counts.tolist()
        groups = list(map(self.names.whole, emissions.code.tolist()))
        before = [None] * len(groups) if emissions.values is None else emissions.values.values()
        own = [counts[i] for i in asked]
        if own == known and found.encoded == groups and _same_values(values, before):
            return set()
        out: set[int] = set()
        a = b = 0
        for i, n, m in zip(asked, own, known, strict=True):
            mine = list(zip(found.encoded[a : a + n], values[a : a + n], strict=True))
            theirs = list(zip(groups[b : b + m], before[b : b + m], strict=True))
            if not same_pairs(theirs, mine):
                out.add(i)
            a, b = a + n, b + m
        return out


def _same_values(a: list[Any], b: list[Any]) -> bool:
    """Test whether the values are equal and have equal types. Python's == ignores some types."""
    if set(map(type, a)) | set(map(type, b)) <= _COMPARABLE:
        return a == b
    return canonical(a) == canonical(b)


def _roots(view: View) -> tuple[str, ...] | None:
    """Return the fields of a document that a field view's reducers read."""
    if not isinstance(view.map, FieldMap):
        return None
    paths = [view.map.value, *(view.map.path_of(field) for field in fields_read(view.reducers) if field != TS)]
    return tuple(dict.fromkeys(path[0] for path in paths if path))
