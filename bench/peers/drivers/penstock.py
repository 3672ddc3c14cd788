"""Penstock: field views, one synced commit per batch, default settings."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import msgspec

import penstock as ps
from bench.peers.drivers.turn import Turn
from bench.peers.shapes import TABLE, TOP, Case, How, Total, View


def app(case: Case) -> ps.App:
    """Return the app with the views of a case."""
    out = ps.App("peers")
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


def rows(engine: ps.Engine, case: Case) -> Iterator[list[Any]]:
    """Yield the rows of all views."""
    with engine.snapshot() as snap:
        for view in case.views:
            for key, value in snap.view(view.name).items():
                group = list(key) if len(view.by) > 1 else [key]
                yield [view.name, *group, *(value[total.name] for total in view.totals)]


def _records(batches: list[list[bytes]]) -> Iterator[list[ps.Record]]:
    """Yield the batches as records of a spout, with deletes."""
    decode = msgspec.json.Decoder(_Line).decode
    offset = 0
    for lines in batches:
        out = []
        for line in lines:
            found = decode(line)
            doc = None if found.deleted else line
            out.append(ps.Record(TABLE, found.id, doc, ts=found.ts if found.deleted else None, offset=offset))
            offset += 1
        yield out


class _Line(msgspec.Struct):
    id: int
    ts: int
    deleted: bool = False


def main() -> None:
    turn = Turn()
    batches = turn.batches()
    deletes = any(b'"deleted"' in line for lines in batches for line in lines)
    engine = ps.open(app(turn.case), turn.folder / "store")
    turn.ready()
    if deletes:
        offset = 0
        for records in _records(batches):
            offset += len(records)
            engine.ingest(records, source="peers", resume=offset)
    else:
        for lines in batches:
            engine.put_many(TABLE, lines, batch=turn.batch)
    engine.close()
    turn.done(version("penstock"))
    with ps.open(app(turn.case), turn.folder / "store", readonly=True) as engine:
        turn.write(rows(engine, turn.case))


if __name__ == "__main__":
    main()
