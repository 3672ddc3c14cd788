"""All contributions of the documents to one view, read in a snapshot: the input of a rebuild.

For a function view these are the remembered emissions. For a field view they follow from the document and the stored
definition. A held document contributes its last good emission. For a chained view the documents are the rows of the
parent view. Invariants:

- each document is read once, in its current version: any other contribution in the view is an orphan;
- the remembered emission of a deleted parent row counts until it is forgotten;
- memory holds one block of documents;
- the scan reads the store only, never the writer's caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, Segment, StoreDamaged, decode_key, is_long, record_key, stored_key
from penstock.gateway import NUMBER, Stamps, StoredLine, TableReader, key_of, stamps_of, unwrap
from penstock.mapreduce import (
    Column,
    Contributions,
    Decoder,
    Emissions,
    FieldMapper,
    FieldPlan,
    RowState,
    SourceKeys,
    Spaces,
    TreeReduce,
    ViewNode,
    emissions_db,
    held_db,
    stored_items,
)
from penstock.recovery.repair.stored_view import UNREADABLE
from penstock.views import TS, Key, Merge, Progress, Table

Index = NDArray[np.int64]
BLOCK = 1 << 12  # documents that are in memory at once
_NO_KEY = Key((), False)


@dataclass(slots=True)
class _DocumentBlock:
    """Documents of a table: their lanes, record numbers and lines."""

    k0: NDArray[np.uint64]
    k1: NDArray[np.uint64] | None
    records: Index
    lines: list[bytes]

    def take(self, at: Index) -> _DocumentBlock:
        return _DocumentBlock(
            self.k0[at],
            None if self.k1 is None else self.k1[at],
            self.records[at],
            [self.lines[i] for i in at.tolist()],
        )


class DocumentScan:
    """One pass over the documents of a view; contributions use the group codes of `node`, which nothing else uses.

    With `asked`, only groups with codes below it count. `spaces` may be exchanged between blocks. `reader` reads the
    documents and their remembered emissions; `trees` reads the groups, in whichever partition they lie.
    """

    def __init__(
        self,
        node: ViewNode,
        spaces: Callable[[], Spaces],
        asked: int | None,
        reader: Reader,
        trees: Reader,
        progress: Progress | None,
    ) -> None:
        self._node = node
        self._spaces = spaces
        self._asked = asked
        self._reader = reader
        self._trees = trees
        self._progress = progress
        self.unreadable: list[bytes] = []  # keys of parent rows
        self._decoding: tuple[Spaces, Decoder] | None = None

    # -- the documents of a table

    def of_table(self, table: Table, documents: TableReader) -> Iterator[Contributions]:
        """Yield the contributions of the documents of a table."""
        if isinstance(self._node.mapper, FieldMapper):
            for block in self._blocks(documents):
                yield self._by_fields(self._node.mapper, table, documents, block)
            yield from self._held()
        else:
            yield from self._remembered(table, documents)

    def _blocks(self, table: TableReader) -> Iterator[_DocumentBlock]:
        """Yield the newest lines, block by block. With `asked` older lines are still included."""
        first: int | None = None
        for block in table.blocks():
            own = _DocumentBlock(block.k0, block.k1, block.records, block.lines)
            if self._asked is None:
                own = own.take(np.flatnonzero(table.newest(own.k0, own.k1, own.records)))
            yield own
            first = int(block.records[0]) if first is None else first
            self._tell(int(block.records[-1]) + 1 - first, table.tail - first)

    def _by_fields(
        self, mapper: FieldMapper, table: Table, documents: TableReader, block: _DocumentBlock
    ) -> Contributions:
        present, found = _present(block)
        block = block.take(present)
        columns = self._columns(table, found)
        take = self._emits(mapper, columns)
        at = np.flatnonzero(take)
        if self._asked is not None and at.size:
            k1 = None if block.k1 is None else block.k1[at]
            at = at[documents.newest(block.k0[at], k1, block.records[at])]
        at = at[self._not_held(table, block.take(at))]
        own = block.take(at)
        out = mapper.contributions(columns, at).of(keys_of(table, own), np.arange(at.size))
        if self._node.stamped:
            out.inputs[TS] = _stamps(table, [found[i] for i in at.tolist()], columns.ts, at)
        return out

    def _emits(self, mapper: FieldMapper, columns: Any) -> NDArray[np.bool_]:
        codes = columns.codes[mapper.fields.key]
        take = codes >= 0
        if self._asked is not None:
            take &= codes < self._asked
        selected, bad = mapper.selected(columns), mapper.bad(columns)
        if selected is not None:
            take &= selected
        if bad is not None:
            take &= ~bad
        return np.asarray(take, bool)

    def _columns(self, table: Table | None, found: Sequence[StoredLine]) -> Any:
        decoder = self._decoder(table)
        patched = [one.patched.fields for one in found if one.patched is not None]
        if patched:
            return decoder.of_dicts(patched, keys=False)
        return decoder.columns([one.line for one in found if one.line is not None], keys=False)

    def _decoder(self, table: Table | None) -> Decoder:
        """Return the decoder for the fields that this view reads."""
        spaces = self._spaces()
        if self._decoding is None or self._decoding[0] is not spaces:
            ts = table.ts if table is not None and self._node.stamped else None
            self._decoding = spaces, Decoder(FieldPlan.of(_NO_KEY, ts, [self._node.view]), spaces, 0)
        return self._decoding[1]

    def _not_held(self, table: Table, block: _DocumentBlock) -> NDArray[np.bool_]:
        db = held_db(self._node.number)
        if not block.lines or not self._reader.count(db):
            return np.ones(len(block.lines), bool)
        keys = keys_of(table, block).encoded()
        rows = self._reader.get_many(db, [stored_key(key) for key in keys])
        return np.fromiter((row is None for row in rows), bool, len(rows))

    # -- what functions yielded for documents of a table

    def _remembered(self, table: Table, documents: TableReader) -> Iterator[Contributions]:
        parts: list[tuple[Emissions, _DocumentBlock]] = []
        n, first = 0, None
        for segment in documents.segments():
            first = segment.base if first is None else first
            found = self._segment_emissions(segment, documents)
            if found is not None:
                parts.append(found)
                n += len(found[1].lines)
            if n >= BLOCK:
                yield self._yielded(table, parts)
                parts, n = [], 0
            self._tell(segment.base + len(segment) - first, documents.tail - first)
        if parts:
            yield self._yielded(table, parts)

    def _segment_emissions(self, segment: Segment, documents: TableReader) -> tuple[Emissions, _DocumentBlock] | None:
        """Return the remembered emissions for the newest lines of a segment, or None if there are none."""
        [emissions] = self._node.remembered(self._reader).emissions([record_key(segment.base)])
        if emissions is None:
            return None
        at = np.arange(min(emissions.documents, len(segment)))
        if self._asked is not None:
            whose = at if emissions.counts is None else np.repeat(np.arange(emissions.documents), emissions.counts)
            at = np.unique(whose[emissions.code < self._asked])
        k1 = None if segment.k1 is None else segment.k1[at]
        at = at[documents.newest(segment.k0[at], k1, segment.base + at)] if at.size else at
        if not at.size:
            return None
        k1 = None if segment.k1 is None else segment.k1[at].copy()
        hashed = k1 is not None and bool(k1.any())
        lines = segment.lines(at) if hashed or self._node.stamped else [b""] * int(at.size)
        return emissions.take(at), _DocumentBlock(segment.k0[at].copy(), k1, segment.base + at, lines)

    def _yielded(self, table: Table, parts: list[tuple[Emissions, _DocumentBlock]]) -> Contributions:
        emissions = Emissions.join([own for own, _ in parts])
        block = _joined([block for _, block in parts])
        found: list[StoredLine] = []
        if self._node.stamped:
            present, found = _present(block)
            emissions, block = emissions.take(present), block.take(present)
        who = np.arange(emissions.documents)
        out = self._node.emitted(emissions, (keys_of(table, block), who))
        if self._node.stamped:
            column = _stamps(table, found, self._columns(table, found).ts, who)
            assert out.sources is not None, "they were just said to be of someone"
            out.inputs[TS] = column.take(out.sources.index)
            held = ~self._not_held(table, block)
            self._stamp_held(out, held[out.sources.index])
        return self._wanted(out)

    def _wanted(self, out: Contributions) -> Contributions:
        return out if self._asked is None else out.take(np.flatnonzero(out.code < self._asked))

    # -- what is held

    def _held(self) -> Iterator[Contributions]:
        """Yield the last good emissions of the held documents of a field view."""
        rows = self._node.remembered(self._reader).all_held()
        while held := [own for _, own in islice(rows, BLOCK)]:
            keys = SourceKeys.of_encoded([own.whole for own in held])
            out = self._node.pair_contributions([own.pairs for own in held], (keys, np.arange(len(held))))
            if self._node.stamped:
                out.inputs[TS] = Column.nulls(out.n)
                self._stamp_held(out, np.ones(out.n, bool))
            yield self._wanted(out)

    def _stamp_held(self, out: Contributions, held: NDArray[np.bool_]) -> None:
        """Set the ts of held documents' contributions to the one stored in the tree, their only copy."""
        reduce, at = self._node.reduce, np.flatnonzero(held)
        if not at.size:
            return
        assert isinstance(reduce, TreeReduce), "a view that reads ts keeps contributions"
        assert out.sources is not None, "and is told whose they are"
        codes = sorted(set(out.code[at].tolist()))
        known: dict[tuple[int, bytes, int], Any] = {}
        for code in codes:
            try:
                [items] = stored_items(reduce, self._trees, [self._node.groups.whole(code)])
            except (StoreDamaged, AssertionError):
                continue  # the tree is damaged too
            stamps = items.columns[-1].values()
            known.update(((code, *source), ts) for source, ts in zip(items.sources(), stamps, strict=True))
        values = out.inputs[TS].values()
        keys = out.sources.keys.encoded()
        ranks = out.sources.rank
        for i in at.tolist():
            rank = 0 if ranks is None else int(ranks[i])
            source = (int(out.code[i]), keys[int(out.sources.index[i])], rank)
            values[i] = known.get(source, values[i])
        out.inputs[TS] = Column.of(values)

    # -- the rows of a view

    def of_rows(self, source: ViewNode) -> Iterator[Contributions]:
        """Yield the contributions of the parent view's rows to this view."""
        mapper = self._node.mapper
        db = source.reduce.db if isinstance(mapper, FieldMapper) else emissions_db(self._node.number)
        done, total = 0, self._reader.count(db)
        rows = self._reader.scan(db)
        while block := list(islice(rows, BLOCK)):
            if isinstance(mapper, FieldMapper):
                yield self._of_rows(mapper, source, block)
            else:
                yield self._row_emissions(source, block)
            done += len(block)
            self._tell(done, total)
        if not isinstance(mapper, FieldMapper):
            return
        yield from self._held()

    def _of_rows(self, mapper: FieldMapper, source: ViewNode, block: list[tuple[bytes, bytes]]) -> Contributions:
        block, states = self._read(source, block)
        codec = source.reduce.codec
        keys = [state.whole or key for (key, _), state in zip(block, states, strict=True)]
        docs = [{"key": decode_key(key), "value": codec.result(s)} for key, s in zip(keys, states, strict=True)]
        columns = self._decoder(None).of_dicts(docs, keys=False)
        at = np.flatnonzero(self._emits(mapper, columns))
        db = held_db(self._node.number)
        if at.size and self._reader.count(db):
            rows = self._reader.get_many(db, [block[i][0] for i in at.tolist()])
            at = at[[row is None for row in rows]]
        return mapper.contributions(columns, at).of(SourceKeys.of_encoded(keys), at)

    def _read(
        self, source: ViewNode, block: list[tuple[bytes, bytes]]
    ) -> tuple[list[tuple[bytes, bytes]], list[RowState]]:
        """Decode the readable rows of a view. Add the keys of the others to `unreadable`."""
        good: list[tuple[bytes, bytes]] = []
        states: list[RowState] = []
        for key, row in block:
            state = self._row(source, key, row)
            if state is None:
                self.unreadable.append(key)
            else:
                good.append((key, row))
                states.append(state)
        return good, states

    @staticmethod
    def _row(source: ViewNode, key: bytes, row: bytes) -> RowState | None:
        """Decode a row of a view. Return None if it is damaged or names another group."""
        try:
            state = source.reduce.codec.decode(key, row, f"view {source.name!r}")
            source.reduce.codec.result(state)
            named = stored_key(state.whole or b"") == key if is_long(key) else state.whole is None
        except UNREADABLE:
            return None
        return state if named else None

    def _row_emissions(self, source: ViewNode, block: list[tuple[bytes, bytes]]) -> Contributions:
        wholes = self._wholes(source, [key for key, _ in block if is_long(key)])
        if self._node.keeps:  # without its group a long key can't name a contribution source
            block = [(key, row) for key, row in block if not is_long(key) or key in wholes]
        remembered = self._node.remembered(self._reader)
        rows = [remembered.emissions_in(key, row) for key, row in block]
        emissions = Emissions.join(rows) if rows else Emissions.none(0)
        whose = SourceKeys.of_encoded([wholes.get(key) or key if self._node.keeps else b"\x01" for key, _ in block])
        return self._wanted(self._node.emitted(emissions, (whose, np.arange(emissions.documents))))

    def _wholes(self, source: ViewNode, keys: list[bytes]) -> dict[bytes, bytes]:
        """Return the whole encodings of long parent groups that have a row."""
        found = zip(keys, self._reader.get_many(source.reduce.db, keys), strict=True)
        rows, states = self._read(source, [(key, row) for key, row in found if row is not None])
        return {key: state.whole for (key, _), state in zip(rows, states, strict=True) if state.whole is not None}

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


def _present(block: _DocumentBlock) -> tuple[Index, list[StoredLine]]:
    """Return the indexes and parts of the lines that hold a document. The others are tombstones."""
    found = [unwrap(line) for line in block.lines]
    return np.flatnonzero([not one.absent for one in found]), [one for one in found if not one.absent]


def keys_of(table: Table, block: _DocumentBlock) -> SourceKeys:
    """Return the keys of documents as contribution sources."""
    lanes = block.k0.view(np.int64)
    if block.k1 is None or not block.k1.any():
        return SourceKeys(lanes, None)
    text: NDArray[np.object_] = np.full(lanes.size, None, object)
    hashed = np.flatnonzero(block.k1)
    text[hashed] = [key_of(table, block.lines[i]) for i in hashed.tolist()]
    return SourceKeys(np.where(block.k1 == 0, lanes, 0), text)


def _joined(parts: Sequence[_DocumentBlock]) -> _DocumentBlock:
    k1: NDArray[np.uint64] | None = None
    if any(p.k1 is not None for p in parts):
        k1 = np.concatenate([np.zeros(p.k0.size, np.uint64) if p.k1 is None else p.k1 for p in parts])
    return _DocumentBlock(
        np.concatenate([p.k0 for p in parts]),
        k1,
        np.concatenate([p.records for p in parts]),
        [line for p in parts for line in p.lines],
    )


def _stamps(table: Table, found: Sequence[StoredLine], ts: Any, at: Index) -> Column:
    """Return the ts of documents; `ts` has the values of their ts fields, at the indexes `at`."""
    if table.merge is Merge.PATCH:
        every = [one.patched for one in found]
        return Column.of([None if p is None or not p.stamps else max(p.stamps.values()) for p in every])
    if table.ts is not None:
        stamps: Stamps = stamps_of(ts, None, set())[0]
        return stamps.take(at).column()
    return stamps_of([one.ts for one in found], NUMBER, set())[0].column()
