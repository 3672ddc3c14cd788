"""Make the nodes of a store's tables and views from its catalog."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from penstock.cache import DocumentLog, Limits, Reader, StoreDamaged
from penstock.core.metadata.catalog import Catalog, CatalogEntry
from penstock.core.metadata.store_state import StateRow
from penstock.flow import HeldRecordLog, StreamNode, Watermarks
from penstock.gateway import (
    JoinSideDocuments,
    KeySide,
    RowSideDocuments,
    TableNode,
    TableSideDocuments,
    moved_lines_db,
)
from penstock.join import JoinNode, JoinNodes, SideDocuments, SideNode, StoredJoin
from penstock.mapreduce import (
    FunctionMapper,
    HiddenGeneration,
    Spaces,
    ViewNode,
    emissions_db,
    held_db,
    resting_db,
    rows_db,
)
from penstock.views import (
    App,
    FieldMap,
    Join,
    SideView,
    Source,
    Stream,
    Table,
    View,
    all_joins,
    side_views,
    stored_side,
)

__all__ = ["NodeMaker", "filling_nodes", "halting", "numbers_moved_lines", "side_documents"]

_log = logging.getLogger("penstock.engine")


@dataclass(frozen=True, slots=True)
class NodeMaker:
    """A factory for nodes of tables and views with these numbers; `kinds` has the kinds of ts by table.

    `serving` has the sides of joins whose next generations are being built while they serve.
    """

    app: App
    numbers: Mapping[str, int]
    kinds: Mapping[str, str]
    seed: int
    slots: int
    limits: Limits
    serving: Mapping[str, CatalogEntry] = field(default_factory=dict)

    def table(self, reader: Reader, table: Table, known: dict[str, ViewNode]) -> TableNode:
        """Make the node of a table, and those of all views on it, and add the views to `known`."""
        number = self.numbers[table.name]
        log = DocumentLog(number, table.has_ts, self.slots, self.limits)
        log.open(reader)
        spaces = Spaces()
        views = self._views_on(reader, table, spaces, known)
        log.sides = [emissions_db(v.number) for v in views if isinstance(v.mapper, FunctionMapper)] + [
            moved_lines_db(number)
        ]
        node = TableNode(table, number, views, log, spaces, self.seed)
        node.ts_kind = self.kinds.get(table.name)
        for view in views:
            if isinstance(view, SideNode) and view.side.by_key:
                documents = TableSideDocuments(view.side, view.number, table, number, self.seed)
                view.look_up = KeySide(node, view.side, documents).find
        return node

    def stream(self, reader: Reader, stream: Stream, known: dict[str, ViewNode], watermarks: Watermarks) -> StreamNode:
        """Make the node of a stream, and those of all views on it, and add the views to `known`."""
        log = HeldRecordLog(self.numbers[stream.name])
        log.open(reader)
        spaces = Spaces()
        views = self._views_on(reader, stream, spaces, known)
        node = StreamNode(stream, log.table, views, log, spaces, self.seed, watermarks)
        node.ts_kind = self.kinds.get(stream.name)
        node.open_ids(reader)
        return node

    def joins(self, reader: Reader, tables: Mapping[str, TableNode], known: dict[str, ViewNode]) -> JoinNodes:
        """Make the nodes of all joins with numbers, and those of the views on them, and add the views to `known`."""
        out: dict[str, JoinNode] = {}
        for join in all_joins(self.app):
            if join.name not in self.numbers:
                continue
            tops = chain(*(table.views for table in tables.values()), *(node.views for node in out.values()))
            nodes = chain(tops, *(view.children for view in known.values()))
            sides = {node.name: node for node in nodes if isinstance(node, SideNode)}
            views = self._views_on(reader, join, None, known)
            own = [sides[view.name] for view in side_views(join)]
            wider = [sides[label] for node in own if (label := HiddenGeneration.label(node.name)) in sides]
            stored = {name: node.stored for name, node in out.items()}
            numbers = [{**self.numbers, node.side.name: node.number} for node in (*own, *wider)]
            made = zip((*own, *wider), numbers, strict=True)
            documents = {
                node: side_documents(node.side, by_name, self.seed, stored.__getitem__) for node, by_name in made
            }
            for node, rows in documents.items():
                if isinstance(node.side.source, View):
                    node.look_up = rows.find  # the rows of a view are not written yet
            read = [documents[node] for node in own]
            out[join.name] = JoinNode(join, self.numbers[join.name], own, read, views, wider)
        return JoinNodes([*out.values()])

    def _sides_on(self, reader: Reader, source: Source, spaces: Spaces | None) -> list[ViewNode]:
        nodes: list[ViewNode] = []
        for join in all_joins(self.app):
            for side in side_views(join):
                if side.source is source:
                    node = self._side(reader, side, self.numbers[side.name], spaces)
                    nodes.append(node)
                    if (serves := self.serving.get(side.name)) is not None:
                        node.name = HiddenGeneration.label(side.name)
                        own = stored_side(side, serves.definition)
                        nodes.append(self._side(reader, own, serves.number, spaces))
        return nodes

    def _side(self, reader: Reader, side: SideView, number: int, spaces: Spaces | None) -> SideNode:
        node = SideNode(side, number, spaces, 2 * self.limits.few)
        node.held = reader.count(held_db(number))
        node.rests = bool(reader.count(resting_db(number)))
        return node

    def _views_on(
        self, reader: Reader, source: Source, spaces: Spaces | None, known: dict[str, ViewNode]
    ) -> list[ViewNode]:
        """Make the nodes of the views on a source, and those of the sides of joins that it is."""
        nodes: list[ViewNode] = []
        for view in self.app.views():
            if view.source is not source:
                continue
            number = self.numbers[view.name]
            empty = reader.count(rows_db(number)) == 0
            few = 2 * self.limits.few
            node = ViewNode(view, number, spaces if isinstance(view.map, FieldMap) else None, empty, few)
            node.held = reader.count(held_db(number))
            node.rests = bool(reader.count(resting_db(number)))
            known[view.name] = node
            node.children = self._views_on(reader, view, None, known)
            nodes.append(node)
        return [*nodes, *self._sides_on(reader, source, spaces)]


def side_documents(
    side: SideView, numbers: Mapping[str, int], seed: int, joins: Callable[[str], StoredJoin]
) -> SideDocuments:
    """Return the documents of a side, as entries of any snapshot. `joins` returns the earlier joins by name."""
    if isinstance(side.source, Join):
        return JoinSideDocuments(side, numbers[side.name], joins(side.source.name))
    number, source = numbers[side.name], numbers[side.source.name]
    if isinstance(side.source, Table):
        return TableSideDocuments(side, number, side.source, source, seed)
    assert isinstance(side.source, View), "there are no other sources"
    return RowSideDocuments(side, number, side.source, source)


def filling_nodes(
    catalog: Catalog,
    making: Callable[[Mapping[str, int], Mapping[str, str]], NodeMaker] | None,
    app: App,
    reader: Reader,
) -> tuple[dict[str, TableNode], list[ViewNode], JoinNodes]:
    """Make the nodes of the tables that a refill has copied, and of their views and joins, which readers can't see.

    A read-only core has no nodes, and so no `making`.
    """
    refill = catalog.refill
    if refill is None or refill.kinds is None or making is None:
        return {}, [], JoinNodes()
    filler, views = making(refill.filling, refill.kinds), dict[str, ViewNode]()
    tables = {name: filler.table(reader, app.table_of(name), views) for name in refill.since}
    joins = filler.joins(reader, tables, views)
    for view in views.values():
        view.building = HiddenGeneration()
    return tables, list(views.values()), joins


def numbers_moved_lines(catalog: Catalog, state: StateRow, table: Table) -> bool:
    """Return True if compaction must note the first numbers of copied lines, for quarantine or a refill."""
    quarantined = not table.has_ts and bool(state.kept.get(table.name))
    return quarantined or (catalog.refill is not None and table.name in catalog.refill.since)


@contextmanager
def halting(log: DocumentLog) -> Iterator[None]:
    """Run a step of compaction. If damage of the table's index halts it, log that and go on."""
    try:
        yield
    except StoreDamaged as damage:
        if not log.halted:
            raise
        _log.error("a table is not compacted until it is repaired, and its log grows: %s", damage)
