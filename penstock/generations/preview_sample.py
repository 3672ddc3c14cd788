"""The documents of tables on which a preview tries an app.

A table has a sample from its whole log. A join needs documents that match. So the first side of a join is sampled.
The documents of the other sides are looked up by their condition values, by key or in a side index of the store.
Without either, and for a side that is a view, the tables of that side have samples of their own. Invariants:

- a document is in the sample of its table once, in its current version;
- memory holds at most `_ROWS` rows of a join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.cache import PenstockError, encode_key, normal_key, pack_document, segments_at
from penstock.core import Snapshot
from penstock.gateway import document_of, key_value, unwrap
from penstock.join import Conditions, Entries
from penstock.mapreduce import SourceKeys
from penstock.views import FieldMap, Join, Path, Side, SideView, Source, Table, View, reach

if TYPE_CHECKING:
    from penstock.gateway import TableReader

__all__ = ["Samples", "TableSample"]

_SAMPLE = 1_000  # documents of a table
_PLACES = 50  # places of the log from which a partial sample is taken
_ROWS = 20_000  # rows of a join for which documents are looked up
Row = dict[str, Any]
Found = Mapping[bytes, Sequence[Any]]  # documents by condition value
Find = Callable[[list[bytes]], Found]


@dataclass(slots=True)
class TableSample:
    """A sample of a table's documents: lines to put, the ts of some, and the keys."""

    all: bool
    lines: list[bytes] = field(default_factory=list)
    stamps: dict[int, Any] = field(default_factory=dict)
    keys: list[Any] = field(default_factory=list)
    documents: dict[bytes, Any] = field(default_factory=dict)  # by encoded key

    def add(self, table: Table, line: bytes) -> Any:
        """Add a stored line once, and return its document; None for a deletion."""
        found = unwrap(line)
        if found.absent:
            return None
        document = document_of(line)
        key = key_value(table, document)
        if (encoded := encode_key(key)) not in self.documents:
            if found.ts is not None:
                self.stamps[len(self.lines)] = found.ts
            self.keys.append(key)
            self.lines.append(pack_document(document) if found.line is None else found.line)
            self.documents[encoded] = document
        return self.documents[encoded]


class Samples:
    """The samples of tables, taken from one snapshot."""

    def __init__(self, snap: Snapshot) -> None:
        self.tables: dict[str, TableSample] = {}
        self._snap = snap
        self._read: set[str] = set()  # tables that have a sample of their own

    def add(self, source: Source) -> None:
        """Take the documents of the tables below a source."""
        if isinstance(source, View):
            self.add(source.source)
        else:
            self._rows(source)

    def _rows(self, source: Source) -> list[Any]:
        """Return documents of a table or rows of a join. Those of a view are not known."""
        if isinstance(source, Table):
            return self._sampled(source) if source.name in self._snap.schema.tables else []
        if isinstance(source, Join):
            return self._joined(source)
        self.add(source)
        return []

    def _sampled(self, table: Table) -> list[Any]:
        """Return documents from the whole log of a table."""
        own, most = self._of(table), _SAMPLE // len(self._snap.parts)
        if table.name not in self._read:
            self._read.add(table.name)
            number = self._snap.schema.tables[table.name].number
            for part in self._snap.parts:
                log = part.log(table.name)
                for line in log.lines() if len(log) <= most or own.all else _spread(part, log, number, most):
                    own.add(table, line)
        return list(own.documents.values())

    def _of(self, table: Table) -> TableSample:
        every = len(self._snap.table(table.name)) <= _SAMPLE
        return self.tables.setdefault(table.name, TableSample(every))

    def _joined(self, join: Join) -> list[Row]:
        """Return rows of a join without regard to its filters, beginning with its first side."""
        first = join.sides[0]
        rows: list[Row] = [{first.name: document} for document in self._rows(first.source)]
        known, left = {first.name}, list(join.sides[1:])
        while left:
            side, pairs = next((own, pairs) for own in left if (pairs := _pairs(join, known, own)))
            left.remove(side)
            known.add(side.name)
            paths, find = self._way(side, list(pairs))
            values = [_encoded([reach(row, pairs[path]) for path in paths]) for row in rows]
            found = find([value for value in dict.fromkeys(values) if value is not None])
            rows = list(islice(_extended(rows, side.name, values, found), _ROWS))
        return rows

    def _way(self, side: Side, paths: list[Path]) -> tuple[Sequence[Path], Find]:
        """Return the paths of a side by which its documents are found, and the function that finds them.

        Documents that match in some of the paths are enough for a sample.
        """
        table = side.source
        if isinstance(table, Table) and table.name in self._snap.schema.tables and not self._of(table).all:
            key = table.key
            if set(key.paths) <= set(paths) and key.single == (len(key.paths) == 1):
                return key.paths, lambda values: self._by_key(table, values) or self._scanned(table, key.paths)
            if (indexed := self._indexed(table, paths)) is not None:
                own = indexed.map
                assert isinstance(own, FieldMap), "a side has no function"
                at = own.key.paths
                return at, lambda values: self._by_index(table, indexed, values) or self._scanned(table, at)
        return paths, lambda _: self._scanned(table, paths)

    def _scanned(self, source: Source, paths: Sequence[Path]) -> Found:
        """Return the documents of a sample of their own by the values of these paths."""
        out: dict[bytes, list[Any]] = {}
        for document in self._rows(source):
            if (value := _encoded([reach(document, path) for path in paths])) is not None:
                out.setdefault(value, []).append(document)
        return out

    def _by_key(self, table: Table, values: list[bytes]) -> Found:
        """Look documents up by key. A composite key is a tuple, as its condition value is."""
        keys = SourceKeys.of_encoded(values)
        seed = self._snap.schema.tables[table.name].seed
        out: dict[bytes, list[Any]] = {}
        for part in self._snap.parts:
            for value, line in zip(values, part.log(table.name).lines_at(*keys.lanes(seed)), strict=True):
                if line is not None:
                    out.setdefault(value, []).append(self._of(table).add(table, line))
        return out

    def _indexed(self, table: Table, paths: list[Path]) -> SideView | None:
        """Return a side of the store with an index of all documents of a table by some of these paths."""
        for node in self._snap.schema.sides:
            own = node.view
            assert isinstance(own, SideView), "it is one of the sides"
            assert isinstance(own.map, FieldMap), "a side has no function"
            same = own.source.name == table.name and own.map.where is None and not own.by_key
            if same and set(own.map.key.paths) <= set(paths):
                return own
        return None

    def _by_index(self, table: Table, side: SideView, values: list[bytes]) -> Found:
        """Look documents up in a side index."""
        wanted = SourceKeys.of_encoded(values)
        conditions, [codes] = Conditions.of([Entries.of(wanted, wanted)])
        by_code = dict(zip(codes.tolist(), values, strict=True))
        out: dict[bytes, list[Any]] = {}
        for join, reader in self._snap.stored_joins(side.join):
            (stored,) = (own for own in join.sides if own.view.name == side.name)
            for index, entries in islice(stored.kept(reader).blocks(conditions), 1):
                keys = entries.keys().encoded()[:_ROWS]
                documents = self._by_key(table, keys)
                for code, key in zip(index.tolist(), keys, strict=False):
                    out.setdefault(by_code[code], []).extend(documents.get(key, ()))
        return out


def _pairs(join: Join, known: Iterable[str], side: Side) -> dict[Path, Path]:
    """Return paths of a side with the paths of known sides that must be equal, which begin with the name of theirs."""
    every = [*join.on, *((other, one) for one, other in join.on)]
    return {other[1:]: one for one, other in every if one[0] in known and other[0] == side.name}


def _encoded(parts: list[Any]) -> bytes | None:
    """Return a condition value; None if it is null or can't be one."""
    if any(part is None for part in parts):
        return None
    try:
        return encode_key(normal_key(parts[0] if len(parts) == 1 else tuple(parts)))
    except (PenstockError, TypeError):
        return None  # the trial holds this document, and says why


def _extended(rows: Iterable[Row], side: str, values: Iterable[bytes | None], found: Found) -> Iterator[Row]:
    """Yield each row with each of its matches; a row without one stays, since another side may match it."""
    for row, value in zip(rows, values, strict=True):
        matches = () if value is None else found.get(value, ())
        for document in matches or (None,):
            yield {**row, side: document}


def _spread(snap: Snapshot, table: TableReader, number: int, most: int) -> Iterator[bytes]:
    """Yield about `most` current lines, from evenly spaced places of a table's log."""
    reader, each = snap.reader(), max(1, most // _PLACES)
    first = next(table.segments()).base
    known: set[int] = set()
    for i in range(_PLACES):
        record = first + (table.tail - first) * i // _PLACES
        segment = next(segments_at(reader, number, record))
        at = np.arange(max(0, record - segment.base), len(segment))[: 4 * each]
        k1 = None if segment.k1 is None else segment.k1[at]
        living = table.newest(segment.k0[at], k1, segment.base + at)
        own = [j for j in at[living].tolist() if segment.base + j not in known][:each]
        known.update(segment.base + j for j in own)
        yield from segment.lines(np.array(own, np.int64))
