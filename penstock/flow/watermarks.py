"""The watermarks of a store with streams: the committed ones, and those of the transaction in progress.

A transaction reads the clock once, which is its first event. Invariants:

- the row is written in the transaction that changes it, and memory follows after the commit;
- nothing falls: not a watermark, and not the clock reading, even if the clock of the machine does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from penstock.cache import Reader
from penstock.flow.protocol import Clock
from penstock.flow.source_watermarks import after_clock, after_low, after_records, after_rest, clock_of, next_change
from penstock.flow.watermark_report import Watermark, watermark_of
from penstock.flow.watermark_rows import StageState, StreamState, WatermarkRow, read_watermarks, write_watermarks
from penstock.mapreduce import Writes
from penstock.views import Stream

PUT = "put"
"""The source partition of records that a caller puts."""

__all__ = ["PUT", "SystemClock", "Watermarks"]


class SystemClock:
    """The clock of this machine. A thread waits with `wait` for the next time that `wake_at` noted."""

    def __init__(self) -> None:
        self._due: int | None = None
        self._moved = threading.Condition()

    def __reduce__(self) -> tuple[type[SystemClock], tuple[()]]:
        """Let the settings of a store travel to another process, which has a clock of its own."""
        return SystemClock, ()

    def now(self) -> int:
        """Return microseconds since 1970."""
        return time.time_ns() // 1000

    def wake_at(self, when: int | None) -> None:
        """Note the next time to wake."""
        with self._moved:
            if self._due != when:
                self._due = when
                self._moved.notify_all()

    def is_due(self) -> bool:
        """Return True once the noted time is there."""
        return self._due is not None and self._due <= self.now()

    def wait(self, seconds: float) -> None:
        """Wait for the noted time, for another one to be noted, or for so many seconds."""
        with self._moved:
            due = self._due
            left = seconds if due is None else min(max(due - self.now(), 0) / 1e6, seconds)
            if left:
                self._moved.wait(left)

    def wake(self) -> None:
        """End the wait of the thread."""
        with self._moved:
            self._moved.notify_all()


class Watermarks:
    """The watermarks of the streams of one store."""

    def __init__(self, streams: Iterable[Stream], clock: Clock) -> None:
        self._streams = {stream.name: stream for stream in streams}
        self._clock = clock
        self._opened: int | None = None  # the clock reading at which this process opened the store
        self.row = WatermarkRow()
        self._states: dict[str, StreamState] = {}  # in the transaction
        self._stages: dict[str, StageState] = {}
        self._now = 0
        self._source: str | None = None
        self._rests = False
        self._writes: Writes | None = None  # of the transaction
        self._changed = False
        self._open: dict[tuple[str, str], int | None] = {}  # by stream and view: the end of the first open window

    def recall(self, reader: Reader) -> None:
        """Read the watermarks from the store. Nothing is computed again."""
        self.row = read_watermarks(reader) if self._streams else WatermarkRow()
        if self._opened is None:
            self._opened = self._now = max(self.row.now, self._clock.now()) if self._streams else 0
        self.wake()

    def begin(self, source: str | None, rests: bool, writes: Writes) -> None:
        """Begin a transaction with records of one source partition: read the clock, and see which ones are idle."""
        if not self._streams or writes is self._writes:
            return
        self._writes = writes
        assert self._opened is not None, "read at the opening"
        self._changed = False
        self._now = max(self.row.now, self._now, self._clock.now())
        self._source, self._rests = source, rests
        self._states, self._stages = {}, {}
        for name, stream in self._streams.items():
            before = self.row.streams.get(name)
            if before is not None:
                self._states[name] = after_clock(stream, before, self._now, self._opened)
        if any(state != self.row.streams[name] for name, state in self._states.items()):
            self._change(writes)

    def _change(self, writes: Writes) -> None:
        """Write the row with this transaction, once."""
        if not self._changed:
            self._changed = True
            writes.during.append(lambda writer: write_watermarks(writer, self._next))
            writes.after.append(self._committed)

    def take(self, name: str, ts: NDArray[np.int64], writes: Writes) -> NDArray[np.int64]:
        """Take the records of one stream. Return the watermark after each of them."""
        assert self._opened is not None, "read at the opening"
        state = self._states.get(name, StreamState())
        self._change(writes)
        stream = self._streams[name]
        self._states[name], column = after_records(
            stream, state, self._source, self._rests, ts, self._now, self._opened
        )
        return column

    def state_low(self, name: str, source: str, low: int, writes: Writes) -> None:
        """Take the statement of a source about its watermark."""
        assert self._opened is not None, "read at the opening"
        self._change(writes)
        before = self._states.get(name, StreamState())
        self._states[name] = after_low(self._streams[name], before, source, low, self._now, self._opened)

    def rest(self, sources: Collection[str], ended: bool, writes: Writes) -> None:
        """Note that nothing is left to read from these source partitions."""
        for name, stream in self._streams.items():
            before = self._states.get(name)
            if before is not None and not before.sources.keys().isdisjoint(sources):
                self._states[name] = after_rest(stream, before, sources, ended, self._now, self.opened)
                self._change(writes)

    def span(self, name: str, writes: Writes) -> tuple[int, int] | None:
        """Return the watermark of a stream before and after this transaction; None if it reads no clock."""
        if writes is not self._writes:
            return None
        before = self.row.streams.get(name, StreamState()).low
        return before, self._states.get(name, StreamState()).low

    def must_look(self, stream: str, view: str) -> bool:
        """Return True if the clock may close windows of a view, and its first open window is unknown."""
        return self._streams[stream].idle is not None and (stream, view) not in self._open

    def look_at(self, stream: str, view: str, end: int | None) -> None:
        """Note the end of the first open window of a view."""
        self._open[stream, view] = end

    def report(self, row: WatermarkRow, stream: Stream, offsets: Mapping[str, int]) -> Watermark:
        """Return the watermark of a stream of a row that was read, for people and programs."""
        return watermark_of(stream, row, self._clock.now(), self.opened, offsets)

    @property
    def opened(self) -> int:
        """The clock reading at the opening."""
        return self._opened or 0

    @property
    def _next(self) -> WatermarkRow:
        stages = self.row.stages | self._stages
        return replace(self.row, streams=self.row.streams | self._states, stages=stages, now=self._now)

    def stage(self, view: str) -> StageState:
        """Return the counts of late records of a view, in this transaction."""
        return self._stages.get(view) or self.row.stages.get(view) or StageState()

    def set_stage(self, view: str, stage: StageState) -> None:
        """Set the counts of late records of a view, for this transaction."""
        self._stages[view] = stage

    @property
    def now(self) -> int:
        """The clock reading of this transaction."""
        return self._now

    @property
    def source(self) -> str | None:
        """The source partition of the records of this transaction."""
        return self._source

    def _committed(self) -> None:
        self.row = self._next
        self.wake()

    def wake(self) -> None:
        """Tell the clock when the next source partition becomes idle."""
        if all(stream.idle is None for stream in self._streams.values()):
            return
        states = [(own, self.row.streams[name]) for name, own in self._streams.items() if name in self.row.streams]
        now = max(self.row.now, self._now)
        due = [next_change(stream, state, now, self.opened) for stream, state in states]
        ends = [(name, end) for (name, _), end in self._open.items() if end is not None and name in self.row.streams]
        due += [clock_of(self._streams[name], self.row.streams[name], end, now, self.opened) for name, end in ends]
        self._clock.wake_at(min((time for time in due if time is not None), default=None))
