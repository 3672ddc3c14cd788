"""Flink: SQL over a file of JSON lines, on a cluster within one JVM.

The last line of each id wins by deduplication. Both views go to the print connector, whose output is a file. It has the
changes of all rows, and the last of each group counts. A small job before the clock starts warms the JVM up.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.peers.drivers.turn import Turn

_SETTINGS = {
    "parallelism.default": "1",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "10000",
    "taskmanager.memory.managed.size": "1gb",
}
_STORED = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.incremental": "true",
}
_CHANGE = re.compile(r"^(by_\w+)(?::\d+)?> ([+-][IUD])\[(.*)\]$")
_SOURCE = """
create temporary table users_{n} (id bigint, name string, city string, amount bigint, deleted boolean,
arrival as proctime()) with ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')
"""
_LAST = """
create temporary view last_{n} as select name, city, amount from (select *, row_number() over (partition by id
order by arrival desc) as place from users_{n}) where place = 1 and deleted is null
"""
_SINKS = (
    "create temporary table {name}_{n} ({columns}) with ('connector' = 'print', 'print-identifier' = '{label}')",
    "insert into {name}_{n} {query} from last_{n} group by {group}",
)
_VIEWS = {
    "by_name": ("name string, n bigint", "select name, count(*)", "name"),
    "by_city": ("city string, n bigint, total bigint", "select city, count(*), sum(amount)", "city"),
}


def _environment(turn: Turn) -> Any:
    table: Any = importlib.import_module("pyflink.table")
    own = table.TableEnvironment.create(table.EnvironmentSettings.in_streaming_mode())
    settings = dict(_SETTINGS)
    if turn.setting == "storage":
        settings |= _STORED | {"execution.checkpointing.dir": (turn.folder / "checkpoints").as_uri()}
    for name, value in settings.items():
        own.get_config().set(name, value)
    return own


def _run(own: Any, number: int, path: Path, shown: bool) -> None:
    """Run both views over a file to its end. Only shown ones are read."""
    own.execute_sql(_SOURCE.format(n=number, path=path))
    own.execute_sql(_LAST.format(n=number))
    statements = own.create_statement_set()
    for name, (columns, query, group) in _VIEWS.items():
        label = name if shown else "warm"
        own.execute_sql(_SINKS[0].format(name=name, n=number, columns=columns, label=label))
        statements.add_insert_sql(_SINKS[1].format(name=name, n=number, query=query, group=group))
    statements.execute().wait()


def _rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows that the changes of a file leave."""
    views: dict[tuple[str, str], list[str]] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            if found := _CHANGE.match(line):
                view, change, text = found.groups()
                row = text.split(", ")
                if change in ("+I", "+U"):
                    views[view, row[0]] = [view, *row]
                elif change == "-D":
                    views.pop((view, row[0]), None)
    yield from views.values()


def main() -> None:
    turn = Turn()
    printed = turn.folder / "printed"
    own_output = os.dup(1)  # the JVM inherits descriptor 1 and prints there
    with printed.open("wb") as file:
        os.dup2(file.fileno(), 1)
    sys.stdout = os.fdopen(own_output, "w")
    few = turn.folder / "few.jsonl"
    few.write_bytes(b"\n".join(turn.batches()[0][:100]) + b"\n")
    own = _environment(turn)
    _run(own, 0, few, shown=False)
    turn.ready()
    _run(own, 1, turn.input, shown=True)
    turn.done(version("apache-flink"))
    turn.write(_rows(printed))


if __name__ == "__main__":
    main()
