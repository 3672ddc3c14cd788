"""The formulas of low watermarks: that of a source partition, and that of a stream over those that count.

Invariant: no watermark falls. Each function gets a state and an event, and returns the state after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from penstock.flow.times import FAR, NEVER
from penstock.flow.watermark_rows import SourceState, StreamState
from penstock.views import Stream

__all__ = [
    "SourceKind",
    "after_clock",
    "after_low",
    "after_records",
    "after_rest",
    "clock_of",
    "kind_of_source",
    "next_change",
]

Times = NDArray[np.int64]


class SourceKind(Enum):
    """The effect of a source partition on the watermark of its stream."""

    COUNTS = "counts"
    IDLE = "idle"
    ENDED = "ended"


def kind_of_source(stream: Stream, source: SourceState, now: int, opened: int) -> SourceKind:
    """Return the effect of a source partition. Its idle time begins with the `opened` clock reading at the earliest."""
    if source.ended:
        return SourceKind.ENDED
    if stream.idle is None or source.rested is None or now - max(source.rested, opened) < stream.idle:
        return SourceKind.COUNTS
    return SourceKind.IDLE


def after_clock(stream: Stream, state: StreamState, now: int, opened: int) -> StreamState:
    """Return the state after a clock reading: source partitions may have become idle."""
    kinds = {name: kind_of_source(stream, own, now, opened) for name, own in state.sources.items()}
    if _is_waiting(stream, state):
        return state
    lows = [state.sources[name].low for name, kind in kinds.items() if kind is SourceKind.COUNTS]
    if lows:
        reached = min(lows)
    elif SourceKind.IDLE in kinds.values() and state.top != NEVER:
        reached = min(state.top - stream.lateness + max(now - state.at, 0), FAR)
    else:
        return state
    return replace(state, low=reached) if reached > state.low else state


def after_records(
    stream: Stream, state: StreamState, name: str | None, rests: bool, ts: Times, now: int, opened: int
) -> tuple[StreamState, Times]:
    """Return the state after records of one source partition, and the watermark of the stream after each record.

    Without a `name` the records belong to no source partition, and raise no watermark. `rests` says that nothing is
    left to read after them.
    """
    if name is None:
        column = np.full(ts.size, state.low, np.int64)
        return _counted(state, ts, column, column), column
    own = state.sources.get(name, SourceState())
    timely = ts <= now + stream.ahead
    reach = np.where(timely, np.maximum(ts, NEVER + stream.lateness) - stream.lateness, NEVER)
    lows = np.maximum.accumulate(np.maximum(reach, own.low)) if not own.given else np.full(ts.size, own.low)
    newest = max(own.newest, int(ts[timely].max())) if timely.any() else own.newest
    joined = replace(
        own,
        low=int(lows[-1]),
        rested=now if rests else None,
        newest=newest,
        ahead=own.ahead + int(ts.size - np.count_nonzero(timely)),
        ended=False,
    )
    after = replace(state, sources={**state.sources, name: joined})
    least = min(_others(stream, state, name, now, opened), default=FAR)
    column = np.full(ts.size, state.low, np.int64)
    if not _is_waiting(stream, after):
        column = np.maximum(state.low, np.minimum(lows, least))
    if newest > state.top:
        after = replace(after, top=newest, at=now)
    return _counted(replace(after, low=int(column[-1])), ts, column, lows), column


def after_low(stream: Stream, state: StreamState, name: str, low: int, now: int, opened: int) -> StreamState:
    """Return the state after a source stated its watermark: from then on only its statements count."""
    own = state.sources.get(name, SourceState())
    stated = replace(own, low=max(own.low, low), given=True, rested=now, ended=False)
    return after_clock(stream, replace(state, sources={**state.sources, name: stated}), now, opened)


def after_rest(
    stream: Stream, state: StreamState, names: Collection[str], ended: bool, now: int, opened: int
) -> StreamState:
    """Return the state after a spout reported that nothing is left to read from these source partitions.

    `ended` says that no record will follow either.
    """
    sources = {
        name: replace(own, rested=now if own.rested is None else own.rested, ended=ended) if name in names else own
        for name, own in state.sources.items()
    }
    return after_clock(stream, replace(state, sources=sources), now, opened)


def next_change(stream: Stream, state: StreamState, now: int, opened: int) -> int | None:
    """Return the next clock reading at which a source partition becomes idle; None if there is none."""
    if stream.idle is None:
        return None
    waiting = [
        max(own.rested, opened) + stream.idle
        for own in state.sources.values()
        if own.rested is not None and kind_of_source(stream, own, now, opened) is SourceKind.COUNTS
    ]
    return min(waiting, default=None)


def clock_of(stream: Stream, state: StreamState, time: int, now: int, opened: int) -> int | None:
    """Return the clock reading at which the clock raises the watermark to a time; None if records raise it."""
    kinds = {kind_of_source(stream, own, now, opened) for own in state.sources.values()}
    if SourceKind.COUNTS in kinds or SourceKind.IDLE not in kinds or state.top == NEVER or _is_waiting(stream, state):
        return None
    return max(time - state.top + stream.lateness + state.at, now + 1) if time > state.low else None


def _is_waiting(stream: Stream, state: StreamState) -> bool:
    """Return True if an expected source partition has given no record yet."""
    return any(name not in state.sources for name in stream.expected)


def _others(stream: Stream, state: StreamState, name: str, now: int, opened: int) -> Iterator[int]:
    """Yield the source watermarks of the other source partitions that count."""
    for other, own in state.sources.items():
        if other != name and kind_of_source(stream, own, now, opened) is SourceKind.COUNTS:
            yield own.low


def _counted(state: StreamState, ts: Times, column: Times, lows: Times) -> StreamState:
    late = ts < column
    rejoined = int(np.count_nonzero(late & (lows < column)))
    return replace(
        state,
        records=state.records + ts.size,
        late=state.late + int(np.count_nonzero(late)),
        late_rejoined=state.late_rejoined + rejoined,
    )
