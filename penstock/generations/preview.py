"""Preview the changes that opening a store with an app would cause, on a sample of its documents.

The sample is applied to the app in a store in memory. If it contains all documents, the result is compared with the
rows of the store. Otherwise a second trial applies the sample to the former definitions, with remembered emissions in
place of the functions. Invariant: a preview reads one snapshot, and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.cache import Limits, MemoryStore, encode_key, pack_document, segments_at
from penstock.core import Core, Settings, Snapshot, described, write_catalog
from penstock.gateway import TableBatch, document_of, key_value, unwrap
from penstock.generations.app_comparison import compared, created
from penstock.generations.generation_numbers import must_keep_joins
from penstock.mapreduce import rows_db, same_result
from penstock.views import ABSENT, App, Changed, Coded, FunctionMap, Kind, Preview, Sampled, Source, Table, View

if TYPE_CHECKING:
    from penstock.gateway import TableReader

__all__ = ["preview_of"]

_SAMPLE = 1_000  # documents of a table
_PLACES = 50  # places of the log from which a partial sample is taken
_ROWS = 3  # rows of a view that the preview shows
_MEMORY = 128 << 20
Rows = dict[bytes, tuple[Any, Any]]  # by the group's encoding


def _is_view(app: App, name: str) -> bool:
    return name in {view.name for view in app.views()}


def preview_of(snap: Snapshot, app: App) -> Preview:
    """Preview the changes that opening the store of a snapshot with this app would cause."""
    schema = snap.schema
    changes = compared(schema.catalog, described(app)).changes
    if len(snap.parts) > 1:
        must_keep_joins(described(app), [schema.catalog], changes)
    changes = {name: change for name, change in changes.items() if change.kind is Kind.DROPPED or _is_view(app, name)}
    if not changes:
        return Preview(())
    built = [app.view_of(name) for name, change in changes.items() if change.kind is not Kind.DROPPED]
    reader = snap.reader()
    roots = [view.source for view in built]
    tables = {s.name for s in roots if isinstance(s, Table) and s.name in schema.tables}
    sources = {s.name for s in roots if isinstance(s, View) and s.name not in changes}
    samples = {
        name: _Sample.of(snap, name) for name in {t.name for view in built for t in view.tables} & schema.tables.keys()
    }
    trial = _Trial(app, samples)
    documents = sum(len(snap.table(name)) for name in tables)
    rows = sum(reader.count(rows_db(schema.views[name].number)) for name in sources)
    sampled = sum(len(sample.lines) for sample in samples.values())
    former = _Former(snap, app, changes, samples)
    with trial, former:
        return Preview(
            tuple(changes.values()),
            documents,
            rows,
            sum(reader.count(rows_db(schema.views[name].number)) for name in changes if name in schema.views),
            trial.seconds * (documents + rows) / max(sampled, 1),
            sampled,
            former.all,
            tuple(change for name in changes for change in _sampled(name, former.rows(name), trial.rows(name))),
            {view.name: held for view in built if (held := trial.held(view.name)) is not None},
        )


def _sampled(name: str, old: Rows | None, new: Rows | None) -> Iterator[Sampled]:
    """Yield a few groups of a view that differ; none if the former rows can't be reproduced."""
    if old is None or new is None:
        return iter(())
    every = sorted({**old, **new})
    pairs = (
        ((old.get(key) or new[key])[0], *(side[key][1] if key in side else ABSENT for side in (old, new)))
        for key in every
    )
    return islice((Sampled(name, *pair) for pair in pairs if not _same(*pair[1:])), _ROWS)


def _same(old: Any, new: Any) -> bool:
    return old is not ABSENT and new is not ABSENT and same_result(old, new)


@dataclass(slots=True)
class _Sample:
    """A sample of a table's documents: lines to put, the ts of some, and the keys."""

    all: bool
    lines: list[bytes] = field(default_factory=list)
    stamps: dict[int, Any] = field(default_factory=dict)
    keys: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, snap: Snapshot, name: str) -> _Sample:
        """Take documents from the whole log of a table."""
        visible, most = snap.schema.tables[name], _SAMPLE // len(snap.parts)
        out = cls(len(snap.table(name)) <= _SAMPLE)
        for part in snap.parts:
            table = part.log(name)
            for line in table.lines() if len(table) <= most or out.all else _spread(part, table, visible.number, most):
                out._add(visible.table, line)
        return out

    def _add(self, table: Table, line: bytes) -> None:
        found = unwrap(line)
        if found.absent:
            return
        if found.ts is not None:
            self.stamps[len(self.lines)] = found.ts
        self.keys.append(key_value(table, document_of(line)))
        self.lines.append(pack_document(document_of(line)) if found.line is None else found.line)


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


class _Trial:
    """A store in memory to which the sample was applied under an app."""

    def __init__(self, app: App, samples: Mapping[str, _Sample]) -> None:
        store = MemoryStore()
        with store.write() as writer:
            write_catalog(writer, created(app.name, described(app), 0))
        self.core = Core(app, store, Settings(_MEMORY, Limits(), 0))
        began = time.perf_counter()
        for name, sample in samples.items():
            self.core.commit({name: TableBatch(sample.lines, stamps=sample.stamps)})
        self.seconds = time.perf_counter() - began
        self._snap = Snapshot(self.core)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._snap.close()
        self.core.close()

    def rows(self, name: str) -> Rows:
        """Return the rows of a view; none if the app lacks it."""
        return _rows(self._snap, name) if name in self._snap.schema.views else {}

    def held(self, name: str) -> tuple[int, str] | None:
        """Return the number of held documents of a view and the first reason; None if there are none."""
        holds = self._snap.holds(name)
        return (len(holds), holds[0]["reason"]) if holds else None


class _Former:
    """The former views: the store's own rows, or a trial of the former definitions."""

    def __init__(
        self, snap: Snapshot, app: App, changes: Mapping[str, Changed], samples: Mapping[str, _Sample]
    ) -> None:
        self.all = all(sample.all for sample in samples.values())
        self._snap = snap
        self._trial = None if self.all else _Trial(_former_app(snap, app, changes, samples), samples)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._trial is not None:
            self._trial.__exit__()

    def rows(self, name: str) -> Rows | None:
        """Return the rows of a view; None if they can't be reproduced."""
        if name not in self._snap.schema.views:
            return {}
        if self._trial is None:
            return _rows(self._snap, name)
        return self._trial.rows(name) if name in self._trial.core.views else None


def _rows(snap: Snapshot, name: str) -> Rows:
    return {encode_key(row.key): (row.key, row.value) for row in snap.view(name)}


def _former_app(snap: Snapshot, app: App, changes: Mapping[str, Changed], samples: Mapping[str, _Sample]) -> App:
    """Rebuild the app under which the store was filled, as far as possible."""
    out = App(app.name)
    sources: dict[str, Source] = {}
    for visible in snap.schema.tables.values():
        t = visible.table
        sources[t.name] = out.add(Table(out, t.name, out.size, t.key, t.ts, t.broker_ts, t.merge, t.tombstones, None))
    for name, node in snap.schema.views.items():
        own, change = node.view, changes.get(name)
        source = sources.get(own.source.name)
        same = change is None or change.kind is Kind.FOLLOWS  # the app can do the same
        does = app.view_of(name) if same else own
        by = does.map
        if not same and isinstance(by, FunctionMap):
            if not isinstance(source, Table) or snap.schema.as_of(name) is not None or source.name not in samples:
                continue
            by = FunctionMap(_remembered(snap, name, source, samples[source.name]))
        lost = any(isinstance(reducer, Coded) and reducer.code is None for reducer in does.reducers)
        if source is not None and not lost:
            view = View(out, name, out.size, source, by, does.reducers, does.fields, does.sources)
            sources[name] = out.add(view)
    return out


def _remembered(snap: Snapshot, view: str, table: Table, sample: _Sample) -> Callable[[Any], Iterable[Any]]:
    """Return a function that yields the remembered emission of each document of a sample."""
    emissions: dict[bytes, list[tuple[Any, Any]]] = {}
    for key in sample.keys:
        stored = snap.stored(table.name, key)
        for one in () if stored is None else stored.told:
            if one.view == view:
                emissions[encode_key(key)] = list(one.pairs)
    return lambda doc: emissions.get(encode_key(key_value(table, doc)), [])
