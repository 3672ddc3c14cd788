"""Build changed views in steps between batches, then switch readers to them in one transaction.

First the views on tables and the sides of joins read the documents. Then sides with other fields replace those of
unchanged joins. Then views on joins and on unchanged views read the rows of these. Then all next generations become
current at once, and the databases of the former ones are emptied in steps. Invariants:

- each step is one transaction with its progress: a crash loses at most the step in progress;
- until the switch readers see no change and the feed gets none; afterwards only open snapshots and followers of earlier
  changes see the former generation;
- rows of a former generation stay while the feed reaches back to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from penstock.cache import Writer, decode_key
from penstock.core import (
    BuildState,
    StateRow,
    built_of,
    row_sources,
    serving_sides,
    switched,
    switched_sides,
    write_built,
    write_catalog,
    write_hidden,
    write_state,
)
from penstock.gateway import GenerationScan, TableNode
from penstock.generations.build_progress import AT_ONCE
from penstock.join import JoinNodes
from penstock.mapreduce import HiddenGeneration, RowDelta, RowState, StoredCodec, ViewNode, Writes, rows_db
from penstock.views import Row

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["GenerationBuild", "build_small_change"]


class _BuildWork(Enum):
    """The kinds of steps of a build."""

    DOCUMENTS = "documents"
    ROWS = "rows"
    SWITCH = "switch"


class GenerationBuild:
    """The remaining work of a build until readers see the next generations."""

    def __init__(
        self,
        core: Core,
        built: BuildState,
        tables: Mapping[str, TableNode],
        views: Mapping[str, ViewNode],
        joins: JoinNodes,
    ) -> None:
        catalog = core.catalog
        self._core = core
        self.built = built
        self._joins = joins
        following = {e.next.number for e in catalog.entries.values() if e.next is not None}
        for node in [*views.values(), *(side for join in joins for side in (*join.sides, *join.wider))]:
            if node.number in following:
                node.building = HiddenGeneration()
        for name, (first, since) in (catalog.since or {}).items():
            tables[name].build = GenerationScan(built.documents.get(name, first), since)
        self.owed = 0  # rows to map before the next writes, because as many arrived since the last step
        stages = {join.name: [stage.name for stage in join.stages] for join in core.app.joins()}
        names = [own for name in core.app.names() for own in stages.get(name, (name,))]
        self._order = {name: place for place, name in enumerate(names)}
        self._sources = row_sources(catalog)
        for name in self._sources:
            until = built.rows.get(name, (b"", 0))[0]
            if name in views:
                self._set_until(views[name], until)
            else:
                joins[name].fresh = catalog.entries[name].next is not None
                joins[name].until = until

    def step(self, limit: int) -> None:
        """Run the next step, for about `limit` documents or rows."""
        work, name = self._next()
        if work is _BuildWork.DOCUMENTS:
            self._documents(name, self._core.tables[name], limit)
        elif work is _BuildWork.SWITCH:
            self.switch()
        elif name in self._core.views:
            self._rows(name, limit)
        else:
            self._joined_rows(name, limit)

    def _next(self) -> tuple[_BuildWork, str]:
        """Return the next work, and the table, view or join that it is about; "" for the switch of all views."""
        for name, node in self._core.tables.items():
            if node.build is not None and not node.build.done:
                return _BuildWork.DOCUMENTS, name
        serving = {side.definition["join"] for side in serving_sides(self._core.catalog).values()}
        for name in sorted({*serving, *self._sources}, key=self._order.__getitem__):
            if name in serving:  # all that its sides read is complete
                return _BuildWork.SWITCH, name
            if self.built.rows.get(name, (b"", 0))[0] is not None:
                return _BuildWork.ROWS, name
        return _BuildWork.SWITCH, ""

    @property
    def waits(self) -> bool:
        """Return True if this partition waits for the others, before a switch of all views or of sides of a join."""
        return self._core.exchange is not None and self._next()[0] is _BuildWork.SWITCH

    @property
    def waits_for(self) -> str:
        """Return the join whose sides wait to be switched; "" for the switch of all views."""
        work, join = self._next()
        return join if work is _BuildWork.SWITCH else ""

    # -- telling

    def _documents(self, name: str, node: TableNode, limit: int) -> None:
        """Apply the next documents of a table to the views on it."""
        scan, writes = node.build, Writes()
        assert scan is not None, "there are views on it that are being built"
        with self._core.store.write() as writer:
            cursor, n = scan.step(node, writer, limit, writes)
            built = msgspec.structs.replace(self.built, documents={**self.built.documents, name: cursor})
            state = self._write(writer, writes, built)
        self._committed(writes, built, state, n)
        scan.cursor = cursor
        self._core.weigh(n)
        self._joins.fold(self._core.store)

    def _joined_rows(self, name: str, limit: int) -> None:
        """Apply the next rows of a join to the views on it, in order of their places."""
        node, writes = self._joins[name], Writes()
        applied = self.built.rows.get(name, (b"", 0))[1]
        first = not node.until
        with self._core.store.write() as writer:
            end, entries = node.build(writer, limit, writes)
            built = msgspec.structs.replace(self.built, rows={**self.built.rows, name: (end, applied + entries)})
            state = self._write(writer, writes, built)
        self._committed(writes, built, state, entries)
        came = node.passed(end)
        self.owed = 0 if first or end is None else max(0, self.owed - entries) + came
        self._joins.fold(self._core.store)

    def _rows(self, name: str, limit: int) -> None:
        """Apply the next rows of a view to the views on it."""
        source, writes = self._core.views[name], Writes()
        codec, where = source.reduce.codec, f"view {name!r}"
        start, applied = self.built.rows.get(name, (b"", 0))
        assert start is not None, "there are rows left"
        came = max((child.building.ahead for child in source.children if child.building is not None), default=0)
        with self._core.store.write() as writer:
            found = list(islice(writer.scan(rows_db(source.number), start), limit + 1))
            until = found.pop()[0] if len(found) > limit else None
            deltas = [_coming(key, codec.decode(key, row, where), codec) for key, row in found]
            for child in source.children:
                if child.building is not None and deltas:
                    child.take_rows(writer, deltas, writes)
            built = msgspec.structs.replace(self.built, rows={**self.built.rows, name: (until, applied + len(found))})
            state = self._write(writer, writes, built)
        self._committed(writes, built, state, len(found))
        self._set_until(source, until)
        if until is None or not start:  # before the first step all rows are ahead
            self.owed = 0
        else:
            self.owed = max(0, self.owed - len(found)) + came

    @staticmethod
    def _set_until(source: ViewNode, until: bytes | None) -> None:
        for child in source.children:
            if child.building is not None:
                child.building.until, child.building.ahead = until, 0

    def _write(self, writer: Writer, writes: Writes, built: BuildState) -> StateRow:
        write_built(writer, built)
        return write_hidden(self._core, writer, writes)

    def _committed(self, writes: Writes, built: BuildState, state: StateRow, applied: int) -> None:
        writes.committed()
        self.built, self._core.state = built, state
        self._core.built_records += applied

    # -- taking their place

    def switch(self) -> None:
        """Switch the sides of a join, if they are due, or make the next generations current.

        Readers see these from the next position on.
        """
        if self.waits_for:
            self._switch_sides(self.waits_for)
            return
        core = self._core
        with core.store.write() as writer:
            catalog, state = switched(writer, core.catalog, core.state, core.feed.on, core.exchange is not None)
            row = write_catalog(writer, catalog)
            write_built(writer, None)
            write_state(writer, state)
        core.state = state
        core.take_catalog(catalog, row)
        core.build, core.switched = None, state.position
        for view in [*core.views.values(), *(side for join in self._joins for side in join.sides)]:
            view.building = None
        for join in self._joins:
            join.until, join.fresh = None, False
        for table in core.tables.values():
            table.build = None

    def _switch_sides(self, join: str) -> None:
        """Let sides with other fields serve their unchanged join. All nodes are made again, as after an opening."""
        core = self._core
        catalog = switched_sides(core.catalog, join)
        with core.store.write() as writer:
            write_catalog(writer, catalog)
        core.reload()


def _coming(key: bytes, state: RowState, codec: StoredCodec) -> RowDelta:
    """Return a delta that inserts a row of a view."""
    group = decode_key(state.whole or key)
    return RowDelta(key, group, None, Row(group, codec.result(state)))


def build_small_change(core: Core) -> None:
    """Finish a small build at once."""
    if core.build is None:
        return
    with core.store.read() as reader:
        done, total = built_of(reader, core.catalog)
    while core.build is not None and total - done <= AT_ONCE:
        core.build_step(AT_ONCE)
