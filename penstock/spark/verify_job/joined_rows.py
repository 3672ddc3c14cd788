"""Join the sides of a copy again: the tasks that give views on joins their rows.

A task reads parts of a side and sends entries to the task of their condition value. That task joins them in plain
Python, with the oracle's code (`recovery/oracle/plain_joins`). Invariants:

- All entries of one condition value of a step meet in one task. An entry with a null value goes to any task.
- A document that its side holds takes part with its last accepted version, which its held row has.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zlib import crc32

from penstock.cache import decode_key, encode_entry, encode_key, stored_key
from penstock.engine import Snapshot, open_engine
from penstock.mapreduce import FunctionMapper, Groups, Pairs
from penstock.recovery import (
    JoinEntry,
    RecomputedJoin,
    at,
    selected_rows,
    side_entries,
    step_paths,
    stepped,
    view_documents,
)
from penstock.spark.verify_job.document_blocks import document_blocks, span_segments
from penstock.spark.verify_job.group_facts import Facts
from penstock.spark.verify_job.remap_task import FactMapper, VerifyJob, copy_parts
from penstock.spark.verify_job.side_facts import given_entries
from penstock.spark.verify_job.spans import Span
from penstock.views import App, FieldMap, Join, Path, SideView, Table, View, shown_join

__all__ = ["JoinTask", "SideTask", "StepInput", "join_of"]

_WAIT = 1 << 15  # entries in memory before they are sent
_BLOCK = 1 << 10


def join_of(app: App, name: str) -> Join:
    """Return the join of this name."""
    return next(join for join in app.joins() if join.name == name)


@dataclass(frozen=True, slots=True)
class StepInput:
    """An input of a step of a join: the entries of its new side, or the rows of the sides before it."""

    join: str
    step: int
    side: str | None

    def value_paths(self, join: Join) -> list[Path]:
        """Return the paths of the step's condition in an entry."""
        old, new = step_paths(join, join.steps()[1][self.step])
        return old if self.side is None else new


@dataclass(slots=True)
class _SentEntries:
    """Entries in memory, to be sent to the tasks of their condition values."""

    many: int
    new: bool
    paths: list[Path]
    parts: dict[int, list[JoinEntry]] = field(default_factory=dict)
    n: int = 0

    def add(self, entry: JoinEntry) -> Iterator[Any]:
        """Add an entry. Yield what must be sent."""
        value = tuple(at(entry.row, path) for path in self.paths)
        matching = all(part is not None for part in value)
        sent = encode_entry(value) if matching else repr(entry.keys).encode()
        self.parts.setdefault(crc32(sent) % self.many, []).append(entry)
        self.n += 1
        if self.n >= _WAIT:
            yield from self.blobs()

    def blobs(self) -> Iterator[Any]:
        """Yield all entries in memory as blobs."""
        import pyarrow as pa

        for number, entries in sorted(self.parts.items()):
            data = pickle.dumps(
                (self.new, [(one.keys, one.row, one.values) for one in entries]), pickle.HIGHEST_PROTOCOL
            )
            arrays = [pa.array([number], pa.int32()), pa.array([data], pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, names=["p", "blob"])
        self.parts, self.n = {}, 0


@dataclass(frozen=True, slots=True)
class SideTask:
    """The task that turns parts of a side into entries of a step."""

    work: VerifyJob
    input: StepInput
    name: str
    """The side whose documents these are."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the entries."""
        app = self.work.app.app()
        join = join_of(app, self.input.join)
        sent = _SentEntries(self.work.parts, self.input.side is not None, self.input.value_paths(join))
        for snap, part in copy_parts(self.work, batches):
            for entry in self._entries(snap, join, part.span):
                yield from sent.add(entry)
        yield from sent.blobs()

    def _entries(self, snap: Snapshot, join: Join, span: Span) -> Iterator[JoinEntry]:
        own = join.side(self.name)
        assert own is not None, self.name
        held = _held(snap, join, self.name)
        source = own.source
        blocks = _tables(snap, source, span) if isinstance(source, Table) else _rows(snap, source, span)
        for block in blocks:
            yield from side_entries(join, self.name, block, RecomputedJoin())  # it refuses documents that are held
            for key, _ in block if held else ():
                entry = held.get(encode_key(key))
                if entry is not None:
                    yield entry


def _tables(snap: Snapshot, table: Table, span: Span) -> Iterator[list[tuple[Any, Any]]]:
    """Yield the documents of a part of a table, with their keys."""
    log, number = snap.log(table.name), snap.schema.table(table.name).number
    for segment in span_segments(snap.reader(), number, span):
        for block in document_blocks(table, log, segment, False):
            yield [(block.key(i), doc) for i, doc in enumerate(block.docs)]


def _rows(snap: Snapshot, view: Any, span: Span) -> Iterator[list[tuple[Any, Any]]]:
    """Yield the rows of a part of a view, with their keys. A held group has its last good result."""
    assert isinstance(view, View), "a side that is a join has no parts"
    reader = snap.reader()
    node = snap.schema.view(view.name, reader)
    codec = node.reduce.codec
    block: list[tuple[Any, Any]] = []
    for key, row in reader.scan(node.reduce.db, span.start, span.stop):
        state = codec.decode(key, row, f"view {view.name!r}")
        group = decode_key(state.whole or key)
        block.append((group, codec.result(state)))
        if len(block) == _BLOCK:
            yield view_documents(block)
            block = []
    yield view_documents(block)


def _held(snap: Snapshot, join: Join, side: str) -> dict[bytes, JoinEntry | None]:
    """Return the documents that a side holds, by key: the last accepted entry, or None if there was none."""
    found: dict[bytes, JoinEntry | None] = {}
    for node in snap.schema.sides:
        view = node.view
        if isinstance(view, SideView) and (shown_join(view.join), view.side) == (join.name, side):
            for _, (whole, _, pairs) in node.remembered(snap.reader(), Groups()).all_held():
                found[whole] = _projected(view, whole, *pairs[0]) if pairs else None
    return found


def _projected(view: SideView, key: bytes, group: bytes, values: Any) -> JoinEntry:
    """Return an entry with the projection of a document and with its condition value."""
    assert isinstance(view.map, FieldMap), "a side has no function"
    keys, value = view.map.key, decode_key(group)
    parts: Any = (value,) if keys.single else value
    document: dict[str, Any] = {}
    if view.projection == ((),):
        document = values[0]
    else:
        fields = zip(view.projection, values, strict=True)
        for path, field_value in sorted(fields, key=lambda one: len(one[0])):
            _put(document, path, field_value)
        for path, part in zip(keys.paths, parts, strict=True):
            _put(document, path, part)
    return JoinEntry({view.side: decode_key(key)}, {view.side: document})


def _put(document: dict[str, Any], path: Path, value: Any) -> None:
    """Set a field. A value above it in the document stays as it is."""
    for name in path[:-1]:
        below = document.setdefault(name, {})
        if not isinstance(below, dict):
            return
        document = below
    document.setdefault(path[-1], value)


@dataclass(frozen=True, slots=True)
class JoinTask:
    """The task that joins the entries of some condition values in one step of a join.

    Its rows go to `target`, the next step of this join or a step of a join on it. Without a target they become facts of
    the views on the join.
    """

    work: VerifyJob
    join: str
    step: int
    target: StepInput | None = None
    side: str | None = None
    """The side of the target's join that these rows are, if it is another join."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the entries for the target, or the facts."""
        app = self.work.app.app()
        join = join_of(app, self.join)
        step = join.steps()[1][self.step]
        inputs: dict[bool, list[JoinEntry]] = {False: [], True: []}
        for batch in batches:
            for blob in batch.column("blob").to_pylist():
                new, entries = pickle.loads(blob)
                inputs[new] += [JoinEntry(*one) for one in entries]
        rows = stepped(join, step, inputs[False], inputs[True], RecomputedJoin())
        if self.target is None:
            facts = Facts(self.work.parts, self.work.groups)
            yield from given_entries(join, self.step, inputs, facts)
            if self.step == len(join.steps()[1]) - 1:
                yield from self._facts(join, rows, facts)
            yield from facts.last()
            return
        own = join_of(app, self.target.join)
        sent = _SentEntries(self.work.parts, self.target.side is not None, self.target.value_paths(own))
        if self.side is not None:
            rows = iter(side_entries(own, self.side, selected_rows(join, rows), RecomputedJoin()))
        for row in rows:
            yield from sent.add(row)
        yield from sent.blobs()

    def _facts(self, join: Join, rows: Iterator[JoinEntry], facts: Facts) -> Iterator[Any]:
        """Yield the facts of the views on the join."""
        app = self.work.app.app()
        asked = [view for view in app.views() if view.source is join and view.name in self.work.views]
        with open_engine(app, self.work.path, readonly=True) as engine, engine.snapshot() as snap:
            views = [_RowMapper(view, [FactMapper(part, view, facts) for part in snap.parts], snap) for view in asked]
            for key, row in selected_rows(join, rows):
                encoded = encode_entry(key)
                for view in views:
                    view.add(key, encoded, row)
                if facts.full:
                    yield from facts.blobs()


class _RowMapper:
    """The mapper of one view on a join. The partition that owns a row has its emission and its hold."""

    def __init__(self, view: View, mappers: list[FactMapper], snap: Snapshot) -> None:
        self._mappers = mappers
        self._parts = snap.parts
        self._nodes = [part.schema.view(view.name, part.reader()) for part in snap.parts]
        self._remembers = isinstance(self._nodes[0].mapper, FunctionMapper)

    def add(self, key: Any, encoded: bytes, row: Any) -> None:
        """Add the contributions of a row."""
        mapper = next((own for own in self._mappers if own.holds(encoded)), self._mappers[0])
        mapper.tell(key, encoded, row, None, partial(self._emission, encoded) if self._remembers else None)

    def _emission(self, key: bytes) -> Pairs:
        """Return the remembered emission of a row."""
        for part, node in zip(self._parts, self._nodes, strict=True):
            groups = Groups()
            [found] = node.remembered(part.reader(), groups).emissions([stored_key(key)])
            if found is not None:
                return found.pairs(0, groups)
        return []
