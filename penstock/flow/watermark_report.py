"""The watermarks of a store as rows for people and programs: each with its lag and the reason why it is not higher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cache import duration_text
from penstock.flow.source_watermarks import SourceKind, kind_of_source
from penstock.flow.times import NEVER, shown_time, time_text
from penstock.flow.watermark_rows import SourceState, StreamState, WatermarkRow
from penstock.views import Stream

__all__ = ["SourceWatermark", "Watermark", "watermark_of"]


@dataclass(frozen=True, slots=True)
class SourceWatermark:
    """The watermark of one source partition. `state` is "counts", "idle", "ended" or "empty"."""

    source: str
    time: int | float | None
    state: str
    newest: int | float | None
    given: bool
    ahead: int
    reason: str

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Watermark:
    """The low watermark of a stream: up to `time`, in its unit, all records have arrived.

    `lag` is the number of seconds by which the watermark is behind the clock. `reason` says which source partition
    keeps it from being higher.
    """

    name: str
    time: int | float | None
    text: str
    lag: float | None
    records: int
    late: int
    late_rejoined: int
    reason: str
    sources: tuple[SourceWatermark, ...]

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return own | {"sources": [source.data() for source in self.sources]}


def watermark_of(
    stream: Stream, row: WatermarkRow, clock: int, opened: int = 0, offsets: Mapping[str, int] | None = None
) -> Watermark:
    """Return the watermark of a stream. `offsets` are the next records of its source partitions."""
    state, now = row.streams.get(stream.name, StreamState()), max(row.now, clock)
    lag = None if state.low == NEVER else round(max(now - state.low, 0) / 1e6, 3)
    sources = tuple(_sources(stream, state, row.now, opened, offsets or {}))
    return Watermark(
        stream.name,
        shown_time(state.low, stream.unit),
        time_text(state.low),
        lag,
        state.records,
        state.late,
        state.late_rejoined,
        _reason(stream, state, sources, row.now, opened),
        sources,
    )


def _sources(
    stream: Stream, state: StreamState, now: int, opened: int, offsets: Mapping[str, int]
) -> Iterator[SourceWatermark]:
    for name, own in sorted(state.sources.items()):
        kind = kind_of_source(stream, own, now, opened)
        yield SourceWatermark(
            name,
            shown_time(own.low, stream.unit),
            kind.value,
            shown_time(own.newest, stream.unit),
            own.given,
            own.ahead,
            _source_reason(stream, name, own, kind, now, opened, offsets.get(name)),
        )
    for name in stream.expected:
        if name not in state.sources:
            yield SourceWatermark(name, None, "empty", None, False, 0, "it is in sources=, and gave no record yet")


def _source_reason(
    stream: Stream, name: str, own: SourceState, kind: SourceKind, now: int, opened: int, offset: int | None
) -> str:
    """Return the value of one source watermark in words."""
    if kind is SourceKind.ENDED:
        return "it was read to its end"
    if kind is SourceKind.IDLE:
        rested = max(own.rested or 0, opened)
        return f"idle for {_seconds(now - rested)}, so it does not count"
    place = "" if offset is None else f" at {offset:,}"
    if own.given:
        return f"{name}{place}: it states {time_text(own.low)}"
    if own.newest == NEVER:
        limit = duration_text(stream.ahead)
        return f"{name}{place}: all of its {own.ahead:,} records are more than {limit} in front of the clock"
    return f"{name}{place}: newest {time_text(own.newest)}, less lateness {duration_text(stream.lateness)}"


def _reason(stream: Stream, state: StreamState, sources: tuple[SourceWatermark, ...], now: int, opened: int) -> str:
    """Return why the watermark of a stream is not higher."""
    if not sources:
        return "the first record"
    empty = next((own for own in sources if own.state == "empty"), None)
    if empty is not None:
        return f"the first record of {empty.source}, which is in sources="
    ahead = _units(stream, state)
    counting = [own for own in sources if own.state == SourceKind.COUNTS.value]
    if counting:
        least = min(counting, key=lambda own: state.sources[own.source].low)
        return least.reason + ahead
    if any(own.state == SourceKind.IDLE.value for own in sources):
        return (
            f"the clock: every source partition is idle; it is the newest ts, less lateness, plus the time since{ahead}"
        )
    return f"another record: every source partition has ended{ahead}"


def _units(stream: Stream, state: StreamState) -> str:
    """Return a question about the unit if most records are in front of the clock."""
    ahead = sum(own.ahead for own in state.sources.values())
    if not ahead or 2 * ahead <= state.records:
        return ""
    other = "ms" if stream.unit == "s" else "us"
    limit = duration_text(stream.ahead)
    return f"; {ahead:,} records are more than {limit} in front of the clock; are their ts in {other}? unit={other!r}"


def _seconds(micros: int) -> str:
    whole = micros // 1_000_000
    return duration_text(max(whole, 1) * 1_000_000) if micros else "0s"
