"""`spark.read.format("penstock")`: read views and tables of a store, stream changes, and put records.

All tasks of a query read one position: that of a copy, or of the store if nobody writes it meanwhile. Records are
written through the gateway, by the process that holds the store. Invariants:

- All rows of a query have one position. Otherwise it fails with `StoreChanged`.
- If Spark repeats a batch of a stream, the repetition changes nothing: the batch number is committed with its records.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.cache import DefinitionError, PenstockError, decode_key, pack_document
from penstock.engine import AppTransfer, Engine, copy_of, open_engine, writer
from penstock.gateway import document_of, unwrap
from penstock.spark.backfill_job.task_result_files import FrameKind, TaskResultFile, read_task_results
from penstock.spark.dataframe.filters import keys_asked, narrowed
from penstock.spark.dataframe.frame_columns import arrow_of, chunks, group_columns, key_names, shape_of
from penstock.spark.verify_job.spans import Span, spans_of, spans_of_log
from penstock.spout import Record
from penstock.views import ABSENT, App

__all__ = ["PenstockSource", "StoreChanged"]

_CHUNK = 4096
_CHANGES = "position bigint, key string, old string, new string"


class StoreChanged(PenstockError):
    """A store that another process wrote during a query.

    >>> print(StoreChanged("state", 5, 6))
    state: it went from position 5 to 6 while it was read; read a copy: .option("snapshot", DIR) makes one
    """

    def __init__(self, path: str, planned: int, found: int) -> None:
        super().__init__(path, planned, found)
        self.path = path
        self.planned = planned
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.path}: it went from position {self.planned} to {self.found} while it was read; read a copy: "
            '.option("snapshot", DIR) makes one'
        )


class PenstockSource(DataSource):
    """The data source. Options: `store`, `view` or `table`, `snapshot` (folder of a copy), `partitions`, `since`."""

    app: AppTransfer | None = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._view, self._table = options.get("view"), options.get("table")
        path = options.get("store") or options.get("path")
        if path is None:
            raise DefinitionError('the source has no store; write .option("store", "state")')
        if (self._view is None) == (self._table is None):
            raise DefinitionError('name one of the two: .option("view", "namecount") or .option("table", "users")')
        self._store = os.path.abspath(path)

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def _copy(self) -> str:
        """Return the path to read: the store, or its copy, which is made if it doesn't exist."""
        snapshot = self.options.get("snapshot")
        if snapshot is None:
            return self._store
        if not os.path.exists(os.path.join(snapshot, "data.mdb")):
            copy_of(self._store, snapshot)
        return os.path.abspath(snapshot)

    def schema(self) -> str:
        if self.options.get("stream"):
            return _CHANGES
        with _opened(self._copy()) as engine, engine.snapshot() as snap:
            shape = shape_of(snap, self._view, self._table)
        if not shape.names:
            raise DefinitionError(f"{self._view or self._table!r} has no rows that show a schema; give .schema(…)")
        return shape.ddl

    def reader(self, schema: Any) -> RowsReader:
        return RowsReader(self._copy(), self._view, self._table, int(self.options.get("partitions", 8)), schema)

    def streamReader(self, schema: Any) -> ChangesReader:
        if self._view is None:
            raise DefinitionError('a stream is of the changes of a view; write .option("view", "namecount")')
        since = self.options.get("since")
        return ChangesReader(self._store, self._view, None if since is None else int(since))

    def writer(self, schema: Any, overwrite: bool) -> DocumentsWriter:
        return DocumentsWriter(self._writes())

    def streamWriter(self, schema: Any, overwrite: bool) -> DocumentsStreamWriter:
        return DocumentsStreamWriter(
            self._writes(), self.options.get("source") or self.options.get("checkpointLocation")
        )

    def _writes(self) -> _Writes:
        if self._table is None:
            raise DefinitionError('records go to a table; write .option("table", "users")')
        if self.app is None:
            raise DefinitionError("to write, Spark needs the app: register it with ps.spark.register(spark, app)")
        return _Writes(self.app, self._store, self._table, self.options.get("staging") or f"{self._store}.incoming")


def _opened(path: str) -> Engine:
    """Open the store with the definitions of its catalog."""
    return open_engine(App("reader"), path, readonly=True)


# -- reading


@dataclass
class _QueryPart(InputPartition):
    """A part of a query."""

    position: int
    start: bytes
    stop: bytes | None


class RowsReader(DataSourceReader):
    """The rows of a view, or the documents of a table, in ranges of keys."""

    def __init__(self, path: str, view: str | None, table: str | None, many: int, schema: Any) -> None:
        self._path = path
        self._view = view
        self._table = table
        self._many = many
        self._schema = to_arrow_schema(schema)
        self._filters: list[Any] = []

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Remember all filters, to skip rows. Spark still applies them exactly."""
        self._filters = list(filters)
        yield from filters

    def partitions(self) -> Sequence[InputPartition]:
        with _opened(self._path) as engine, engine.snapshot() as snap:
            reader = snap.reader()
            if self._table is not None:
                spans = spans_of_log(reader, snap.schema.table(self._table).number, self._many)
            else:
                node, own = snap.schema.view(self._view or "", reader), key_names(self._schema.names)
                one = own == ["key"] and not node.view.index
                span = narrowed(self._filters, "key") if one else Span(b"", None)
                spans = spans_of(reader, node.reduce.db, self._many, span.start, span.stop)
            return [_QueryPart(snap.position, span.start, span.stop) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _QueryPart), "made by partitions()"
        with _opened(self._path) as engine, engine.snapshot() as snap:
            if snap.position != partition.position:
                raise StoreChanged(self._path, partition.position, snap.position)
            yield from self._documents(snap, partition) if self._table is not None else self._rows(snap, partition)

    def _rows(self, snap: Any, part: _QueryPart) -> Iterator[Any]:
        node = snap.schema.view(self._view, snap.reader())
        codec, where, names = node.reduce.codec, f"view {self._view!r}", self._schema.names
        for chunk in chunks(snap.reader().scan(node.reduce.db, part.start, part.stop), _CHUNK):
            states = [codec.decode(key, row, where) for key, row in chunk]
            keys = [decode_key(state.whole or key) for (key, _), state in zip(chunk, states, strict=True)]
            values = [codec.result(state) for state in states]
            columns = group_columns(keys, names, node.view.index)
            fields = node.view.fields
            if fields is None:
                columns["value"] = values
            else:
                columns |= {name: [None if v is None else v[name] for v in values] for name in fields}
            yield arrow_of(columns, self._schema, where)

    def _documents(self, snap: Any, part: _QueryPart) -> Iterator[Any]:
        table = snap.table(self._table)
        paths = snap.schema.table(self._table).table.key.paths
        asked = keys_asked(self._filters, [path[0] for path in paths]) if all(len(p) == 1 for p in paths) else None
        if asked is None:
            docs: Iterator[dict[str, Any]] = self._scanned(table, part)
        else:
            docs = iter([doc for doc in table.get_many(asked) if doc is not None] if not part.start else [])
        for chunk in chunks(docs, _CHUNK):
            columns = {name: [doc.get(name) for doc in chunk] for name in self._schema.names}
            yield arrow_of(columns, self._schema, f"table {self._table!r}")

    @staticmethod
    def _scanned(table: Any, part: _QueryPart) -> Iterator[dict[str, Any]]:
        low = int.from_bytes(part.start, "big")
        high = None if part.stop is None else int.from_bytes(part.stop, "big")
        for block in table.blocks_between(low, high):
            newest = table.newest(block.k0, block.k1, block.records)
            for line, own in zip(block.lines, newest.tolist(), strict=True):
                if own and not unwrap(line).absent:
                    yield document_of(line)


# -- changes


class ChangesReader(DataSourceStreamReader):
    """The changes of a view, by position. Keys and results are text or JSON, and null without a row."""

    def __init__(self, path: str, view: str, since: int | None) -> None:
        self._path = path
        self._view = view
        self._since = since

    def initialOffset(self) -> dict[str, int]:
        if self._since is not None:
            return {"position": self._since}
        with _opened(self._path) as engine, engine.snapshot() as snap:
            return {"position": snap.state.followed}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        with _opened(self._path) as engine, engine.snapshot() as snap:
            return {"position": snap.position}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [_QueryPart(end["position"], start["position"].to_bytes(8, "big"), None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        assert isinstance(partition, _QueryPart), "made by partitions()"
        since, schema = int.from_bytes(partition.start, "big"), pa.schema(_change_fields())
        with _opened(self._path) as engine:
            if since >= partition.position:
                return
            own = (c for c in engine.changes(self._view, since=since) if c.position <= partition.position)
            for chunk in chunks(own, _CHUNK):
                columns = {
                    "position": [change.position for change in chunk],
                    "key": [change.group for change in chunk],
                    "old": [None if change.old is ABSENT else change.old for change in chunk],
                    "new": [None if change.new is ABSENT else change.new for change in chunk],
                }
                yield arrow_of(columns, schema, f"view {self._view!r}")


def _change_fields() -> list[Any]:
    import pyarrow as pa

    return [("position", pa.int64()), ("key", pa.string()), ("old", pa.string()), ("new", pa.string())]


# -- writing


@dataclass
class _Done(WriterCommitMessage):
    """The message of a task: its file of documents."""

    path: str


@dataclass(frozen=True, slots=True)
class _Writes:
    """The target of records: app, store, table, and a staging folder."""

    app: AppTransfer
    store: str
    table: str
    staging: str

    def stage(self, batches: Iterator[Any]) -> _Done:
        """Write a task's rows to a file of documents."""
        os.makedirs(self.staging, exist_ok=True)
        path = os.path.join(self.staging, uuid.uuid4().hex)
        with TaskResultFile(path) as frames:
            for batch in batches:
                lines = [pack_document(doc) for doc in batch.to_pylist(maps_as_pydicts="strict")]
                frames.add(FrameKind.ROWS, self.table, [b""] * len(lines), lines)
        return _Done(path)

    def documents(self, messages: Sequence[WriterCommitMessage | None]) -> Iterator[dict[str, Any]]:
        """Yield the documents that tasks wrote."""
        for message in messages:
            if isinstance(message, _Done):
                for _, _, (_, lines) in read_task_results(message.path, [FrameKind.ROWS]):
                    yield from map(document_of, lines)

    def discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files that tasks wrote."""
        for message in messages:
            if isinstance(message, _Done) and os.path.exists(message.path):
                os.unlink(message.path)
        if os.path.isdir(self.staging) and not os.listdir(self.staging):
            os.rmdir(self.staging)


class DocumentsWriter(DataSourceArrowWriter):
    """A writer that puts the rows of a DataFrame as documents, through the store's gateway."""

    def __init__(self, writes: _Writes) -> None:
        self._writes = writes

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writes.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        own = self._writes
        with writer(own.store, own.app.app()) as writing:
            for chunk in chunks(own.documents(messages), _CHUNK):
                writing.put_many(own.table, chunk)
        own.discard(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writes.discard(messages)


class DocumentsStreamWriter(DataSourceStreamArrowWriter):
    """A writer that puts the rows of a stream's batches, each batch once, however often Spark repeats it."""

    def __init__(self, writes: _Writes, source: str | None) -> None:
        if source is None:
            raise DefinitionError('a stream needs a name: write .option("source", "spark:orders")')
        self._writes = writes
        self._source = source

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writes.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        own = self._writes
        records = [Record(own.table, None, doc, offset=batchId) for doc in own.documents(messages)]
        with writer(own.store, own.app.app()) as writing:
            writing.ingest(records, source=self._source, resume=batchId + 1)
        own.discard(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._writes.discard(messages)
