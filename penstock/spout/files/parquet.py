"""Read rows of Parquet files as documents, in the order of the file. The offset is the number of rows read.

A Parquet file is never changed after it was written. If its size, first block or last block differs, it is another
file. This needs the extra `arrow`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

from penstock.cache import MissingExtra, PenstockError, pack_document
from penstock.gateway import ReceivedRecord, TableBatch
from penstock.spout.errors import SourceUnreadable
from penstock.spout.files.file_identity import FileBlock, FileFacts, FileState, Standing
from penstock.spout.protocol import Contract, Recall, SpoutBatch

_EXACT = Contract(True, "its rows from an offset on are read again as long as the file is the same")
_FORMAT = "parquet"
_NONE = FileBlock.of(b"")


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
        self._coming: Iterator[Any] | None = None
        self._held: list[dict[str, Any]] = []
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
        rows = self._take(limit)
        if not rows:
            self.ended = True
            return None
        start = self.number
        self.number += len(rows)
        lines: list[bytes] = []
        refused: dict[int, str] = {}
        received: dict[int, ReceivedRecord] = {}
        for place, row in enumerate(rows):
            try:
                lines.append(pack_document(row))
            except PenstockError as error:
                refused[place], received[place] = str(error), ReceivedRecord.of(row)
        again, self._again = self._again, False
        state = FileState(_FORMAT, self.number, _NONE, _NONE, self._whole).encode()
        unit = f"{self.name}, row"
        self.ended = self.number >= self._rows
        out = SpoutBatch(
            TableBatch(lines),
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

    def _take(self, limit: int) -> list[dict[str, Any]]:
        try:
            if self._coming is None:
                self._coming = self._batches(limit)
            while len(self._held) < limit and (part := next(self._coming, None)) is not None:
                self._held += part.to_pylist()
        except (ValueError, OSError) as error:
            reason = f"it is damaged after row {self.number:,} ({_line(error)})"
            raise SourceUnreadable(
                self.name, reason, "get the file anew and run this again: what came before is in"
            ) from error
        rows, self._held = self._held[:limit], self._held[limit:]
        return rows

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


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
