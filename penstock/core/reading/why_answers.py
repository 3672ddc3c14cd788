"""The contributions to groups of a view, read from a snapshot.

If the view keeps contributions, they are looked up by group. Otherwise one scan of all documents serves all groups. It
decodes all lines of a table's log, because that costs less than to skip older versions; those are dropped afterwards. A
held document counts with its held row. Only the store is read, never the writer's caches, so every process gets the
same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np

from penstock.cache import (
    KeyKind,
    KeyTooLong,
    Reader,
    StoreDamaged,
    canonical,
    decode_key,
    encode_entry,
    encode_key,
    is_long,
    record_key,
    stored_key,
    unpack,
)
from penstock.gateway import LineBlock, TableReader, TableReading, unwrap
from penstock.join import StoredJoin, encoded_keys, row_documents
from penstock.mapreduce import (
    ContributionShape,
    EmissionSearch,
    FieldSearch,
    Found,
    Hit,
    ViewNode,
    emissions_db,
    held_db,
    stored_contributions,
)
from penstock.views import (
    Contribution,
    ContributionDocuments,
    FieldMap,
    Join,
    Progress,
    Row,
    SideView,
    Source,
    View,
    ViewReader,
    group_in_key,
    reach,
    side_views,
)

_BLOCK = 1 << 12  # rows that are in memory at once


Parent = ViewNode | StoredJoin


class Reading(Protocol):
    """A snapshot of tables and views."""

    def reader(self) -> Reader:
        """Return the read transaction."""
        ...

    def view(self, name: str) -> ViewReader:
        """Return the groups and results of a view."""
        ...

    def table(self, name: str) -> TableReading:
        """Return the documents of a table."""
        ...

    def stored_joins(self, name: str) -> Iterator[tuple[StoredJoin, Reader]]:
        """Yield a join as each partition has it, with the reader of that partition."""
        ...

    def log(self, name: str) -> TableReader:
        """Return the documents of a table as they lie in its log."""
        ...


def why_of(
    snap: Reading, view: ViewNode, source: Parent | None, groups: Sequence[bytes], progress: Progress | None
) -> list[list[Contribution]]:
    """Return the contributions to these groups of a view; `source` is its parent view or join, None for a table."""
    distinct = list(dict.fromkeys(groups))
    if view.keeps:
        found = stored_contributions(view, snap.reader(), distinct)
    else:
        found = _Scan(snap, view, distinct, progress).found(source)
    made = {group: _made(snap, view.view, view.number, own) for group, own in zip(distinct, found, strict=True)}
    return [list(made[group]) for group in groups]


def _made(snap: Reading, view: View, number: int, found: list[Found]) -> list[Contribution]:
    found.sort(key=lambda one: one[:2])
    held = _held_among(snap.reader(), number, [key for key, _, _ in found])
    whole = [decode_key(key) for key, _, _ in found]
    documents = ContributionDocuments(whole, _reading(snap, view))
    rows = zip(map(view.source.shown_key, whole), found, strict=True)
    return [
        Contribution(key, rank, value, own in held, documents, i) for i, (key, (own, rank, value)) in enumerate(rows)
    ]


def _reading(snap: Reading, view: View) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the function that reads the documents of a view."""
    name, source = view.source.name, view.source
    if isinstance(source, Join):
        return lambda keys: joined_rows(snap, source, keys)
    if not isinstance(source, View):
        return lambda keys: snap.table(name).get_many(keys)
    return lambda keys: list(map(Row, keys, snap.view(name).get_many(keys)))


def joined_rows(snap: Reading, join: Join, keys: Sequence[Any]) -> list[Any]:
    """Return the rows of a join with these whole keys, from the documents of its sides. A missing side is null."""
    parts: list[list[Any]] = []
    views = dict(enumerate(side_views(join))) if join.how == "left" else {}  # others lack no side, or nest null
    for i, side in enumerate(join.row_sides):
        nested, of_view = join.nests_null(side), isinstance(side.source, View)
        at = [n for n, key in enumerate(keys) if key[i] is not None or (of_view and not nested)]
        asked = [group_in_key(keys[n][i]) if nested else keys[n][i] for n in at]
        found = _side_documents(snap, side.source, asked) if at else []
        own: list[Any] = [None] * len(keys)
        for n, document in zip(at, found, strict=True):
            if keys[n][i] is not None or not views or _has_value(views[i], document, keys[n]):
                own[n] = document
        parts.append(own)
    names = [side.name for side in join.row_sides]
    return [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]


def _has_value(side: SideView, row: Any, key: Any) -> bool:
    """Return True if a joined row has this row of a view whose group is null; else its side is missing."""
    *others, value = key
    if value is None:
        return all(other is None for other in others)
    assert isinstance(side.map, FieldMap), "a side has no function"
    parts = tuple(reach(row, path) for path in side.map.key.paths)
    try:
        return encode_key(parts[0] if side.map.key.single else parts) == encode_key(value)
    except (KeyKind, KeyTooLong):
        return False


def _side_documents(snap: Reading, source: Source, keys: Sequence[Any]) -> list[Any]:
    """Return the documents of a side with these keys. The row of a view has its key in the form of documents."""
    if isinstance(source, Join):
        return joined_rows(snap, source, keys)
    if isinstance(source, View):
        results = snap.view(source.name).get_many(keys)
        return [{"key": unpack(canonical(key)), "value": own} for key, own in zip(keys, results, strict=True)]
    return snap.table(source.name).get_many(keys)


def _held_among(reader: Reader, view: int, keys: Sequence[bytes]) -> frozenset[bytes]:
    """Return the keys of these documents that the view holds."""
    db, out = held_db(view), set[bytes]()
    if reader.count(db):
        for a in range(0, len(keys), _BLOCK):
            block = keys[a : a + _BLOCK]
            rows = reader.get_many(db, [stored_key(key) for key in block])
            out.update(key for key, row in zip(block, rows, strict=True) if row is not None)
    return frozenset(out)


class _Scan:
    """One scan of the documents of a view, or of their remembered emissions."""

    def __init__(self, snap: Reading, view: ViewNode, groups: Sequence[bytes], progress: Progress | None) -> None:
        self._snap = snap
        self._reader = snap.reader()
        self._view = view
        self._groups = groups
        self._progress = progress
        self._found: list[list[Found]] = [[] for _ in groups]

    def found(self, source: Parent | None) -> list[list[Found]]:
        """Return the contributions by group, in any order."""
        view = self._view
        if isinstance(view.view.map, FieldMap):
            search = FieldSearch(view.view, view.view.map, self._groups)
            if source is None:
                self._documents(search, self._snap.log(view.view.source.name))
            elif isinstance(source, StoredJoin):
                self._joined_rows(search, source.join)
            else:
                self._rows(search, source)
            self._held()
        elif source is None:
            self._remembered(EmissionSearch(self._groups), self._snap.log(view.view.source.name))
        else:
            self._row_emissions(EmissionSearch(self._groups), source)
        return self._found

    def _take(self, hits: Sequence[Hit], keys: Sequence[bytes | None]) -> None:
        """Add the hits of documents with these keys; skip None, which marks an older version."""
        for hit, key in zip(hits, keys, strict=True):
            if key is not None:
                self._found[hit.group].append((key, hit.rank, hit.value))

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)

    # -- field views

    def _documents(self, search: FieldSearch, table: TableReader) -> None:
        first: int | None = None
        for block in table.blocks():
            found = [unwrap(line) for line in block.lines]
            present = np.flatnonzero([not one.absent for one in found])
            patched = [one.patched.fields for one in found if one.patched is not None and not one.absent]
            lines = [one.line for one in found if one.line is not None]
            assert not (patched and lines), "a table's documents are all merged or all not"
            hits = search.in_dicts(patched) if patched else search.in_lines(lines)
            self._take(hits, table.newest_keys(block, present[[hit.place for hit in hits]]) if hits else [])
            first = int(block.records[0]) if first is None else first
            self._tell(int(block.records[-1]) + 1 - first, table.tail - first)

    def _rows(self, search: FieldSearch, source: ViewNode) -> None:
        """Search the rows of the parent view, which are the documents of a chained view."""
        codec, db, name = source.reduce.codec, source.reduce.db, f"view {source.name!r}"
        rows = self._reader.scan(db)
        done, total = 0, self._reader.count(db)
        while block := list(islice(rows, _BLOCK)):
            states = [codec.decode(key, row, name) for key, row in block]
            keys = [state.whole or key for (key, _), state in zip(block, states, strict=True)]
            docs = [{"key": decode_key(key), "value": codec.result(s)} for key, s in zip(keys, states, strict=True)]
            hits = search.in_dicts(docs)
            self._take(hits, [keys[hit.place] for hit in hits])
            done += len(block)
            self._tell(done, total)

    def _joined_rows(self, search: FieldSearch, source: Join) -> None:
        """Search the rows of a join."""
        for join, reader in self._snap.stored_joins(source.name):
            for rows in join.rows(reader):
                keys = encoded_keys(rows)
                hits = search.in_dicts(row_documents(join.row_sides, rows))
                self._take(hits, [keys[hit.place] for hit in hits])

    def _held(self) -> None:
        """Add the last good emissions of held documents."""
        places = {group: i for i, group in enumerate(self._groups)}
        shape = ContributionShape(self._view.reduce.fields)
        for _, held in self._view.remembered(self._reader).all_held():
            for group, values in held.pairs:
                if group in places:
                    self._found[places[group]].append((held.whole, 0, shape.of(values)))

    # -- function views

    def _remembered(self, search: EmissionSearch, table: TableReader) -> None:
        db = emissions_db(self._view.number)
        first: int | None = None
        for segment in table.segments():
            key = record_key(segment.base)
            row = self._reader.get_many(db, [key])[0]
            hits = [] if row is None else search.in_row(key, row, db)
            if hits:
                block = LineBlock.of([(segment, np.array([hit.place for hit in hits]))])
                self._take(hits, table.newest_keys(block, np.arange(len(hits))))
            first = segment.base if first is None else first
            self._tell(segment.base + len(segment) - first, table.tail - first)

    def _row_emissions(self, search: EmissionSearch, source: Parent) -> None:
        db = emissions_db(self._view.number)
        total = self._reader.count(db)
        for done, (key, row) in enumerate(self._reader.scan(db), 1):
            hits = search.in_row(key, row, db)
            if hits:
                self._take(hits, [self._whole(source, key)] * len(hits))
            if done % _BLOCK == 0 or done == total:
                self._tell(done, total)

    def _whole(self, source: Parent, key: bytes) -> bytes:
        """Return the whole encoding of a parent group, or of the key of a joined row, from its stored key."""
        if not is_long(key):
            return key
        if isinstance(source, StoredJoin):
            stored = self._snap.stored_joins(source.join.name)
            found = next(own[key] for join, reader in stored if key in (own := join.documents(reader, {key})))
            return encode_entry(found[0])
        row = self._reader.get_many(source.reduce.db, [key])[0]
        if row is None:
            raise StoreDamaged(source.reduce.db, key)
        whole = source.reduce.codec.decode(key, row, f"view {source.name!r}").whole
        assert whole is not None, "a long key stands whole in its row"
        return whole
