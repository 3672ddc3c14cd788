"""DuckDB: upserts into a table on disk, and a full computation of all views after each batch.

Each batch is a file of JSON lines that the driver writes and DuckDB reads itself. The upsert and the computation are
one transaction.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.peers.drivers import join_sql
from bench.peers.drivers.scenarios import main
from bench.peers.drivers.turn import Turn, columns_of, name_of, split
from bench.peers.shapes import CUSTOMERS, TABLE, TOP, Case, How, Total, View

_CUSTOMER = {"id": "int", "country": "text", "ts": "int"}
_TYPES = {"int": "bigint", "text": "varchar"}


def _total(total: Total) -> str:
    field = f'"{name_of(total.field)}"'
    match total.how:
        case How.COUNT:
            return "count(*)"
        case How.SUM:
            return f"cast(sum({field}) as bigint)"
        case How.TOP:
            return f"max({field}, {TOP})"
        case How.DISTINCT:
            return f"count(distinct {field})"
        case _:
            return f"{total.how}({field})"


def query(view: View) -> str:
    """Return the query of a view."""
    keys = ", ".join(map(name_of, view.by))
    results = ", ".join(f'{_total(total)} as "{total.name}"' for total in view.totals)
    return f"select {keys}, {results} from {view.source or TABLE} group by {keys}"


def _batch(case: Case, file: Path) -> str:
    """Return the query of the greatest version of each document in a file, with the mark of deletes."""
    if case.whole:
        columns = [
            f"json ->> '$.{path}' as {name_of(path)}"
            if kind == "text"
            else f"cast(json -> '$.{path}' as {_TYPES[kind]}) as {name_of(path)}"
            for path, kind in case.columns.items()
        ]
        columns += ["cast(json as varchar) as line", "cast(json -> '$.deleted' as boolean) as deleted"]
        rows = f"select {', '.join(columns)} from read_json_objects('{file}', format = 'newline_delimited')"
    else:
        types = {path: _TYPES[kind] for path, kind in case.columns.items()} | {"deleted": "boolean"}
        rows = f"select * from read_json('{file}', format = 'newline_delimited', columns = {types})"
    return f"select * from ({rows}) qualify row_number() over (partition by id order by ts desc) = 1"


class Duck:
    """An open database. A reader has a cursor of the same process."""

    def __init__(self, turn: Turn, exists: bool) -> None:
        duckdb: Any = importlib.import_module("duckdb")
        self.version = str(duckdb.__version__)
        self._case, self._file = turn.case, turn.folder / "batch.jsonl"
        self._base = duckdb.connect(str(turn.folder / "base.duckdb"))
        if not exists:
            columns = columns_of(turn.case)
            listed = [f"{name} {_TYPES[kind]}{' primary key' if name == 'id' else ''}" for name, kind in columns]
            self._base.execute(f"create table {TABLE} ({', '.join(listed)})")
            if turn.case.joined:
                self._base.execute(f"create table {CUSTOMERS} (id bigint primary key, country varchar, ts bigint)")

    def write(self, lines: list[bytes]) -> None:
        run = self._base.execute
        run("begin")
        if self._case.joined:
            customers, orders = split(lines)
            self._upsert(CUSTOMERS, replace(self._case, columns=_CUSTOMER), customers)
            self._upsert(TABLE, self._case, orders)
        else:
            self._upsert(TABLE, self._case, lines)
        for view in self._case.views:
            run(f"create or replace table {view.name} as {join_sql.QUERY if self._case.joined else query(view)}")
        run("commit")

    def _upsert(self, table: str, case: Case, lines: list[bytes]) -> None:
        if not lines:
            return
        self._file.write_bytes(b"\n".join(lines) + b"\n")
        run = self._base.execute
        run(f"create or replace temp table batch as {_batch(case, self._file)}")
        run(f"delete from {table} where id in (select id from batch where deleted)")
        run(f"insert or replace into {table} select * exclude (deleted) from batch where deleted is null")

    def reader(self) -> Callable[[str], Any]:
        cursor = self._base.cursor()
        return lambda city: cursor.execute("select * from by_city where city = ?", [city]).fetchone()

    def add(self, view: View) -> Callable[[], bool]:
        """Compute one more view from now on."""
        self._case = replace(self._case, views=(*self._case.views, view))
        self._base.execute(f"create or replace table {view.name} as {query(view)}")
        return lambda: True

    def rows(self) -> Iterator[Any]:
        for view in self._case.views:
            yield from self._base.execute(f"select '{view.name}', * from {view.name}").fetchall()
        self._base.close()

    def close(self) -> None:
        """Every commit is durable: the database stays open until the rows were read."""


if __name__ == "__main__":
    main(Duck)
