"""The rows of a view or a join as entries of a side of a join, read in any snapshot.

Invariants:

- each row is read once; one that the side holds counts with its last accepted version;
- memory holds one block of rows. Only the store is read, never the writer's caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, decode_key, encode_key, stored_key
from penstock.join import (
    Entries,
    Ints,
    JoinedRows,
    JoinParts,
    RowColumns,
    SideNode,
    StoredJoin,
    ViewColumns,
    row_plan,
    row_sources,
)
from penstock.mapreduce import (
    Column,
    DecodedColumns,
    Decoder,
    FieldColumns,
    FieldMapper,
    FieldPlan,
    Held,
    SourceKeys,
    Spaces,
    codec_of,
    rows_db,
)
from penstock.views import Key, SideView, View, group_in_key

__all__ = [
    "JoinSideDocuments",
    "RowSideDocuments",
    "found_fields",
    "held_among",
    "held_entries",
    "mapped_entries",
    "may_hold",
    "with_accepted",
]

_BLOCK = 1 << 12  # rows that are in memory at once


class RowSideDocuments:
    """The documents of a side whose source is a view."""

    def __init__(self, side: SideView, number: int, source: View, rows: int) -> None:
        self._side = side
        self._number = number
        self._codec = codec_of(source)
        self._name = source.name
        self._rows = rows_db(rows)

    def all(self, reader: Reader) -> Iterator[Entries]:
        """Yield all entries."""
        node, decoder = self._decoding()
        rows = reader.scan(self._rows)
        while block := list(islice(rows, _BLOCK)):
            keys, columns = self._read(decoder, block)
            yield mapped_entries(node, reader, columns, SourceKeys.of_encoded(keys))
        yield from held_entries(node, reader)

    def part(self, reader: Reader, begin: bytes, most: int) -> tuple[Entries, bytes | None]:
        """Return the entries of about `most` rows from a stored key on, and the key after them."""
        block = list(islice(reader.scan(self._rows, begin), most + 1))
        end = block.pop()[0] if len(block) > most else None
        found = [Entries.none(len(self._side.projection))]
        if block:
            node, decoder = self._decoding()
            encoded, columns = self._read(decoder, block)
            keys = SourceKeys.of_encoded(encoded)
            found += [mapped_entries(node, reader, columns, keys), *held_among(node, reader, keys)]
        return Entries.join(found), end

    def before(self, keys: SourceKeys, place: bytes) -> NDArray[np.bool_]:
        """Mark the rows with these keys that are before a place."""
        encoded = keys.encoded()
        if self._side.nests_null:
            encoded = [encode_key(group_in_key(decode_key(key))) for key in encoded]
        return np.array([stored_key(key) < place for key in encoded], bool)

    def find(self, reader: Reader, keys: SourceKeys) -> tuple[Ints, Sequence[Column]]:
        """Return the index of each key that has an entry, and the fields of the entries."""
        names = [stored_key(key) for key in keys.encoded()]
        rows = reader.get_many(self._rows, names)
        block = [(name, row) for name, row in zip(names, rows, strict=True) if row is not None]
        index = np.flatnonzero([row is not None for row in rows])
        if not block:
            return index, []
        node, decoder = self._decoding()
        return found_fields(node, reader, self._read(decoder, block)[1], keys, index)

    def _decoding(self) -> tuple[SideNode, Decoder]:
        """Return a node that nothing else uses, and the decoder for the fields that it reads."""
        spaces = Spaces()
        node = SideNode(self._side, self._number, spaces)
        return node, Decoder(FieldPlan.of(Key((), False), None, [self._side]), spaces, 0)

    def _read(self, decoder: Decoder, block: Sequence[tuple[bytes, bytes]]) -> tuple[list[bytes], DecodedColumns]:
        """Return the encoded keys of rows, and their columns."""
        states = [self._codec.decode(key, row, f"view {self._name!r}") for key, row in block]
        keys = [state.whole or key for (key, _), state in zip(block, states, strict=True)]
        results = map(self._codec.result, states)
        docs = [{"key": decode_key(key), "value": own} for key, own in zip(keys, results, strict=True)]
        return keys, decoder.of_dicts(docs, keys=False)


class JoinSideDocuments:
    """The documents of a side whose source is another join."""

    def __init__(self, side: SideView, number: int, source: StoredJoin) -> None:
        self._side = side
        self._number = number
        self._source = source

    def all(self, reader: Reader) -> Iterator[Entries]:
        """Yield all entries."""
        spaces = Spaces()
        node = SideNode(self._side, self._number, spaces)
        for rows in self._source.rows(reader):
            yield mapped_entries(node, reader, self._columns(spaces, rows), row_sources(rows))
        yield from held_entries(node, reader)

    def part(self, reader: Reader, begin: bytes, most: int) -> tuple[Entries, bytes | None]:
        """Return the entries of about `most` rows from a place of the join on, and the place after them."""
        spaces = Spaces()
        node = SideNode(self._side, self._number, spaces)
        own = JoinParts(self._source).part(reader, begin, most)
        found = [Entries.none(len(self._side.projection))]
        for rows in own.rows():
            keys = row_sources(rows)
            found += [mapped_entries(node, reader, self._columns(spaces, rows), keys), *held_among(node, reader, keys)]
        return Entries.join(found), own.end

    def before(self, keys: SourceKeys, place: bytes) -> NDArray[np.bool_]:
        """Mark the rows with these keys that are before a place."""
        return JoinParts(self._source).keys_before([decode_key(key) for key in keys.encoded()], place)

    def _columns(self, spaces: Spaces, rows: JoinedRows) -> ViewColumns:
        return ViewColumns(row_plan(self._side), spaces, RowColumns(self._source.row_sides, rows))

    def find(self, reader: Reader, keys: SourceKeys) -> tuple[Ints, Sequence[Column]]:
        """Refuse: no condition is the key of a joined row."""
        raise AssertionError("a side that is a join has an index")


def mapped_entries(node: SideNode, reader: Reader, columns: FieldColumns, keys: SourceKeys) -> Entries:
    """Return the entries of documents with these keys, but of held ones."""
    assert isinstance(node.mapper, FieldMapper), "a side has no function"
    mapped, _ = node.mapper.mapped(columns, None, np.arange(keys.lane.size))
    out = mapped.sourced(keys)
    if not out.n or not reader.count(node.held_db):
        return node.entries([out])
    assert out.sources is not None, "it was given"
    names = [stored_key(key) for key in keys.encoded()]
    rows = reader.get_many(node.held_db, [names[i] for i in out.sources.index.tolist()])
    return node.entries([out.take(np.flatnonzero([row is None for row in rows]))])


def with_accepted(
    node: SideNode, reader: Reader, keys: SourceKeys, index: Ints, columns: Sequence[Column]
) -> tuple[Ints, list[Column]]:
    """Replace documents that were looked up and are held by their last accepted versions.

    `columns` has the projection of the documents at `index` of the keys.
    """
    out = list(columns)
    names = [stored_key(key) for key in keys.encoded()]
    rows = reader.get_many(node.held_db, names)
    held = [i for i, row in enumerate(rows) if row is not None]
    if not held:
        return index, out
    known = node.remembered(reader).held([names[i] for i in held])
    accepted = [i for i in held if known[names[i]].pairs]
    inputs = node.pair_contributions([known[names[i]].pairs for i in accepted]).inputs
    left = np.flatnonzero(~np.isin(index, held))
    every = np.concatenate([index[left], np.array(accepted, np.int64)])
    order = np.argsort(every)
    joined = zip(node.side.projection, out, strict=True)
    return every[order], [Column.join([own.take(left), inputs[path]]).take(order) for path, own in joined]


def may_hold(node: SideNode, reader: Reader) -> bool:
    """Return True if a key side may hold a document. Its own condition value is a key, so others must be checked."""
    return node.side.checked is not None and bool(reader.count(node.held_db))


def found_fields(
    node: SideNode, reader: Reader, columns: DecodedColumns, keys: SourceKeys, index: Ints
) -> tuple[Ints, Sequence[Column]]:
    """Return the fields of documents that were looked up, with the index of each key, and without filtered ones."""
    assert isinstance(node.mapper, FieldMapper), "a side has no function"
    inputs = [columns.inputs[path] for path in node.side.projection]
    selected = node.mapper.selected(columns)
    if selected is not None:
        index, inputs = index[selected], [column.take(selected) for column in inputs]
    if may_hold(node, reader):
        index, inputs = with_accepted(node, reader, keys, index, inputs)
    return index, inputs


def held_entries(node: SideNode, reader: Reader) -> Iterator[Entries]:
    """Yield the entries of held documents."""
    held = (one for _, one in node.remembered(reader).all_held())
    while some := list(islice(held, _BLOCK)):
        yield _entries_of(node, some)


def held_among(node: SideNode, reader: Reader, keys: SourceKeys) -> Iterator[Entries]:
    """Yield the entries of the held documents among these."""
    if reader.count(node.held_db):
        found = node.remembered(reader).held([stored_key(key) for key in keys.encoded()])
        if found:
            yield _entries_of(node, list(found.values()))


def _entries_of(node: SideNode, held: Sequence[Held]) -> Entries:
    keys = SourceKeys.of_encoded([one.whole for one in held])
    return node.entries([node.pair_contributions([one.pairs for one in held], (keys, np.arange(len(held))))])
