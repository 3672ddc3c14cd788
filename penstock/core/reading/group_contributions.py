"""What contributes to groups of a view, as a snapshot has it.

A view that keeps contributions is asked for those of the groups. Of any other all documents are gone through, once for
all groups: those of a table as they lie in its log, older versions too, since to decode a line costs less than to find
out whether there is a newer one; what an older version says is dropped then. Documents that the view can't take count
as what their held rows say. It reads the store and nothing of the writer's memory: in any process it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np

from penstock.cache import Reader, StoreDamaged, decode_key, is_long, record_key, stored_key
from penstock.gateway import Block, TableReader, TableReading, unwrap
from penstock.mapreduce import (
    FieldSearch,
    Found,
    Hit,
    Shape,
    ToldSearch,
    ViewNode,
    held_db,
    kept_contributions,
    told_db,
)
from penstock.views import Contribution, Documents, FieldMap, Progress, Row, View, ViewReader

_BLOCK = 1 << 12  # rows that are in memory at once


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

    def log(self, name: str) -> TableReader:
        """Return the documents of a table as they lie in its log."""
        ...


def why_of(
    snap: Reading, view: ViewNode, source: ViewNode | None, groups: Sequence[bytes], progress: Progress | None
) -> list[list[Contribution]]:
    """The contributions to these groups of a view, whose `source` is a view or, with None, a table."""
    distinct = list(dict.fromkeys(groups))
    if view.keeps:
        found = kept_contributions(view, snap.reader(), distinct)
    else:
        found = _Scan(snap, view, distinct, progress).found(source)
    made = {group: _made(snap, view.view, view.number, own) for group, own in zip(distinct, found, strict=True)}
    return [list(made[group]) for group in groups]


def _made(snap: Reading, view: View, number: int, found: list[Found]) -> list[Contribution]:
    found.sort(key=lambda one: one[:2])
    held = _held_among(snap.reader(), number, [key for key, _, _ in found])
    keys = [decode_key(key) for key, _, _ in found]
    documents = Documents(keys, _reading(snap, view))
    rows = zip(keys, found, strict=True)
    return [
        Contribution(key, rank, value, own in held, documents, i) for i, (key, (own, rank, value)) in enumerate(rows)
    ]


def _reading(snap: Reading, view: View) -> Callable[[Sequence[Any]], list[Any]]:
    """How the documents that a view maps are read."""
    name = view.source.name
    if not isinstance(view.source, View):
        return lambda keys: snap.table(name).get_many(keys)
    return lambda keys: list(map(Row, keys, snap.view(name).get_many(keys)))


def _held_among(reader: Reader, view: int, keys: Sequence[bytes]) -> frozenset[bytes]:
    """Which of these documents a view can't take as they are."""
    db, out = held_db(view), set[bytes]()
    if reader.count(db):
        for a in range(0, len(keys), _BLOCK):
            block = keys[a : a + _BLOCK]
            rows = reader.get_many(db, [stored_key(key) for key in block])
            out.update(key for key, row in zip(block, rows, strict=True) if row is not None)
    return frozenset(out)


class _Scan:
    """One pass over what a view maps, or over what is remembered of its yielding."""

    def __init__(self, snap: Reading, view: ViewNode, groups: Sequence[bytes], progress: Progress | None) -> None:
        self._snap = snap
        self._reader = snap.reader()
        self._view = view
        self._groups = groups
        self._progress = progress
        self._found: list[list[Found]] = [[] for _ in groups]

    def found(self, source: ViewNode | None) -> list[list[Found]]:
        """By group, its contributions in any order."""
        view = self._view
        if isinstance(view.view.map, FieldMap):
            search = FieldSearch(view.view, view.view.map, self._groups)
            if source is None:
                self._documents(search, self._snap.log(view.view.source.name))
            else:
                self._rows(search, source)
            self._held()
        elif source is None:
            self._told(ToldSearch(self._groups), self._snap.log(view.view.source.name))
        else:
            self._told_of_rows(ToldSearch(self._groups), source)
        return self._found

    def _take(self, hits: Sequence[Hit], keys: Sequence[bytes | None]) -> None:
        """Take these hits, of documents with these keys; None where it is no document any more."""
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
            here = np.flatnonzero([not one.absent for one in found])
            patched = [one.patched.fields for one in found if one.patched is not None and not one.absent]
            lines = [one.line for one in found if one.line is not None]
            assert not (patched and lines), "a table's documents are all merged or all not"
            hits = search.in_dicts(patched) if patched else search.in_lines(lines)
            self._take(hits, table.newest_keys(block, here[[hit.place for hit in hits]]) if hits else [])
            first = int(block.records[0]) if first is None else first
            self._tell(int(block.records[-1]) + 1 - first, table.tail - first)

    def _rows(self, search: FieldSearch, source: ViewNode) -> None:
        """The rows of a view, as the documents of a view of it."""
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

    def _held(self) -> None:
        """What documents that the view holds were told last."""
        places = {group: i for i, group in enumerate(self._groups)}
        shape = Shape(self._view.reduce.fields)
        for _, held in self._view.remembered(self._reader).all_held():
            for group, values in held.pairs:
                if group in places:
                    self._found[places[group]].append((held.whole, 0, shape.of(values)))

    # -- function views

    def _told(self, search: ToldSearch, table: TableReader) -> None:
        db = told_db(self._view.number)
        first: int | None = None
        for segment in table.segments():
            key = record_key(segment.base)
            row = self._reader.get_many(db, [key])[0]
            hits = [] if row is None else search.in_row(key, row, db)
            if hits:
                block = Block.of([(segment, np.array([hit.place for hit in hits]))])
                self._take(hits, table.newest_keys(block, np.arange(len(hits))))
            first = segment.base if first is None else first
            self._tell(segment.base + len(segment) - first, table.tail - first)

    def _told_of_rows(self, search: ToldSearch, source: ViewNode) -> None:
        db = told_db(self._view.number)
        total = self._reader.count(db)
        for done, (key, row) in enumerate(self._reader.scan(db), 1):
            hits = search.in_row(key, row, db)
            if hits:
                self._take(hits, [self._whole(source, key)] * len(hits))
            if done % _BLOCK == 0 or done == total:
                self._tell(done, total)

    def _whole(self, source: ViewNode, key: bytes) -> bytes:
        """The encoding of a group of the source, by what is stored of it."""
        if not is_long(key):
            return key
        row = self._reader.get_many(source.reduce.db, [key])[0]
        if row is None:
            raise StoreDamaged(source.reduce.db, key)
        whole = source.reduce.codec.decode(key, row, f"view {source.name!r}").whole
        assert whole is not None, "a long key stands whole in its row"
        return whole
