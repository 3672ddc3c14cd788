"""The row of watermarks: all numbers of the low watermarks of a store, written in the transaction that changes them.

The row is in `meta`. Times are int64 microseconds since 1970.
"""

from __future__ import annotations

import msgspec

from penstock.cache import META, Reader, Writer, seal, unseal
from penstock.flow.times import NEVER

__all__ = ["SourceState", "StageState", "StreamState", "WatermarkRow", "read_watermarks", "write_watermarks"]

_KEY = b"watermarks"


class SourceState(msgspec.Struct, array_like=True, frozen=True):
    """The state of one source partition of a stream.

    `rested` is the clock reading since which nothing is left to read; None if more may be left. `ahead` counts the
    records that were too far in front of the clock.
    """

    low: int = NEVER  # the source watermark
    given: bool = False  # the source states its watermark itself
    rested: int | None = None
    newest: int = NEVER  # the greatest ts that counted
    ahead: int = 0
    ended: bool = False


class StreamState(msgspec.Struct, array_like=True, frozen=True):
    """The state of one stream: its watermark, the greatest ts that counted and the clock reading when it came."""

    low: int = NEVER
    top: int = NEVER
    at: int = 0
    sources: dict[str, SourceState] = {}
    records: int = 0
    late: int = 0
    late_rejoined: int = 0  # of these, from a source partition that was below the watermark as a whole


class StageState(msgspec.Struct, array_like=True, frozen=True):
    """The late records that a view set aside: how many ever, how many of them were removed, and the stored bytes.

    `delays` counts them by powers of two: place n has delays below 2ⁿ seconds, and not below those of the place before.
    """

    aside: int = 0
    removed: int = 0
    bytes: int = 0
    delays: tuple[int, ...] = ()


class WatermarkRow(msgspec.Struct, frozen=True):
    """The watermarks of all streams, and the greatest clock reading so far."""

    streams: dict[str, StreamState] = {}
    stages: dict[str, StageState] = {}  # by view
    now: int = 0


_decode = msgspec.msgpack.Decoder(WatermarkRow).decode


def read_watermarks(reader: Reader) -> WatermarkRow:
    """Read the watermarks."""
    row = reader.get_many(META, [_KEY])[0]
    return WatermarkRow() if row is None else _decode(unseal(_KEY, row, META))


def write_watermarks(writer: Writer, row: WatermarkRow) -> None:
    """Write the watermarks, within a transaction."""
    writer.put_many(META, [(_KEY, seal(_KEY, msgspec.msgpack.encode(row)))])
