"""Users' input as batches of lines: dicts, JSON lines, Arrow, pandas and polars tables.

All input is converted to stored lines here, once. Invalid input is rejected with its place and a reason, and the rest
goes on. A list of up to 10,000 documents and 16 MiB is one transaction; longer input is split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

from penstock.cache import ArgumentKind, PenstockError, RecordError, ValueKind, normalise, pack_document
from penstock.core.input.document_size import MOST_BYTES, sized
from penstock.gateway import Deletion, Form, ReceivedRecord, TableBatch
from penstock.mapreduce import JoinedLines
from penstock.spout import Record, SpoutBatch
from penstock.views import Table

ONE = 10_000
MANY = 50_000
"""The largest size of one document, and about the largest size of one transaction."""
_MANY_LINES = 1_000  # from this number on it is faster to inspect them in one piece,
_SHORT = 256  # if they have no more bytes each: a copy of longer lines costs more than their inspection
_SPACE = b" \t\r\n"
_OBJECT = ord("{")
_first = itemgetter(0)
_KINDS = "dicts, JSON lines as bytes or text, or an Arrow, pandas or polars table"


@dataclass(slots=True)
class Batch:
    """Records of one table on their way into a transaction, with the names of their places for users."""

    records: TableBatch = field(default_factory=lambda: TableBatch([]))
    unit: str = "document"
    first: int = 1
    skips: list[int] = field(default_factory=list)  # places (in the input, from 0) without a record
    refused: dict[int, str] = field(default_factory=dict)  # by such places: the reason
    received: dict[int, ReceivedRecord] = field(default_factory=dict)  # by such places: the received bytes
    origin: str = "put_many"  # the origin of the records in quarantine
    offsets: dict[int, int] = field(default_factory=dict)  # by place: the offset of a record of its own
    run: Sequence[int] | Mapping[int, int] = ()  # the same, for all places
    at: Sequence[int] = ()  # by record its place, if other partitions have the rest
    laid: JoinedLines | None = None  # the lines in one piece, for a helper process

    def place(self, record: int) -> int:
        """Return the place of a record in the input, from 0."""
        if self.at:
            return self.at[record]
        place = record
        for skipped in self.skips:
            if skipped <= place:
                place += 1
        return place

    def places(self, records: Iterable[int]) -> list[int]:
        """Return the places of several records, in their order."""
        if self.at:
            return [self.at[record] for record in records]
        skipped = set(self.skips)
        given = [place for place in range(self.records.n + len(skipped)) if place not in skipped] if skipped else None
        return list(records) if given is None else [given[record] for record in records]

    def where(self, place: int) -> str:
        """Name a place for users."""
        return f"{self.unit} {self.run[place] if self.run else self.first + place}"

    def offset(self, place: int) -> int | None:
        """Return the offset of a place, if it has its own."""
        return self.run[place] if self.run else self.offsets.get(place)

    @property
    def size(self) -> int:
        """Return the number of records, with the refused ones."""
        return self.records.n + self.records.refused

    def add(self, doc: Any, ts: Any = None) -> None:
        """Add a document, and its separate ts. Refuse an invalid one."""
        try:
            line, own = line_of(doc), None if ts is None else normalise(ts)
        except PenstockError as error:
            self.refuse(self.records.n + len(self.skips), error, ReceivedRecord.whole_of(doc, ts))
            return
        if own is not None:
            self.records.stamps[self.records.n] = own
        self.records.lines.append(line)

    def refuse(self, place: int, error: PenstockError, received: ReceivedRecord) -> None:
        """Refuse the input at this place, which is the last so far."""
        self.received[place] = received
        self.refused[place] = str(getattr(error, "reason", error))
        self.records.refused += 1
        self.skips.append(place)

    def posted(self, found: object, record: Record) -> int:
        """Account for a repost, which is done or failed. Return the number of successful ones."""
        if not isinstance(found, PenstockError):
            return 1
        self.refuse(
            self.records.n + len(self.skips), found, replace(ReceivedRecord.whole_of(record.doc), form=Form.TEXT)
        )
        return 0

    def delete(self, key: Any, ts: Any) -> None:
        """Add a deletion. Refuse an invalid key or ts."""
        try:
            deletion = Deletion(normalise(key), normalise(ts))
        except PenstockError as error:
            self.refuse(self.records.n + len(self.skips), error, ReceivedRecord.of_key(key, ts))
        else:
            self.records.deletes[self.records.n] = deletion


def line_of(doc: Any) -> bytes:
    """Convert one document to its stored line. Raise ValueKind or RecordError if it is invalid."""
    if type(doc) is dict or isinstance(doc, Mapping):
        line = pack_document(doc)
    elif isinstance(doc, str | bytes | bytearray | memoryview):
        line = _bytes_of(doc).strip(_SPACE)
        if line[:1] != b"{":
            raise RecordError("it is no JSON object" if line else "it is empty")
    else:
        raise RecordError(f"it is no document but {type(doc).__name__}; put {_KINDS}")
    return sized(line)


def _bytes_of(text: str | bytes | bytearray | memoryview) -> bytes:
    # Half a surrogate pair is found when its line is decoded.
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)


def _is_blank(line: Any) -> bool:
    """Return True for a blank line, which is no record."""
    if isinstance(line, str):
        return not line.strip(_SPACE.decode())
    return isinstance(line, bytes) and not line.strip(_SPACE)


def batches_of(docs: Any, batch: int | None) -> Iterator[Batch]:
    """Split the documents of a call into batches, of at most `batch` records if that is given."""
    if isinstance(docs, bytes | bytearray | memoryview | str):
        yield from _lines(_bytes_of(docs).split(b"\n"), batch)
        return
    if isinstance(docs, Mapping):
        yield from _documents([docs], batch)
        return
    source = input_rows(docs)
    if isinstance(source, list) and source and isinstance(source[0], bytes):
        yield from _lines(source, batch)
    else:
        yield from _documents(source, batch)


def delivered(batch: SpoutBatch, table: Table | None = None) -> Batch:
    """Convert a spout's batch; deletions get the broker's ts if the `table` uses it."""
    if not isinstance(batch, SpoutBatch):
        raise ArgumentKind("batches", batch, "give the batches that a spout returns")
    lines = batch.records.lines
    if batch.raw and lines and (sum(map(len, lines)) > MOST_BYTES or not _are_plain(lines)):
        out = _closer(lines, batch.first, batch.unit, partial(ReceivedRecord.made, Form.JSON))
    else:
        out = Batch(batch.records, batch.unit, batch.first, batch.skips, batch.refused, batch.received)
    out.origin, out.run = batch.source or "load", batch.offsets
    if table is not None and table.broker_ts:
        for place, deletion in batch.records.deletes.items():
            if deletion.ts is None:
                batch.records.deletes[place] = Deletion(deletion.key, batch.records.stamp(place))
    return out


def input_rows(docs: Any) -> Iterable[Any]:
    """Return the documents of a table of any kind, or the iterable itself."""
    if hasattr(docs, "to_pylist"):  # Arrow
        out: Iterable[Any] = docs.to_pylist()
    elif hasattr(docs, "iter_rows") and hasattr(docs, "columns"):  # polars
        out = docs.iter_rows(named=True)
    elif hasattr(docs, "to_dict") and hasattr(docs, "columns"):  # pandas
        out = docs.astype(object).where(docs.notna(), None).to_dict("records")
    elif isinstance(docs, Iterable):
        out = docs
    else:
        raise ValueKind(docs, "", f"it is no collection of documents; put {_KINDS}")
    return out


def _lines(lines: list[bytes], batch: int | None) -> Iterator[Batch]:
    """Split JSON lines into batches. Skip blank lines."""
    size = batch or (ONE if len(lines) <= ONE else MANY)
    for a in range(0, len(lines), size):
        part = lines[a : a + size] if len(lines) > size else lines
        laid = None
        if len(part) >= _MANY_LINES and set(map(type, part)) == {bytes}:
            laid = JoinedLines.of(part, min(MOST_BYTES, _SHORT * len(part)))
        if laid is not None and laid.begin_with(_OBJECT):
            yield Batch(TableBatch(part), "line", a + 1, laid=laid)
            continue
        for b, chunk in _bounded(part):
            out = Batch(unit="line", first=a + b + 1)
            out.records.lines = chunk
            if not _are_plain(chunk):
                out = _closer(chunk, a + b + 1)
            if out.size:
                yield out


def _bounded(lines: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Split lines into parts of at most 16 MiB, each with its start."""
    if sum(map(len, lines)) <= MOST_BYTES:
        yield 0, lines
        return
    start = total = 0
    for i, line in enumerate(lines):
        if total and total + len(line) > MOST_BYTES:
            yield start, lines[start:i]
            start, total = i, 0
        total += len(line)
    yield start, lines[start:]


def _are_plain(lines: list[bytes]) -> bool:
    """Return True if all these lines are bytes that may be JSON objects, and none is too long."""
    if set(map(type, lines)) != {bytes} or not all(lines):
        return False
    return set(map(_first, lines)) == {_OBJECT} and (len(lines) > 1 or len(lines[0]) <= MOST_BYTES)


def _closer(
    chunk: Sequence[Any],
    first: int,
    unit: str = "line",
    keep: Callable[[Any], ReceivedRecord] = ReceivedRecord.whole_of,
) -> Batch:
    """Check each line of a batch; `keep` makes the entry for quarantine."""
    out = Batch(unit=unit, first=first)
    for i, line in enumerate(chunk):
        if _is_blank(line):
            out.skips.append(i)
            continue
        try:
            out.records.lines.append(line_of(line))
        except PenstockError as error:
            out.refuse(i, error, keep(line))
    return out


def _documents(docs: Iterable[Any], batch: int | None) -> Iterator[Batch]:
    first, known = 1, len(docs) if isinstance(docs, Sequence) else None
    size = batch or (ONE if known is not None and known <= ONE else MANY)
    source = iter(docs)
    while True:
        part = list(islice(source, size))
        if not part:
            return
        if set(map(type, part)) == {bytes}:
            for out in _lines(part, len(part)):
                out.first += first - 1
                yield out
        else:
            yield from _packed(part, first)
        first += len(part)


def _packed(part: list[Any], first: int) -> Iterator[Batch]:
    unit = "line" if isinstance(part[0], str | bytes) else "document"
    out, total = Batch(unit=unit, first=first), 0
    for i, doc in enumerate(part):
        if _is_blank(doc):
            out.skips.append(first + i - out.first)
            continue
        out.add(doc)
        total += len(out.records.lines[-1]) if out.records.lines else 0
        if total > MOST_BYTES:
            yield out
            out, total = Batch(unit=unit, first=first + i + 1), 0
    if out.size:
        yield out
