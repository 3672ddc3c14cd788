"""A stand-in for a Spark session. It runs tasks in the test, so that bugs can be planted in them.

It has the parts of Spark that `penstock.spark` uses: rows, their parts by number, work on batches of each part. A frame
is a list of columns by name for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}


def _schema(ddl: str) -> Any:
    pairs = [column.split() for column in ddl.split(",")]
    return pa.schema([(name, _TYPES[kind]) for name, kind in pairs])


class Frame:
    """Rows in parts."""

    def __init__(self, parts: list[list[dict[str, Any]]], schema: Any) -> None:
        self._parts = parts
        self._schema = schema

    def repartitionById(self, many: int, column: str) -> Frame:
        parts: list[list[dict[str, Any]]] = [[] for _ in range(many)]
        for row in self.collect():
            parts[row[column] % many].append(row)
        return Frame(parts, self._schema)

    def mapInArrow(self, work: Callable[[Iterator[Any]], Iterator[Any]], ddl: str) -> Frame:
        schema = _schema(ddl)
        out: list[list[dict[str, Any]]] = []
        for part in self._parts:
            batches = [pa.RecordBatch.from_pylist([row], self._schema) for row in part]
            out.append([row for batch in work(iter(batches)) for row in batch.cast(schema).to_pylist()])
        return Frame(out, schema)

    def selectExpr(self, every: str, modulo: str) -> Frame:
        assert every == "*"
        column, _, many, _, name = modulo.split()
        parts = [[{**row, name: row[column] % int(many)} for row in part] for part in self._parts]
        return Frame(parts, self._schema.append(pa.field(name, pa.int32())))

    @property
    def sparkSession(self) -> InProcess:
        return InProcess()

    def unionAll(self, other: Frame) -> Frame:
        return Frame(self._parts + other._parts, self._schema)

    def collect(self) -> list[dict[str, Any]]:
        return [row for part in self._parts for row in part]


class _Conf:
    def get(self, name: str, default: Any = None) -> Any:
        return default

    def set(self, name: str, value: Any) -> None:
        """Ignore the setting."""

    def unset(self, name: str) -> None:
        """Ignore the setting."""


class _Context:
    defaultParallelism = 1

    def setJobGroup(self, *_: Any, **__: Any) -> None:
        """There is one job at a time."""

    def cancelJobGroup(self, group: str) -> None:
        """There is one job at a time."""

    def setLocalProperty(self, name: str, value: Any) -> None:
        """There is one job at a time."""

    def statusTracker(self) -> Any:
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return []


class InProcess:
    """The session."""

    conf = _Conf()
    sparkContext = _Context()

    def stop(self) -> None:
        """Do nothing: no process was started."""

    def createDataFrame(self, rows: list[tuple[Any, ...]], ddl: str) -> Frame:
        schema = _schema(ddl)
        return Frame([[dict(zip(schema.names, row, strict=True)) for row in rows]], schema)
