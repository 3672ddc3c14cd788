"""The side of a driver in one turn. It needs the standard library alone.

A driver prepares its peer and says `ready`. On `go` it does the measured work and says `done`. On `rows` it writes the
rows of its views to a file and ends. Its arguments are workload, case, setting, batch, input, folder and rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.peers.shapes import WORKLOADS, Case, How, Total, View


class Turn:
    """One turn of this driver."""

    def __init__(self) -> None:
        workload, case, self.setting, batch, given, folder, rows = sys.argv[1:]
        self.workload = WORKLOADS[int(workload)]
        self.case: Case = self.workload.case(case)
        self.batch = int(batch)
        self.input, self.folder, self._rows = Path(given), Path(folder), Path(rows)

    def batches(self) -> list[list[bytes]]:
        """Return the lines of the input in batches."""
        return cut(self.input.read_bytes().splitlines(), self.batch)

    def parts(self) -> tuple[list[bytes], list[bytes]]:
        """Return the lines that fill the store, and the lines to be measured."""
        lines = self.input.read_bytes().splitlines()
        n = min(self.case.measured, len(lines) // 2) or len(lines)
        return lines[:-n], lines[-n:]

    def ready(self) -> None:
        """Say that everything is prepared, and wait for the start of the clock."""
        self._say("ready", "go")

    def done(self, version: str, **measures: float) -> None:
        """Say that the work is done, with the version of the peer and measures of the driver itself."""
        self._say(f"done {json.dumps({'version': version, **measures})}", "rows")

    def write(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write the rows of the views: the name of the view, the parts of the group, and its results."""
        with self._rows.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write("\t".join(map(_text, row)) + "\n")

    def _say(self, word: str, answer: str) -> None:
        print(word, flush=True)
        if sys.stdin.readline().strip() != answer:
            raise SystemExit(f"the bench ended before it said {answer!r}")


def cut(lines: list[bytes], size: int) -> list[list[bytes]]:
    """Return lines in batches."""
    return [lines[a : a + size] for a in range(0, len(lines), size)]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class Changes:
    """The changes of one batch by key: the last document of each key as columns, and the keys that are deleted."""

    def __init__(self, columns: Iterable[str], whole: bool) -> None:
        self._paths = [name.split(".") for name in columns]
        self._whole = whole

    def of(self, lines: list[bytes], docs: Iterable[Any]) -> tuple[list[list[Any]], list[Any]]:
        """Return the rows to upsert and the keys to delete of these documents."""
        last: dict[Any, tuple[bytes, Any]] = {}
        for line, doc in zip(lines, docs, strict=True):
            last[doc["id"]] = line, doc
        rows = [self._row(line, doc) for line, doc in last.values() if not doc.get("deleted")]
        return rows, [key for key, (_, doc) in last.items() if doc.get("deleted")]

    def _row(self, line: bytes, doc: Any) -> list[Any]:
        row = []
        for path in self._paths:
            value = doc
            for part in path:
                value = value[part]
            row.append(value)
        return [*row, line.decode()] if self._whole else row


def split(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the customers and the orders among the lines of a join."""
    return [line for line in lines if b'"country"' in line], [line for line in lines if b'"country"' not in line]


def columns_of(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the columns of the table of a case: the name of each in SQL, and `int` or `text`."""
    for path, kind in case.columns.items():
        yield name_of(path), kind
    if case.whole:
        yield "line", "text"


def name_of(path: str) -> str:
    """Return the name of a field in SQL."""
    return path.replace(".", "_")


def sum_of(total: Total, sign: str = "1") -> str:
    """Return the contribution of one row to a count or a sum, in SQL."""
    return sign if total.how is How.COUNT else f"{sign} * {name_of(total.field)}"


def is_sum(view: View) -> bool:
    """Test whether a view has only counts and sums."""
    return all(total.how in (How.COUNT, How.SUM) for total in view.totals)
