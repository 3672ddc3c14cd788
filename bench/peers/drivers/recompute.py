"""DuckDB: upserts into a table on disk, and a full computation of all views after each batch.

Each batch is a file of JSON lines that DuckDB reads itself. The upsert and the computation are one transaction.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bench.peers.drivers.turn import Turn, columns_of, name_of
from bench.peers.shapes import TABLE, TOP, Case, How, Total, View

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


def main() -> None:
    turn = Turn()
    duckdb: Any = importlib.import_module("duckdb")
    files = []
    for number, lines in enumerate(turn.batches()):
        files.append(turn.folder / f"{number}.jsonl")
        files[-1].write_bytes(b"\n".join(lines) + b"\n")
    base = duckdb.connect(str(turn.folder / "base.duckdb"))
    listed = [f"{name} {_TYPES[kind]}{' primary key' if name == 'id' else ''}" for name, kind in columns_of(turn.case)]
    base.execute(f"create table {TABLE} ({', '.join(listed)})")
    turn.ready()
    for file in files:
        base.execute("begin")
        base.execute(f"create or replace temp table batch as {_batch(turn.case, file)}")
        base.execute(f"delete from {TABLE} where id in (select id from batch where deleted)")
        base.execute(f"insert or replace into {TABLE} select * exclude (deleted) from batch where deleted is null")
        for view in turn.case.views:
            base.execute(f"create or replace table {view.name} as {query(view)}")
        base.execute("commit")
    turn.done(duckdb.__version__)
    turn.write(
        row for view in turn.case.views for row in base.execute(f"select '{view.name}', * from {view.name}").fetchall()
    )
    base.close()


if __name__ == "__main__":
    main()
