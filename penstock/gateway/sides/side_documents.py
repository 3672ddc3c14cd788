"""The documents of a table as entries of a side of a join, read in any snapshot.

Invariants:

- each document is read once, in its current version; a held one counts with its last accepted version;
- memory holds one block of documents. Only the store is read, never the writer's caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, key_hash
from penstock.gateway.document_reader import LineBlock, TableReader, Tails
from penstock.gateway.lines.stored_lines import StoredLine, unwrap
from penstock.gateway.sides.side_rows import (
    found_fields,
    held_among,
    held_entries,
    mapped_entries,
    may_hold,
    with_accepted,
)
from penstock.gateway.view_deltas import key_of
from penstock.join import Entries, Ints, SideNode
from penstock.mapreduce import (
    Column,
    DecodedColumns,
    Decoder,
    FieldPlan,
    SourceKeys,
    Spaces,
)
from penstock.views import Key, SideView, Table

__all__ = ["TableSideDocuments"]

_HASH = 8  # bytes of a place, which is the hash of a key


class TableSideDocuments:
    """The documents of a side whose source is a table."""

    def __init__(self, side: SideView, number: int, table: Table, documents: int, seed: int) -> None:
        self._side = side
        self._number = number
        self._table = table
        self._documents = documents  # the number of the table
        self._seed = seed
        self._tails = Tails()

    def all(self, reader: Reader) -> Iterator[Entries]:
        """Yield all entries."""
        node, decoder = self._decoding()
        table = self._table_in(reader)
        for block in table.blocks():
            newest = np.flatnonzero(table.newest(block.k0, block.k1, block.records))
            yield from (mapped_entries(node, reader, *own) for own in self._columns_at(decoder, block, newest))
        yield from held_entries(node, reader)

    def part(self, reader: Reader, begin: bytes, most: int) -> tuple[Entries, bytes | None]:
        """Return the entries of about `most` documents from a place on, and the place after them."""
        block, end = self._table_in(reader).hashed_from(int.from_bytes(begin, "big"), most)
        node, decoder = self._decoding()
        found = [Entries.none(len(self._side.projection))]
        for columns, keys in self._columns_at(decoder, block, np.arange(len(block.lines))):
            found += [mapped_entries(node, reader, columns, keys), *held_among(node, reader, keys)]
        return Entries.join(found), None if end is None else end.to_bytes(_HASH, "big")

    def before(self, keys: SourceKeys, place: bytes) -> NDArray[np.bool_]:
        """Mark the documents with these keys that are before a place."""
        own: NDArray[np.bool_] = key_hash(*keys.lanes(self._seed)) < np.uint64(int.from_bytes(place, "big"))
        return own

    def _columns_at(
        self, decoder: Decoder, block: LineBlock, at: NDArray[np.int64]
    ) -> Iterator[tuple[DecodedColumns, SourceKeys]]:
        """Yield the columns and keys of the documents at these places, if there are any."""
        found = [unwrap(block.lines[i]) for i in at.tolist()]
        present = np.flatnonzero([not one.absent for one in found])
        if present.size:
            yield _columns(decoder, [found[i] for i in present.tolist()]), self._keys(block, at[present])

    def find(self, reader: Reader, keys: SourceKeys) -> tuple[Ints, Sequence[Column]]:
        """Return the index of each key that has an entry, and the fields of the entries."""
        lines = self._table_in(reader).lines_at(*keys.lanes(self._seed))
        index = np.flatnonzero([line is not None for line in lines])
        if not index.size:
            return index, []
        node, decoder = self._decoding()
        columns = _columns(decoder, [unwrap(line) for line in lines if line is not None])
        return found_fields(node, reader, columns, keys, index)

    def accepted(
        self, reader: Reader, keys: SourceKeys, index: Ints, columns: Sequence[Column]
    ) -> tuple[Ints, Sequence[Column]]:
        """Replace held documents among those that were found in memory by their last accepted versions."""
        node, _ = self._decoding()
        return with_accepted(node, reader, keys, index, columns) if may_hold(node, reader) else (index, columns)

    def _table_in(self, reader: Reader) -> TableReader:
        return TableReader(self._table, self._documents, self._seed, lambda: reader, self._tails, frozenset)

    def _decoding(self) -> tuple[SideNode, Decoder]:
        """Return a node that nothing else uses, and the decoder for the fields that it reads."""
        spaces = Spaces()
        node = SideNode(self._side, self._number, spaces)
        return node, Decoder(FieldPlan.of(Key((), False), None, [self._side]), spaces, self._seed)

    def _keys(self, block: LineBlock, at: NDArray[np.int64]) -> SourceKeys:
        """Return the keys of the documents at these places."""
        lane = block.k0[at].view(np.int64)
        hashed = np.zeros(at.size, bool) if block.k1 is None else block.k1[at] != 0
        if not hashed.any():
            return SourceKeys(lane, None)
        text = np.full(at.size, None, object)
        text[hashed] = [key_of(self._table, block.lines[i]) for i in at[hashed].tolist()]
        return SourceKeys(np.where(hashed, 0, lane), text)


def _columns(decoder: Decoder, found: list[StoredLine]) -> DecodedColumns:
    patched = [one.patched.fields for one in found if one.patched is not None]
    if patched:
        return decoder.of_dicts(patched, keys=False)
    return decoder.columns([one.line for one in found if one.line is not None], keys=False)
