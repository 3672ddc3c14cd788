"""The input of a backfilled table: files, folders, topics and DataFrames, as Spark frames of records.

The engine's own spouts read files and topics, in parts. So a record equals that of `load` or `run`. Invariants:

- Named files keep their order, and the order of records in each. A folder and a DataFrame have no order.
- Parts of a file meet at ends of lines or of row groups, and cover the whole file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.cache import DefinitionError, MissingExtra
from penstock.engine import Batch, delivered
from penstock.gateway import NUMBER, stamps_of
from penstock.mapreduce import Decoder, FieldPlan, Spaces
from penstock.spark.backfill_job.records_by_key import DocumentRows, InputRows, KafkaRows, PieceRows, pieces_read
from penstock.spark.backfill_job.topic_range import TopicRows, head_of, range_data, ranges_of
from penstock.spark.task_messages import Origin, Piece
from penstock.spout import SourceUnreadable, Uri, UriError, file_size, format_of, null_texts
from penstock.views import Table

__all__ = ["TableInput", "table_input"]

PART = 16 << 20  # bytes of a file that a task reads
_KAFKA = {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType"}
_PACKED, _DENSE = 5, 3  # growth of a packed file, or of a columnar one, when it is read
_ROW = 200
_HEAD = 1000
_UNKNOWN = 1 << 50  # Spark reports more than this if it doesn't know the size
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class TableInput:
    """The input of one table."""

    table: Table
    frames: list[tuple[Any, InputRows]]
    origins: list[Origin]
    size: int  # approximate bytes of its records
    ordered: bool
    ts_kind: str | None


def table_input(spark: Any, table: Table, sources: Any, origin: int) -> TableInput:
    """Return the input of a table from one or several sources. Their origins are numbered from `origin` on."""
    many = sources if isinstance(sources, list | tuple) else [sources]
    out = TableInput(table, [], [], 0, True, NUMBER if table.broker_ts else None)
    pieces: list[Piece] = []
    for source in many:
        number = origin + len(out.origins)
        if isinstance(source, str) and Uri.parse(source).scheme == "kafka" and not os.path.lexists(source):
            _topic(out, spark, Uri.parse(source), number)
        elif isinstance(source, str | os.PathLike):
            pieces += _files(out, os.fspath(source), number)
        elif hasattr(source, "mapInArrow"):
            _frame(out, source, number)
        else:
            raise DefinitionError(
                f"table {table.name!r} got {type(source).__name__}; give it a DataFrame, the path of a file or folder, "
                "or a list of these"
            )
    if pieces:
        rows = [(i, bytearray(_encode(piece))) for i, piece in enumerate(pieces)]
        frame = spark.createDataFrame(rows, "i int, piece binary").repartitionById(len(rows), "i")
        out.frames.append((frame, PieceRows(table.name)))
        if table.ts is not None and out.ts_kind is None:
            out.ts_kind = first_kind(table, (batch for piece in pieces for batch, _ in pieces_read(piece)))
    return out


def first_kind(table: Table, batches: Iterator[Batch]) -> str | None:
    """Return the kind of ts of the first acceptable record."""
    decoder = Decoder(FieldPlan.of(table.key, table.ts, ()), Spaces(), 0)
    for batch in batches:
        columns = decoder.columns(batch.records.lines)
        if columns.n and columns.ts is not None:
            kind = stamps_of(columns.ts, None, set(columns.bad))[1]
            if kind is not None:
                return kind
    return None


# -- DataFrames


def _frame(out: TableInput, frame: Any, origin: int) -> None:
    """Add the rows of a DataFrame."""
    table = out.table
    size = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    out.size += size if size < _UNKNOWN else int(frame.count()) * _ROW
    if set(frame.columns) >= _KAFKA:
        selection = frame.selectExpr("key", "value", "partition", "offset", "unix_millis(timestamp) as ts")
        out.frames.append((selection, KafkaRows(table.name, origin, table.broker_ts)))
        out.origins.append(Origin("kafka", "offset", offsets=True))
        head = [row["value"] for row in selection.orderBy("partition", "offset").limit(_HEAD).select("value").collect()]
        lines = [bytes(value) for value in head if value is not None]
    else:
        needed = {paths[0] for paths in (*table.key.paths, *([table.ts] if table.ts else []))}
        missing = sorted(needed - set(frame.columns))
        if missing:
            names = ", ".join(frame.columns)
            raise DefinitionError(
                f"the DataFrame of table {table.name!r} has no column {missing[0]!r} but {names}; rename one, or "
                "define the table by one of these"
            )
        out.ordered = False
        out.frames.append((frame, DocumentRows(table.name, origin)))
        out.origins.append(Origin("dataframe", "a row of the DataFrame", counted=False))
        lines = [row.asDict(recursive=True) for row in frame.limit(_HEAD).collect()] if table.ts is not None else []
    if table.ts is not None and out.ts_kind is None:
        batch = Batch()
        for line in lines:
            batch.add(line)
        out.ts_kind = first_kind(table, iter([batch]))


# -- topics


def _topic(out: TableInput, spark: Any, uri: Uri, origin: int) -> None:
    """Add a range of a Kafka topic. Each partition is an origin of its own."""
    table, ranges = out.table, ranges_of(uri, out.table.name)
    rows = [(i, bytearray(range_data(own, origin + i))) for i, own in enumerate(ranges)]
    frame = spark.createDataFrame(rows, "i int, piece binary").repartitionById(len(rows), "i")
    out.frames.append((frame, TopicRows(table.name, uri, table.broker_ts)))
    out.origins += [Origin(own.source, own.unit, offsets=True) for own in ranges]
    size = lines = 0
    heads: list[Batch] = []
    for head in head_of(uri, table.name, ranges):
        heads.append(delivered(head))
        size, lines = size + sum(map(len, head.records.lines)), lines + len(head.offsets)
    out.size += sum(own.stop - own.start for own in ranges) * size // max(1, lines)
    if table.ts is not None and out.ts_kind is None:
        out.ts_kind = first_kind(table, iter(heads))


# -- files


def _files(out: TableInput, text: str, origin: int) -> list[Piece]:
    """Return the parts of a file, or of all files of a folder."""
    uri = Uri.parse(text)
    if uri.scheme != "file":
        raise UriError(text, f"there is no reader of {uri.scheme}: here", "hand its DataFrame to ps.spark.backfill()")
    uri.only("format", "delimiter", "null")
    path = text if os.path.lexists(text) else uri.rest
    if os.path.isdir(path):
        out.ordered = False
        names = sorted(_within(path))
        if not names:
            raise SourceUnreadable(path, "there is no file in this folder", "name one with files, or a file")
    else:
        names = [path]
    found: list[Piece] = []
    for i, name in enumerate(names):
        pieces = _pieces(out, name, uri.options.get("format"), uri.options.get("delimiter"), origin + i)
        found += [msgspec.structs.replace(piece, nulls=null_texts(uri)) for piece in pieces]
    return found


def _within(folder: str) -> Iterator[str]:
    """Yield the files of a folder and its subfolders, except names with the prefixes of Spark's own files."""
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[:1] not in "._"]
        yield from (os.path.join(base, name) for name in names if name[:1] not in "._")


def _pieces(out: TableInput, path: str, format: str | None, delimiter: str | None, origin: int) -> list[Piece]:
    """Return the parts of one file."""
    size = file_size(path)
    if size is None:
        raise SourceUnreadable(path, "it is a pipe, not a file", "save it to a file, or use `penstock load`")
    kind, packed = format_of(path, format)
    where = os.path.abspath(path)
    source = f"{out.table.name}=file:{os.fsencode(os.path.realpath(path)).decode('utf-8', 'backslashreplace')}"
    whole = Piece(out.table.name, where, format, delimiter, origin=origin)
    parquet = kind == "parquet"
    out.origins.append(Origin(source, f"{path}, {'row' if parquet else 'line'}"))
    out.size += size * (_DENSE if parquet else _PACKED if packed else 1)
    if packed or not size or not (parquet or kind == "jsonl"):
        return [whole]
    cuts = list(_groups_of_rows(path) if parquet else _lines_of(path, size))
    return [
        msgspec.structs.replace(whole, offset=offset, number=number, count=count)
        for offset, number, count in _open(cuts)
    ]


def _open(cuts: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the parts, with the last one open to the end of the file."""
    offset, number, _ = cuts[-1]
    return [*cuts[:-1], (offset, number, -1)]


def _lines_of(path: str, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a file of lines: the offset, the number of lines before it, and the number of its lines."""
    at = number = 0
    with open(path, "rb") as file:
        while at < size:
            lines = file.read(PART).count(b"\n") + file.readline().count(b"\n")
            yield at, number, lines
            at, number = file.tell(), number + lines


def _groups_of_rows(path: str) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a Parquet file, whose offsets are numbers of rows."""
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("pyarrow", "arrow") from None
    try:
        meta = parquet.ParquetFile(path).metadata
    except (ValueError, OSError) as error:
        raise SourceUnreadable(
            path, f"it is no Parquet file ({' '.join(str(error).split())[:120]})", "check it"
        ) from error
    start = rows = size = 0
    for i in range(meta.num_row_groups):
        group = meta.row_group(i)
        rows, size = rows + group.num_rows, size + group.total_byte_size
        if size >= PART or i == meta.num_row_groups - 1:
            yield start, start, rows - start
            start, size = rows, 0
    if not meta.num_row_groups:
        yield 0, 0, 0
