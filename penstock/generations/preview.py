"""Preview the changes that opening a store with an app would cause, on a sample of its documents.

The sample is applied to the app in a store in memory. If it contains all documents, the result is compared with the
rows of the store. Otherwise a second trial applies the sample to the former definitions, with remembered emissions in
place of the functions. Invariant: a preview reads one snapshot, and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from penstock.cache import Limits, MemoryStore, encode_key
from penstock.core import Core, Described, Settings, Snapshot, described, write_catalog
from penstock.gateway import TableBatch, key_value
from penstock.generations.app_comparison import compared, created
from penstock.generations.preview_sample import Samples, TableSample
from penstock.mapreduce import rows_db, same_result
from penstock.views import (
    ABSENT,
    App,
    Changed,
    Coded,
    FunctionMap,
    Join,
    Kind,
    Preview,
    Sampled,
    Source,
    Table,
    View,
    sources_of,
)

__all__ = ["preview_of"]

_ROWS = 3  # rows of a view that the preview shows
_MEMORY = 128 << 20
Rows = dict[bytes, tuple[Any, Any]]  # by the group's encoding


def preview_of(snap: Snapshot, app: App) -> Preview:
    """Preview the changes that opening the store of a snapshot with this app would cause."""
    schema, wanted = snap.schema, described(app)
    every = compared(schema.catalog, wanted).changes
    changes = {name: change for name, change in every.items() if ":" not in name}  # sides belong to their joins
    if not every:
        return Preview(())
    built = [app.lookup(name) for name, change in changes.items() if change.kind is not Kind.DROPPED]
    samples = Samples(snap)
    for definition in built:
        assert isinstance(definition, View | Join), "a table can't change"
        samples.add(definition)
    trial = _Trial(app, samples.tables)
    reads = [wanted[name] for name, change in every.items() if change.kind is not Kind.DROPPED]
    documents, rows = _work(snap, app, reads)
    sampled = sum(len(sample.lines) for sample in samples.tables.values())
    former = _Former(snap, app, changes, samples.tables)
    with trial, former:
        return Preview(
            tuple(changes.values()),
            documents,
            rows,
            sum(snap.reader().count(rows_db(schema.views[name].number)) for name in changes if name in schema.views),
            trial.seconds * (documents + rows) / max(sampled, 1),
            sampled,
            former.all,
            tuple(change for name in changes for change in _sampled(name, former.rows(name), trial.rows(name))),
            {own.name: held for own in built if (held := trial.held(own.name)) is not None},
        )


def _work(snap: Snapshot, app: App, built: Sequence[Described]) -> tuple[int, int]:
    """Return the documents of tables that a build reads, and the rows of views and joins."""
    schema, names = snap.schema, {definition["name"] for definition in built}
    sources = {source for definition in built if definition["kind"] != "join" for source in sources_of(definition)}
    joins = sources | {definition["name"] for definition in built if definition["kind"] == "join"}
    first = [join.tables[0].name for join in app.joins() if join.name in joins]
    rows = sum(snap.reader().count(rows_db(schema.views[n].number)) for n in sources & schema.views.keys() - names)
    rows += sum(len(snap.table(name)) for name in first if name in schema.tables)
    return sum(len(snap.table(name)) for name in sources & schema.tables.keys()), rows


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


class _Trial:
    """A store in memory to which the sample was applied under an app."""

    def __init__(self, app: App, samples: Mapping[str, TableSample]) -> None:
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
        """Return the number of held documents of a view or join and the first reason; None if there are none."""
        schema = self._snap.schema
        nodes = [schema.views[name]] if name in schema.views else schema.sides_of(name)
        holds = [held.hold for node in nodes for _, held in node.remembered(self._snap.reader()).all_held()]
        return (len(holds), holds[0].reason) if holds else None


class _Former:
    """The former views: the store's own rows, or a trial of the former definitions."""

    def __init__(
        self, snap: Snapshot, app: App, changes: Mapping[str, Changed], samples: Mapping[str, TableSample]
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


def _former_app(snap: Snapshot, app: App, changes: Mapping[str, Changed], samples: Mapping[str, TableSample]) -> App:
    """Rebuild the app under which the store was filled, as far as possible."""
    out = App(app.name)
    sources: dict[str, Source] = {}
    for visible in snap.schema.tables.values():
        t = visible.table
        sources[t.name] = out.add(Table(out, t.name, out.size, t.key, t.ts, t.broker_ts, t.merge, t.tombstones, None))
    schema = snap.schema
    for name in schema.app.names():
        if name in schema.joins:
            join = schema.joins[name]
            if all(side.source.name in sources for side in join.sides):
                sides = tuple(replace(side, source=sources[side.source.name]) for side in join.sides)
                sources[name] = out.add(Join(out, name, out.size, sides, join.on, join.how, join.filter, join.limit))
        elif name in schema.views:
            own, change = schema.views[name].view, changes.get(name)
            source = sources.get(own.source.name)
            same = change is None or change.kind is Kind.FOLLOWS  # the app can do the same
            does = app.view_of(name) if same else own
            by = does.map
            if not same and isinstance(by, FunctionMap):
                if not isinstance(source, Table) or schema.as_of(name) is not None or source.name not in samples:
                    continue
                by = FunctionMap(_remembered(snap, name, source, samples[source.name]))
            lost = any(isinstance(reducer, Coded) and reducer.code is None for reducer in does.reducers)
            if source is not None and not lost:
                view = View(out, name, out.size, source, by, does.reducers, does.fields, does.sources)
                sources[name] = out.add(view)
    return out


def _remembered(snap: Snapshot, view: str, table: Table, sample: TableSample) -> Callable[[Any], Iterable[Any]]:
    """Return a function that yields the remembered emission of each document of a sample."""
    emissions: dict[bytes, list[tuple[Any, Any]]] = {}
    for key in sample.keys:
        stored = snap.stored(table.name, key)
        for one in () if stored is None else stored.told:
            if one.view == view:
                emissions[encode_key(key)] = list(one.pairs)
    return lambda doc: emissions.get(encode_key(key_value(table, doc)), [])
