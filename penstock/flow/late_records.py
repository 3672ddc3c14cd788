"""Late records that a window view with late="keep" sets aside: the contributions to windows that are closed.

Each is stored whole, in an own database of the view, in the order of its arrival. The oldest are removed beyond a
limit. Invariant: the counts are in the row of watermarks, so they change in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from penstock.cache import Reader, decode_key, seal, unseal
from penstock.flow.times import NEVER, shown_time
from penstock.flow.watermark_rows import StageState
from penstock.gateway import document_of
from penstock.mapreduce import DocumentContributions, ViewNode, Writes, late_db
from penstock.views import Stream, WindowGroups

__all__ = ["AsideRecord", "in_open_windows", "read_late", "set_aside"]

Index = NDArray[np.int64]
MOST, MOST_BYTES = 1_000_000, 256 << 20
_DELAYS = 40
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class AsideRecord:
    """A record that a view set aside: its times in the unit of the stream, and its delay behind the watermark.

    `offset` is its place in the source partition, if that is known.
    """

    view: str
    stream: str
    source: str | None
    offset: int | None
    ts: int | float | None
    watermark: int | float | None
    delay: float
    record: Any

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def in_open_windows(
    view: ViewNode, window: WindowGroups, now: DocumentContributions, lows: Index
) -> tuple[DocumentContributions, Index]:
    """Return the contributions to windows that are open, and the documents with one to a closed window.

    `lows` has the watermark after each document.
    """
    codes = now.contributions.code
    if not codes.size:
        return now, np.zeros(0, np.int64)
    distinct, place = np.unique(codes, return_inverse=True)
    ends = [window.end(decode_key(view.groups.whole(code))) for code in distinct.tolist()]
    end = np.array([np.iinfo(np.int64).max if own is None else own for own in ends], np.int64)[place]
    documents = now.documents if now.counts is None else np.repeat(now.documents, now.counts)
    closed = end <= lows[documents]
    if not closed.any():
        return now, np.zeros(0, np.int64)
    counts = np.bincount(documents[~closed], minlength=int(now.documents.max()) + 1)[now.documents]
    left = DocumentContributions(now.contributions.take(~closed), now.documents, counts.astype(np.int64))
    return left, np.unique(documents[closed])


def set_aside(
    reader: Reader,
    view: ViewNode,
    stage: StageState,
    records: Sequence[tuple[str | None, int | None, int, int, bytes]],
    writes: Writes,
) -> StageState:
    """Store late records of a view: (source partition, offset, ts, watermark, line). Return the counts after it."""
    db, name = late_db(view.number), view.view.source.name
    rows: list[tuple[bytes, bytes]] = []
    delays = [*stage.delays, *[0] * (_DELAYS - len(stage.delays))]
    for number, (source, offset, ts, low, line) in enumerate(records, stage.aside):
        key = number.to_bytes(8, "big")
        rows.append((key, seal(key, _encode([name, source, offset, ts, low, "late", line]))))
        delays[min(((low - ts) // 1_000_000).bit_length(), _DELAYS - 1)] += 1
    writes.puts.append((db, rows))
    size, over = stage.bytes + sum(len(row) for _, row in rows), stage.aside + len(rows) - stage.removed - MOST
    gone: list[bytes] = []
    if over > 0 or size > MOST_BYTES:
        for key, row in reader.scan(db):
            if len(gone) >= over and size <= MOST_BYTES:
                break
            gone.append(key)
            size -= len(row)
    if gone:
        writes.deletes.append((db, gone))
    while delays and not delays[-1]:
        delays.pop()
    return replace(
        stage, aside=stage.aside + len(rows), removed=stage.removed + len(gone), bytes=size, delays=tuple(delays)
    )


def read_late(reader: Reader, stream: Stream, view: str, number: int) -> Iterator[AsideRecord]:
    """Yield the stored late records of a view, the oldest first."""
    db = late_db(number)
    for key, row in reader.scan(db):
        name, source, offset, ts, low, _, line = msgspec.msgpack.decode(unseal(key, row, db))
        delay = 0.0 if low == NEVER else (low - ts) / 1e6
        shown = shown_time(ts, stream.unit), shown_time(low, stream.unit)
        yield AsideRecord(view, name, source, offset, *shown, delay, document_of(line))
