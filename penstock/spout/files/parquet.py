"""Read rows of Parquet files as documents, in the order of the file. The offset is the number of rows read.

A Parquet file is never changed after it was written. If its size, first block or last block differs, it is another
file. This needs the extra `arrow`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

from penstock.cache import MissingExtra, PenstockError, RowPacker, normalise, pack_document
from penstock.gateway import ReceivedRecord, TableBatch
from penstock.spout.errors import SourceUnreadable
from penstock.spout.files.csv_columns import MOST_CELLS
from penstock.spout.files.file_identity import FileBlock, FileFacts, FileState, Standing
from penstock.spout.protocol import Contract, Recall, SpoutBatch

_EXACT = Contract(True, "its rows from an offset on are read again as long as the file is the same")
_FORMAT = "parquet"
_NONE = FileBlock.of(b"")
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_Refused = tuple[str, ReceivedRecord]


class ParquetSpout:
    """The spout of one Parquet file."""

    def __init__(self, file: int, name: str, source: str, again: bool = False) -> None:
        try:
            parquet: Any = importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise MissingExtra("pyarrow", "arrow") from None
        self.source = source
        self.contract = _EXACT
        self.standing = Standing.FRESH
        self.unended = False
        self.number = 0
        self.name = name
        self._anew = again
        self._again = False
        self._whole = FileFacts.of(file)
        self._file = file
        try:
            self._table = parquet.ParquetFile(os.fdopen(file, "rb", closefd=False))
        except (ValueError, OSError) as error:
            raise SourceUnreadable(name, f"it is no Parquet file ({_line(error)})", "check what it is") from error
        self._rows: int = self._table.metadata.num_rows
        self.columns: tuple[str, ...] | None = tuple(self._table.schema_arrow.names)
        assert self.columns is not None
        self._coming: Iterator[Any] | None = None
        self._held: list[Any] = []  # slices of the file that were not returned yet
        self._packer = RowPacker(self.columns) if len(set(self.columns)) == len(self.columns) else None
        self.ended = not self._rows

    def begin(self, recall: Recall) -> None:
        """Continue after the rows that the store has, if they are of this file."""
        known = recall(self.source)
        if known is None:
            return
        state = FileState.decode(known.note)
        same = state is not None and state.format == _FORMAT and state.whole == self._whole
        if same and not self._anew:
            self.number = known.offset
            self.ended = self.number >= self._rows
            self.standing = Standing.FINISHED if self.ended else Standing.BEGUN
        else:
            self._again = True
            self.standing = Standing.FRESH if self._anew else Standing.REPLACED

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return the next rows."""
        parts = self._take(limit)
        if not parts:
            self.ended = True
            return None
        start = self.number
        lines: list[bytes] = []
        columns: list[list[Any]] | None = [[] for _ in self.columns or ()]
        refused: dict[int, str] = {}
        received: dict[int, ReceivedRecord] = {}
        for part in parts:
            place = len(lines) + len(refused)
            values, packed, bad = self._packed(part)
            lines += packed
            for i, (reason, row) in bad.items():
                refused[place + i], received[place + i] = reason, row
            if values is None or columns is None or len(lines) * len(values) > MOST_CELLS:
                columns = None
                continue
            for column, more in zip(columns, values, strict=True):
                column += more
        self.number += len(lines) + len(refused)
        again, self._again = self._again, False
        state = FileState(_FORMAT, self.number, _NONE, _NONE, self._whole).encode()
        unit = f"{self.name}, row"
        self.ended = self.number >= self._rows
        out = SpoutBatch(
            TableBatch(lines, fields=dict(zip(self.columns or (), columns, strict=True)) if columns else None),
            self.source,
            start,
            self.number,
            state,
            again,
            False,
            unit,
            start + 1,
            [*refused],
            refused,
        )
        out.received = received
        out.begins = range(start, self.number)
        return out

    def _packed(self, part: Any) -> tuple[list[list[Any]] | None, list[bytes], dict[int, _Refused]]:
        """Return the values of rows by column if none is refused, the rows as documents, and refusals by index."""
        if self._packer is not None:
            try:
                values = list(map(_values_of, part.columns))
                packed = self._packer.lines(values)
                if packed is None:
                    names = part.schema.names
                    packed = [pack_document(dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]
                return values, packed, {}
            except PenstockError:
                pass  # the row is named below
            except (ValueError, OSError) as error:
                raise self._damaged(error) from error
        lines: list[bytes] = []
        bad: dict[int, _Refused] = {}
        for i, row in enumerate(self._rows_of(part)):
            try:
                lines.append(pack_document(row))
            except PenstockError as error:
                bad[i] = str(error), ReceivedRecord.of(row)
        return None, lines, bad

    def _rows_of(self, part: Any) -> list[dict[str, Any]]:
        try:
            rows: list[dict[str, Any]] = part.to_pylist()
        except (ValueError, OSError) as error:
            raise self._damaged(error) from error
        return rows

    def _take(self, limit: int) -> list[Any]:
        """Return slices of the file with at most so many rows."""
        held = sum(part.num_rows for part in self._held)
        try:
            if self._coming is None:
                self._coming = self._batches(limit)
            while held < limit and (part := next(self._coming, None)) is not None:
                self._held.append(part)
                held += part.num_rows
        except (ValueError, OSError) as error:
            raise self._damaged(error) from error
        taken: list[Any] = []
        while limit and self._held:
            part = self._held.pop(0)
            if part.num_rows > limit:
                self._held.insert(0, part.slice(limit))
                part = part.slice(0, limit)
            limit -= part.num_rows
            if part.num_rows:
                taken.append(part)
        return taken

    def _damaged(self, error: Exception) -> SourceUnreadable:
        reason = f"it is damaged after row {self.number:,} ({_line(error)})"
        return SourceUnreadable(self.name, reason, "get the file anew and run this again: what came before is in")

    def _batches(self, size: int) -> Iterator[Any]:
        """Yield the rows after those read. Row groups that were read completely are not opened."""
        meta, group, passed = self._table.metadata, 0, 0
        while group < meta.num_row_groups and passed + meta.row_group(group).num_rows <= self.number:
            passed += meta.row_group(group).num_rows
            group += 1
        skip = self.number - passed
        groups = list(range(group, meta.num_row_groups))
        for part in self._table.iter_batches(batch_size=min(size, 10_000), row_groups=groups):
            over = min(skip, part.num_rows)
            skip -= over
            yield part.slice(over)

    def lag(self) -> int | None:
        """Return the number of rows that were not returned yet."""
        return self._rows - self.number

    def committed(self, batch: SpoutBatch) -> None:
        """Do nothing: the store alone remembers the offset."""

    def close(self) -> None:
        """Close the file."""
        self.ended = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _values_of(column: Any) -> list[Any]:
    """Return the values of a column as documents hold them. Raise PenstockError for one that no document can hold."""
    values: list[Any] = column.to_pylist()
    return values if _PLAIN.issuperset(map(type, values)) else list(map(normalise, values))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
