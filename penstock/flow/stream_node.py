"""The node of a stream: it takes records, and sends each accepted one to the views on the stream.

A record has a number, the next one of the stream, which is the key of its contributions. The stream stores only records
that a view holds. The log has each of them as a segment of one line until no view holds it. Invariants:

- no contribution of a stream is ever retracted, so no emission is remembered;
- the watermark of each record is computed from its own event and earlier ones, for any cut into batches;
- until `Writes.after` runs, a batch changes nothing in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import (
    DocumentLog,
    Limits,
    Reader,
    Writer,
    build_segment,
    decode_key,
    encode_key,
    log_db,
    read_lines,
    read_mark,
    record_key,
    stored_key,
)
from penstock.flow.late_records import in_open_windows, set_aside
from penstock.flow.recent_ids import RecentIds
from penstock.flow.times import micros_of
from penstock.flow.watermarks import Watermarks
from penstock.gateway import (
    REJECTED,
    DeltaSides,
    IntakeReport,
    Outcome,
    TableBatch,
    TableNode,
    ViewDeltas,
    WinningVersions,
    stamped_line,
    stamps_of,
    take_in,
    unwrap,
)
from penstock.mapreduce import (
    Decoder,
    Emissions,
    FunctionMapper,
    Hold,
    Holds,
    Pairs,
    SourceChange,
    SourceKeys,
    Spaces,
    ViewNode,
    Writes,
    held_db,
)
from penstock.views import Stream

__all__ = ["HeldRecordLog", "StreamNode"]

Numbers = NDArray[np.int64]
_NO_DOCUMENTS = "a stream has no documents; put the correction"


class HeldRecordLog(DocumentLog):
    """The log of a stream: its next number, and the records that a view holds. It has no index and no keys."""

    def __init__(self, number: int) -> None:
        super().__init__(number, False, 1, Limits())

    def open(self, reader: Reader) -> None:
        """Read the mark."""
        self.mark = read_mark(reader, self.table)

    def fold_steps(self, n: int) -> int:
        """Return 0: there is no index to fold."""
        return 0

    def compact_due(self) -> bool:
        """Return False: a held record is deleted when it is released."""
        return False

    def compact_worth(self) -> bool:
        """Return False, for the same reason."""
        return False


@dataclass(slots=True)
class Arrivals:
    """The accepted records of a batch: their ts, the watermark after each, and their offsets if a view needs them."""

    reader: Reader
    ts: Numbers
    lows: Numbers
    offsets: list[int | None]


class StreamDeltas(ViewDeltas):
    """The sender of contributions to the views of one stream. The slots of versions are the numbers of records."""

    def __init__(self, node: StreamNode) -> None:
        super().__init__(node)
        self._stream = node
        self.arrivals: Arrivals | None = None  # of the batch

    def keys_of(self, new: WinningVersions) -> SourceKeys:
        """Return the numbers of the records."""
        return SourceKeys(new.slots, None)

    def remember(self, view: ViewNode, new: WinningVersions, emissions: Emissions, writes: Writes) -> None:
        """Remember nothing: no contribution of a stream is retracted."""

    def _by_function(self, view: ViewNode, sides: DeltaSides, writes: Writes) -> SourceChange:
        """Take the emissions of the records. A view that keeps late records sets those to closed windows aside."""
        change = super()._by_function(view, sides, writes)
        window, arrivals = view.view.window, self.arrivals
        if window is None or view.view.late != "keep" or arrivals is None:
            return change
        change.now, late = in_open_windows(view, window, change.now, arrivals.lows)
        if late.size:
            self._stream.set_aside(view, sides.new, late.tolist(), arrivals, writes)
        return change

    def hold(
        self,
        view: ViewNode,
        new: WinningVersions,
        pairs_of: dict[int, Pairs],
        reasons: dict[int, Hold],
        freed: Sequence[int],
        writes: Writes,
    ) -> None:
        """Hold records, and store their lines; `freed` are the numbers that are no longer held."""
        rows: list[tuple[bytes, bytes, Hold, Pairs]] = []
        lines: list[tuple[bytes, bytes]] = []
        numbers = new.slots.tolist()
        for i, pairs in pairs_of.items():
            whole = encode_key(numbers[i])
            rows.append((stored_key(whole), whole, reasons[i], pairs))
            lines.append(self._stream.held_segment(numbers[i], new, i))
        before = {stored_key(encode_key(number)) for number in self.held[view.name]}
        view.write_holds(rows, [stored_key(encode_key(number)) for number in freed], before, writes)
        if lines:
            writes.puts.append((log_db(self._stream.number), lines))
        self._stream.release_lines(freed, writes)


class StreamNode(TableNode):
    """One stream at work."""

    def __init__(
        self,
        stream: Stream,
        number: int,
        views: Sequence[ViewNode],
        log: HeldRecordLog,
        spaces: Spaces,
        seed: int,
        watermarks: Watermarks,
    ) -> None:
        self.stream = stream
        self._watermarks = watermarks
        self._ids = RecentIds(number, stream.ids) if stream.key.paths else None
        super().__init__(stream, number, views, log, spaces, seed)

    def _start(self, spaces: Spaces) -> None:
        super()._start(spaces)
        self.deltas: StreamDeltas = StreamDeltas(self)
        self._keeps_late = any(view.view.late == "keep" for view in self.views)

    def make_room(self, keys: int) -> None:
        """Do nothing: a stream keeps no keys in memory."""

    def open_ids(self, reader: Reader) -> None:
        """Read the recent ids, if records have ids."""
        if self._ids is not None:
            self._ids.open(reader)

    # -- a batch

    def process(self, reader: Reader, batch: TableBatch, writes: Writes) -> IntakeReport:
        """Take a batch of records. A deletion is rejected."""
        places = batch.places()
        lines = batch
        if batch.deletes:
            lines = replaced(batch, deletes={}, stamps={}, beside=lambda i: batch.stamp(int(places[i])))
        outcome = np.full(batch.n, REJECTED, np.uint8)
        rejected = dict.fromkeys(batch.deletes, _NO_DOCUMENTS)
        report = IntakeReport(outcome, rejected)
        if not batch.lines:
            return report
        records, refused = take_in(self, lines)
        rejected.update((int(places[i]), reason) for i, reason in refused.items())
        assert records.stamps is not None, "a stream has a ts"
        ts, far = micros_of(records.stamps, self.ts_kind == "text", self.stream.unit)
        at, docs, stamps = records.at, records.doc, records.stamps
        if far.any():
            reason = f"its ts is more than 290,000 years from 1970; is unit={self.stream.unit!r} its unit?"
            rejected.update((int(places[i]), reason) for i in at[far].tolist())
            at, docs, stamps, ts = at[~far], docs[~far], stamps.take(~far), ts[~far]
        if at.size and self._ids is not None:
            k0, k1 = records.k0[~far], None if records.k1 is None else records.k1[~far]
            fresh = self._ids.take(reader, k0, k1, self._watermarks.now, writes)
            outcome[places[at[~fresh]]] = Outcome.EQUAL
            at, docs, stamps, ts = at[fresh], docs[fresh], stamps.take(fresh), ts[fresh]
        if not at.size:
            return report
        lows = self._watermarks.take(self.stream.name, ts, writes)
        mark = self.log.mark
        numbers = np.arange(mark.tail, mark.tail + at.size, dtype=np.int64)
        own = records.lines if docs.size == len(records.lines) else [records.lines[i] for i in docs.tolist()]
        new = WinningVersions(numbers, at, None, stamps, records.columns, docs, own)
        offset = batch.offset if self._keeps_late else None
        offsets = [None if offset is None else offset(i) for i in (places[at].tolist() if self._keeps_late else ())]
        self.deltas.arrivals = Arrivals(reader, ts, lows, offsets)
        held = self.deltas.tell_of(reader, new, self.views, writes)
        self.deltas.arrivals = None
        self._number(at.size, writes)
        outcome[places[at]] = Outcome.APPLIED
        report.held.update(int(places[at[i]]) for i in held)
        return report

    def _number(self, n: int, writes: Writes) -> None:
        """Give numbers to so many records."""
        log, tail = self.log, self.log.mark.tail + n
        mark = msgspec.structs.replace(log.mark, tail=tail, folded=tail)
        writes.changed = True
        writes.during.append(lambda writer: log.put_mark(writer, mark))

        def follow() -> None:
            log.mark = mark

        writes.after.append(follow)

    def set_aside(
        self, view: ViewNode, new: WinningVersions, late: Sequence[int], arrivals: Arrivals, writes: Writes
    ) -> None:
        """Store late records of a view, whole."""
        marks = self._watermarks
        ts, lows = arrivals.ts, arrivals.lows
        records = [(marks.source, arrivals.offsets[i], int(ts[i]), int(lows[i]), new.lines[i]) for i in late]
        marks.set_stage(view.name, set_aside(arrivals.reader, view, marks.stage(view.name), records, writes))

    # -- records that a view holds

    def held_segment(self, number: int, new: WinningVersions, i: int) -> tuple[bytes, bytes]:
        """Return the row of the log for a record that a view holds: its key and a segment of one line."""
        line = new.lines[i]
        if self.stream.broker_ts and new.stamps is not None:
            line = stamped_line(new.stamps.take(np.array([i])).column().values()[0], line)
        lane = np.array([number], np.int64).view(np.uint64)
        return record_key(number), build_segment(number, [line], lane, None, None)

    def release_lines(self, numbers: Sequence[int], writes: Writes) -> None:
        """Delete the lines of records that no view holds after this transaction."""
        if not numbers:
            return

        def released(writer: Writer) -> None:
            keys = [stored_key(encode_key(number)) for number in numbers]
            held: set[bytes] = set()
            for view in self.views:
                rows = writer.get_many(held_db(view.number), keys)
                held.update(key for key, row in zip(keys, rows, strict=True) if row is not None)
            gone = [record_key(number) for number, key in zip(numbers, keys, strict=True) if key not in held]
            writer.delete_many(log_db(self.number), gone)

        writes.during.append(released)

    def retry(self, view: ViewNode, reader: Reader, holds: Holds, writes: Writes) -> list[bytes]:
        """Send a view the records that it holds again. Return their stored keys."""
        numbers = np.array([_number_of(whole) for whole, _ in holds.values()], np.int64)
        found = [unwrap(line) for line in read_lines(reader, self.number, numbers)]
        mapper = view.mapper
        tellers = [(view.name, mapper, lambda: view.groups)] if isinstance(mapper, FunctionMapper) else []
        lines = [own.line for own in found if own.line is not None]
        columns = Decoder(self.plan, self.spaces, self.seed, tellers).columns(lines, keys=False, tell=True)
        values = [own.ts for own in found] if self.stream.broker_ts else columns.ts
        assert values is not None, "a stream has a ts"
        stamps, _, bad = stamps_of(values, self.ts_kind, set())
        assert not bad, "they were accepted"
        every = np.arange(numbers.size)
        held = self.deltas.held
        held[view.name] = {number: [] for number in numbers.tolist()}
        try:
            new = WinningVersions(numbers, every, None, stamps, columns, every, lines)
            self.deltas.tell_of(reader, new, [view], writes)
        finally:
            held[view.name] = {}
        return list(holds)

    def drop(self, view: ViewNode, holds: Holds, writes: Writes) -> list[bytes]:
        """Let go of records that a view holds: it never counts them. Return their stored keys."""
        keys = list(holds)
        view.write_holds([], keys, set(keys), writes)
        self.release_lines([_number_of(whole) for whole, _ in holds.values()], writes)
        return keys


def _number_of(whole: bytes) -> int:
    """Return the number of a held record from its whole key."""
    number = decode_key(whole)
    assert isinstance(number, int), "records of streams have numbers"
    return number
