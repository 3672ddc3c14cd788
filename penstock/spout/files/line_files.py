"""Read a file of lines, which is plain, compressed or a pipe, and continue at the store's offset.

The offset is the number of bytes read, after unpacking. Invariants:

- each record ends with a line feed, or with the file if the last line is complete. An incomplete line is not read;
- a file is recognised before reading continues. If it was replaced, reading starts at its beginning. Only then may the
  offset go back;
- with `follow` a growing file is read continuously. If another file takes its name, the old one is read to its end
  first.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from penstock.gateway import Form, ReceivedRecord, TableBatch
from penstock.spout.errors import SourceUnreadable
from penstock.spout.files.file_identity import FileBlock, FileEnds, FileFacts, FileState, Standing
from penstock.spout.files.json_csv_lines import Csv, JsonLines, LineFormat, LineRecords
from penstock.spout.files.line_splitter import MOST_LINE, Huge, LineSplitter
from penstock.spout.files.streams import ByteStream, Halted, Packing, Pipe, PlainFile, Unpacked, never
from penstock.spout.protocol import Contract, Recall, Remembered, SpoutBatch

_EXACT = Contract(True, "its bytes from an offset on are read again as long as the file is only appended to")
_ONCE = Contract(False, "what was read from a pipe can't be read again")
_FIRST_LOOK, _LAST_LOOK = 0.01, 0.2  # the first and the longest pause, in seconds, between two looks at a followed file


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of a file's lines, and its compression."""

    name: str
    packing: Packing | None = None
    delimiter: str | None = None
    nulls: tuple[str, ...] = ()
    arrays: bool = False  # whether a line may be a JSON array

    def shape(self, file: str) -> LineFormat:
        """Return the converter for the lines of this file."""
        return JsonLines(file, self.arrays) if self.name.startswith("jsonl") else Csv(file, self.delimiter, self.nulls)


class FileSpout:
    """The spout of one file of lines. `name` is its name in messages, `source` the source partition, None for a pipe.

    `follow` is the path of a file that is read as it grows. `again` starts at the beginning, even if the store has read
    it.
    `clock` and `pause` provide the time while it waits for the file to grow. If `stopped` returns true on the way to
    the offset, the spout ends.
    """

    def __init__(
        self,
        file: int,
        name: str,
        source: str | None,
        format: FileFormat,
        follow: str | None = None,
        again: bool = False,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._file = file
        self._regular = source is not None
        self.name = name
        self._format = format
        self._follow = follow
        self._anew = again
        self._clock = clock
        self._pause = pause if pause is not None else threading.Event().wait
        self.stopped: Callable[[], bool] = never
        self.source = source
        self.contract = _EXACT if self._regular else _ONCE
        self.standing = Standing.FRESH
        self.ended = False
        self._start()

    def _start(self) -> None:
        """Reset the state to the start of the file."""
        self._offset = self.number = 0
        self._again = self._noted = False
        self._final = self._follow is None  # whether the end of this file is the end of the spout
        self._ends = FileEnds()
        self._shape = self._format.shape(self.name)
        self._lines = LineSplitter(self._stream())

    def _stream(self) -> ByteStream:
        bare: ByteStream = PlainFile(self._file) if self._regular else Pipe(self._file)
        packing = self._format.packing
        return bare if packing is None else Unpacked(bare, self.name, packing, lambda: self.stopped())

    @property
    def of_json(self) -> bool:
        """Return whether its lines are JSON."""
        return self._format.name.startswith("jsonl")

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The fields in the header of CSV, after it was read."""
        return self._shape.columns

    def odd_columns(self) -> list[tuple[str, str]]:
        """Return the columns of CSV whose values are numbers except for one text, each with that text."""
        return self._shape.odd_columns() if isinstance(self._shape, Csv) else []

    @property
    def unended(self) -> bool:
        """Return whether the file ends with an incomplete line, which was not read."""
        return self.ended and self._lines.unended

    # -- begin

    def begin(self, recall: Recall) -> None:
        """Continue at the store's offset, if it is an offset of this file."""
        known = None if self.source is None else recall(self.source)
        if known is None:
            return
        if not self._anew:
            try:
                self.standing = self._recognise(known)
            except Halted:
                self.ended = True
                return
        if self._anew or self.standing is Standing.REPLACED:
            self._start()
            self._again = True
        self.ended = self.standing is Standing.FINISHED and self._follow is None

    def _recognise(self, known: Remembered) -> Standing:
        state = FileState.decode(known.note)
        if state is None or state.format != self._format.name:
            return Standing.REPLACED
        packed = self._format.packing is not None
        if packed and state.whole is not None and state.whole == FileFacts.of(self._file):
            self._offset, self.number = known.offset, state.number
            return Standing.FINISHED
        stream = self._stream()
        ends = stream.go_to(known.offset, state.first.size, state.last.size)
        if ends is None or (FileBlock.of(ends[0]), FileBlock.of(ends[1])) != (state.first, state.last):
            return Standing.REPLACED
        self._offset, self.number = known.offset, state.number
        self._ends = FileEnds(*ends)
        self._lines = LineSplitter(stream)
        if self._offset:
            self._shape.begin(ends[0].split(b"\n"))
        self._noted = state.whole is not None and not packed and not self.lag()
        if self._noted:
            return Standing.FINISHED
        return Standing.BEGUN if state.whole is None else Standing.GROWN

    # -- batches

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return the next records. With `follow`, wait up to `wait` seconds for them."""
        until, look = self._clock() + wait, _FIRST_LOOK
        while not self.ended:
            left = max(until - self._clock(), 0.0)
            batch = self._next(limit, left)
            if batch is not None or self.ended or self._follow is None:
                return batch
            if self._final:
                self._reopen()
            elif self._has_moved():
                self._final = True
            elif left <= 0:
                return None
            else:
                self._pause(min(left, look))
                look = min(look * 2, _LAST_LOOK)
        return None

    def _next(self, limit: int, wait: float) -> SpoutBatch | None:
        while True:
            lines = self._lines.take(limit, wait)
            if not lines and (huge := self._lines.huge()) is not None:
                return self._passed_over(huge)
            end = self._lines.at_end
            lines, shaped, close = self._shaped(lines, end and self._final)
            self._lines.give_back(lines[shaped.used :])
            if shaped.used:
                return self._batch(lines[: shaped.used], shaped, close, end and shaped.used == len(lines))
            if not lines or end:
                break
            limit += len(lines)  # a row spans more lines than the limit
        self.ended = end and self._final and self._follow is None
        if end and self.source is not None and not self._noted and not self._lines.unended:
            return self._batch([], shaped, True, True)
        return None

    def _shaped(self, lines: list[bytes], last: bool) -> tuple[list[bytes], LineRecords, bool]:
        """Return the usable lines, their records, and whether the last one has a line feed."""
        if last and self._lines.rest:
            more, before = [*lines, self._lines.rest], copy(self._shape)
            over = self.source is None or self._follow is not None  # a line without an end now never gets one
            shaped = self._shape.shape(more, over)
            if over or self._shape.ends_whole(more, shaped):
                self._lines.take_rest()
                return more, shaped, False
            self._shape = before
        return lines, self._shape.shape(lines, last), True

    def _batch(self, lines: list[bytes], shaped: LineRecords, close: bool, end: bool) -> SpoutBatch:
        """Create the batch of lines that were read. `end` says that no lines are left."""
        size = sum(map(len, lines)) + len(lines) - (not close)
        if self._regular and lines:
            self._ends.add(lines, close)
        as_read = self._shape.raw and close and (not lines or len(lines[0]) == len(shaped.lines[0]))
        begins = () if as_read else _begins(lines, self._offset)
        records = TableBatch(shaped.lines)
        if self._shape.columns is not None and shaped.columns:
            records.fields = dict(zip(self._shape.columns, shaped.columns, strict=True))
        return self._given(records, len(lines), size, end, shaped, begins)

    def _passed_over(self, huge: Huge) -> SpoutBatch:
        self._ends.add_huge(huge.first, huge.last)
        received = ReceivedRecord.made(Form.TEXT if self._shape.columns else Form.JSON, huge.data, size=huge.size)
        reason = f"it has {huge.size:,} bytes, more than {MOST_LINE:,}"
        if not received.whole:
            if not self._regular:
                remedy = "save it to a file, which may hold such lines, and load that; what came before this line is in"
                raise SourceUnreadable(self.name, f"line {self.number + 1:,} has {huge.size:,} bytes", remedy)
            at = f"{'unpacked ' if self._format.packing else ''}bytes {self._offset} to {self._offset + huge.size}"
            reason += f"; only its beginning is kept, all of it is {at} of the file"
        shaped = LineRecords([], 1, [0], {0: reason}, {0: received})
        return self._given(TableBatch([]), 1, huge.size + 1, False, shaped, [self._offset])

    def _given(
        self, records: TableBatch, lines: int, size: int, end: bool, shaped: LineRecords, begins: Sequence[int]
    ) -> SpoutBatch:
        start, first = self._offset, self.number + 1
        self._offset += size
        self.number += lines
        self._noted = end and not self._lines.unended
        again, self._again = self._again, False
        state = b""
        if self.source is not None:
            whole = FileFacts.of(self._file) if self._noted else None
            state = FileState(self._format.name, self.number, *self._ends.blocks(), whole).encode()
        raw = self._shape.raw and not shaped.skips
        unit = f"{self.name}, line"
        skips, refused, received = shaped.skips, shaped.refused, shaped.received
        out = SpoutBatch(records, self.source, start, self._offset, state, again, raw, unit, first, skips, refused)
        out.received, out.begins = received, begins
        return out

    # -- a followed file

    def _has_moved(self) -> bool:
        """Return whether another file has its name, or whether it became shorter."""
        assert self._follow is not None
        own = os.fstat(self._file)
        if own.st_size < self._offset:
            return True
        try:
            now = os.stat(self._follow)
        except FileNotFoundError:
            return False  # log rotation creates the next file soon
        return (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino)

    def _reopen(self) -> None:
        """Start at the beginning of the file that has the name now."""
        assert self._follow is not None
        try:
            file = os.open(self._follow, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._final = False
            return
        os.close(self._file)
        self._file = file
        self._start()
        self._again = True
        self.standing = Standing.REPLACED

    # -- the rest of the protocol

    def lag(self) -> int | None:
        """Return the bytes that were not returned yet. For a compressed file these are packed bytes."""
        if not self._regular:
            return None
        if self._format.packing is None:
            return max(os.fstat(self._file).st_size - self._offset, 0)
        return self._lines.left()

    def committed(self, batch: SpoutBatch) -> None:
        """Do nothing: the store alone remembers the offset."""

    def close(self) -> None:
        """Close the file."""
        self.ended = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _begins(lines: list[bytes], offset: int) -> Sequence[int]:
    """Return the offset where each of these lines begins."""
    sizes = np.fromiter(map(len, lines), np.int64, len(lines)) + 1
    return array("q", (np.cumsum(sizes) - sizes + offset).tobytes())
