"""PostgreSQL: statement triggers with transition tables, one synced transaction per batch.

The driver starts a server of its own. It decodes the lines, copies a batch into a temporary table, and merges it by one
upsert. Memory, the log and the fill factor are set so that no checkpoint and no page split disturbs a run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from threading import Thread
from typing import Any

import msgspec

from bench.peers.drivers import join_sql, triggers
from bench.peers.drivers.scenarios import main
from bench.peers.drivers.turn import Changes, Turn, columns_of, split, sum_of
from bench.peers.shapes import CUSTOMERS, TABLE, Case, View
from bench.postgres import server

_SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "16GB", "wal_buffers": "64MB", "jit": "off"}
_OPTIONS = " with (fillfactor = 50)"
_CUSTOMER = ["id", "country", "ts"]
_EVENTS = {"insert": ("new",), "delete": ("old",), "update": ("new", "old")}


def _rows(columns: str, view: View, case: Case, event: str) -> str:
    """Return the query of the rows that an event added and removed, with their sign."""
    parts = []
    for side in _EVENTS[event]:
        present = triggers.present(view, case, "")
        where = f" where {present}" if present else ""
        sign = 1 if side == "new" else -1
        parts.append(f"select {columns}, {sign} as sign from {side}_rows{where}")
    return " union all ".join(parts)


def _of(view: View, case: Case) -> Iterator[str]:
    """Yield the trigger functions of a view, and the triggers on its source."""
    keys = ", ".join(triggers.parts(view))
    fields = [f'"{total.field.replace(".", "_")}"' for total in view.totals if total.field]
    columns = ", ".join(dict.fromkeys([*triggers.parts(view), *(name.strip('"') for name in fields)]))
    sums = [f"sum({sum_of(total, 'sign')})" for total in view.totals]
    some = " or ".join(f"{one} <> 0" for one in sums)
    for event in _EVENTS:
        body = (
            f"insert into {view.name} select {keys}, {', '.join(sums)} from ({_rows(columns, view, case, event)}) as c "
            f"group by {keys} having {some} {triggers.added(view)};"
        )
        yield from _trigger(view.name, triggers.source_of(view), event, body)


def _trigger(name: str, source: str, event: str, body: str) -> Iterator[str]:
    sides = " ".join(f"{side} table as {side}_rows" for side in _EVENTS[event])
    yield (f"create function {name}_{event}() returns trigger language plpgsql as $$ begin {body} return null; end $$")
    yield (
        f"create trigger {name}_{event} after {event} on {source} referencing {sides} "
        f"for each statement execute function {name}_{event}()"
    )


def _choosing(view: View) -> Iterator[str]:
    keys = ", ".join(triggers.parts(view))
    for event, sides in _EVENTS.items():
        groups = " union ".join(f"select distinct {keys} from {side}_rows" for side in sides)
        yield from _trigger(view.name, TABLE, event, triggers.refreshed(view, groups) + ";")


def prepared(base: Any, case: Case) -> None:
    """Make the tables and the triggers."""
    if case.joined:
        for statement in (*join_sql.tables(case, _OPTIONS), *join_sql.triggers(case, _trigger)):
            base.execute(statement)
        base.execute(f"alter table {TABLE} set (fillfactor = 80)")
        return
    for statement in triggers.tables(case, _OPTIONS):
        base.execute(statement)
    for view in triggers.kept(case):
        for statement in _of(view, case):
            base.execute(statement)
    for view in triggers.chosen(case):
        for statement in _choosing(view):
            base.execute(statement)
    base.execute(f"alter table {TABLE} set (fillfactor = 80)")


def _copied(rows: list[list[Any]]) -> bytes:
    """Return rows in the text format of COPY."""
    text = "\n".join("\t".join(map(str, row)) for row in rows) + "\n"
    return text.replace("\\", "\\\\").encode() if "\\" in text else text.encode()


class Postgres:
    """A running server with one connection that writes. A reader and the builder of a view have their own."""

    def __init__(self, turn: Turn, exists: bool) -> None:
        self._psycopg: Any = importlib.import_module("psycopg")
        self._case, self._open = turn.case, ExitStack()
        found = self._open.enter_context(server(turn.folder / "server", _SETTINGS, exists))
        self.version, self._address = found.version, found.address
        self._base = self._connection()
        if not exists:
            prepared(self._base, turn.case)
        names = [name for name, _ in columns_of(turn.case)]
        self._upsert = self._batch("batch", TABLE, names)
        if turn.case.joined:
            self._customers = self._batch("customer_batch", CUSTOMERS, _CUSTOMER)
        self._decode = msgspec.json.Decoder().decode
        self._changes = Changes(turn.case.columns, turn.case.whole)

    def _connection(self) -> Any:
        return self._open.enter_context(self._psycopg.connect(self._address, autocommit=True))

    def _batch(self, batch: str, table: str, names: list[str]) -> str:
        """Make the temporary table of a batch, and return its upsert."""
        self._base.execute(f"create temp table {batch} (like {table}) on commit delete rows")
        sets = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
        return (
            f"insert into {table} select * from {batch} on conflict (id) do update set {sets} "
            f"where {table}.ts < excluded.ts"
        )

    def _write_joined(self, lines: list[bytes]) -> None:
        customers, orders = split(lines)
        with self._base.transaction(), self._base.cursor() as cursor:
            for own, columns, batch, upsert in (
                (customers, _CUSTOMER, "customer_batch", self._customers),
                (orders, list(self._case.columns), "batch", self._upsert),
            ):
                if own:
                    rows, _ = Changes(columns, False).of(own, map(self._decode, own))
                    with cursor.copy(f"copy {batch} from stdin") as copy:
                        copy.write(_copied(rows))
                    cursor.execute(upsert)

    def write(self, lines: list[bytes]) -> None:
        if self._case.joined:
            self._write_joined(lines)
            return
        rows, gone = self._changes.of(lines, map(self._decode, lines))
        with self._base.transaction(), self._base.cursor() as cursor:
            if rows:
                with cursor.copy("copy batch from stdin") as copy:
                    copy.write(_copied(rows))
                cursor.execute(self._upsert)
            if gone:
                cursor.execute(f"delete from {TABLE} where id = any(%s)", [gone])

    def reader(self) -> Callable[[str], Any]:
        base = self._connection()
        return lambda city: base.execute("select * from by_city where city = %s", [city]).fetchone()

    def add(self, view: View) -> Callable[[], bool]:
        """Fill the table of the view and make its triggers, in one transaction that keeps writers out."""
        self._case = replace(self._case, views=(*self._case.views, view))
        base = self._connection()

        def build() -> None:
            with base.transaction():
                base.execute(f"lock table {TABLE} in share row exclusive mode")
                base.execute(triggers.table(view, self._case, _OPTIONS))
                for statement in _of(view, self._case):
                    base.execute(statement)
                base.execute(triggers.filled(view))

        builder = Thread(target=build)
        builder.start()
        return lambda: not builder.is_alive()

    def rows(self) -> Iterator[Any]:
        with self._open:
            for view in self._case.views:
                yield from self._base.execute(triggers.reading(view, self._case))

    def close(self) -> None:
        """Every commit is durable: the server runs on until the rows were read."""


if __name__ == "__main__":
    main(Postgres)
