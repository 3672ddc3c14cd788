"""Penstock: field views, one synced commit per batch, default settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import msgspec

import penstock as ps
from bench.peers.drivers.scenarios import main
from bench.peers.drivers.turn import Turn, split
from bench.peers.shapes import CUSTOMERS, TABLE, TOP, Case, How, Total, View


def app(case: Case) -> ps.App:
    """Return the app with the views of a case."""
    out = ps.App("peers")
    if case.joined:
        customers, orders = out.table(CUSTOMERS, key="id", ts="ts"), out.table(TABLE, key="id", ts="ts")
        sold = out.join("sold", order=orders, customer=customers, on={"order.customer": "customer.id"})
        totals = {"n": ps.count(), "total": ps.sum("order.amount")}
        sold.view("by_country", key="customer.country", reduce=totals)
        return out
    sources: dict[str, Any] = {"": out.table(TABLE, key="id", ts="ts")}
    views = {view.name: view for view in case.views}
    for view in case.views:
        parent = views.get(view.source)
        by: list[str] = [_field(name, parent) for name in view.by]
        reduce = {total.name: _reducer(total, parent) for total in view.totals}
        key = tuple(by) if len(by) > 1 else by[0]
        sources[view.name] = sources[view.source].view(view.name, key=key, reduce=reduce)
    return out


def _field(name: str, parent: View | None) -> str:
    """Return the path of a field in a document, or in a row of the parent view."""
    if parent is None:
        return name
    if name not in parent.by:
        return f"value.{name}"
    return f"key.{parent.by.index(name)}" if len(parent.by) > 1 else "key"


def _reducer(total: Total, parent: View | None) -> Any:
    field = _field(total.field, parent)
    match total.how:
        case How.COUNT:
            return ps.count()
        case How.SUM:
            return ps.sum(field)
        case How.MIN:
            return ps.min(field)
        case How.MAX:
            return ps.max(field)
        case How.TOP:
            return ps.top(TOP, field)
        case How.DISTINCT:
            return ps.distinct(field)


_DELETES = 2  # the workload with deletes


class _Line(msgspec.Struct):
    id: int
    ts: int
    deleted: bool = False


class Penstock:
    """An open store. Batches with deletes are records of a source, others are lines."""

    def __init__(self, turn: Turn, exists: bool) -> None:
        self.version = version("penstock")
        self._case, self._folder = turn.case, turn.folder / "store"
        self._decode = msgspec.json.Decoder(_Line).decode
        self._engine = ps.open(app(turn.case), self._folder)
        self._offset = 0
        self._deletes = turn.workload.number == _DELETES

    def write(self, lines: list[bytes]) -> None:
        if self._case.joined:
            for table, own in zip((CUSTOMERS, TABLE), split(lines), strict=True):
                if own:
                    self._engine.put_many(table, own, batch=len(own))
        elif len(lines) == 1:
            self._engine.put(TABLE, msgspec.json.decode(lines[0]))
        elif self._deletes:
            self._ingest(lines)
        else:
            self._engine.put_many(TABLE, lines, batch=len(lines))

    def _ingest(self, lines: list[bytes]) -> None:
        records = []
        for line in lines:
            found = self._decode(line)
            doc, ts = (None, found.ts) if found.deleted else (line, None)
            records.append(ps.Record(TABLE, found.id, doc, ts=ts, offset=self._offset))
            self._offset += 1
        self._engine.ingest(records, source="peers", resume=self._offset)

    def reader(self) -> Callable[[str], Any]:
        def read(city: str) -> Any:
            with self._engine.snapshot() as snap:
                return snap.view("by_city").get(city)

        return read

    def add(self, view: View) -> Callable[[], bool]:
        """Open the store with an app that has one more view."""
        self._engine.close()
        self._case = replace(self._case, views=(*self._case.views, view))
        self._engine = ps.open(app(self._case), self._folder)
        return lambda: self._engine.status()["building"] is None

    def rows(self) -> Iterator[list[Any]]:
        with ps.open(app(self._case), self._folder, readonly=True) as engine, engine.snapshot() as snap:
            for view in self._case.views:
                for key, value in snap.view(view.name).items():
                    group = list(key) if len(view.by) > 1 else [key]
                    yield [view.name, *group, *(value[total.name] for total in view.totals)]

    def close(self) -> None:
        self._engine.close()


if __name__ == "__main__":
    main(Penstock)
