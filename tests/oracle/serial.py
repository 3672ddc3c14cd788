"""Low watermarks of streams, computed one event after the other with dicts and plain ints.

An event is a clock reading, a record, a statement of a source about its watermark, or a report that nothing is left to
read. All times are microseconds. This module shares no code with the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NEVER = None  # before the first watermark


@dataclass
class Source:
    """One source partition."""

    low: int | None = NEVER
    given: bool = False
    rested: int | None = None
    ended: bool = False
    ahead: int = 0


@dataclass
class Stream:
    """One stream, with its definition."""

    lateness: int = 0
    idle: int | None = None
    ahead: int = 300_000_000
    expected: tuple[str, ...] = ()
    low: int | None = NEVER
    top: int | None = NEVER
    at: int = 0
    sources: dict[str, Source] = field(default_factory=dict)
    records: int = 0
    late: int = 0


@dataclass
class Serial:
    """All streams of a store, and its clock."""

    streams: dict[str, Stream]
    now: int
    opened: int

    def clock(self, reading: int) -> None:
        """Read the clock, which never falls here."""
        self.now = max(self.now, reading)
        for stream in self.streams.values():
            self.settle(stream)

    def record(self, name: str, source: str, ts: int, rests: bool) -> bool:
        """Take one record. Return True if it is late."""
        stream = self.streams[name]
        own = stream.sources.setdefault(source, Source())
        own.ended, own.rested = False, self.now if rests else None
        if ts > self.now + stream.ahead:
            own.ahead += 1
        else:
            if not own.given:
                own.low = least_or(own.low, ts - stream.lateness)
            if stream.top is None or ts > stream.top:
                stream.top, stream.at = ts, self.now
        counting = [other.low for other in stream.sources.values() if self.counts(stream, other)]
        self.rise(stream, counting)
        stream.records += 1
        late = stream.low is not None and ts < stream.low
        stream.late += late
        return late

    def state(self, name: str, source: str, low: int) -> None:
        """Take the statement of a source about its watermark."""
        stream = self.streams[name]
        own = stream.sources.setdefault(source, Source())
        own.low, own.given, own.ended, own.rested = least_or(own.low, low), True, False, self.now
        self.settle(stream)

    def rest(self, sources: list[str], ended: bool) -> None:
        """Take the report that nothing is left to read from these source partitions."""
        for stream in self.streams.values():
            known = [stream.sources[name] for name in sources if name in stream.sources]
            for own in known:
                own.rested = self.now if own.rested is None else own.rested
                own.ended = ended
            if known:
                self.settle(stream)

    def counts(self, stream: Stream, source: Source) -> bool:
        """Return True if a source partition counts: it has neither ended nor been idle for long."""
        return not source.ended and not self.is_idle(stream, source)

    def is_idle(self, stream: Stream, source: Source) -> bool:
        """Return True if nothing was left to read for the time of `idle`."""
        if stream.idle is None or source.rested is None or source.ended:
            return False
        return self.now >= max(source.rested, self.opened) + stream.idle

    def settle(self, stream: Stream) -> None:
        """Raise the watermark as far as its source partitions and the clock allow."""
        counting = [own.low for own in stream.sources.values() if self.counts(stream, own)]
        idle = [own for own in stream.sources.values() if self.is_idle(stream, own)]
        if counting:
            self.rise(stream, counting)
        elif idle and stream.top is not None:
            self.rise(stream, [stream.top - stream.lateness + (self.now - stream.at)])

    def rise(self, stream: Stream, lows: list[int | None]) -> None:
        """Raise the watermark to the least of these, if all are known and each expected source partition came."""
        if lows and None not in lows and set(stream.expected) <= stream.sources.keys():
            stream.low = least_or(stream.low, min(low for low in lows if low is not None))


def least_or(before: int | None, after: int) -> int:
    """Return the greater one of a time that may not exist yet and another."""
    return after if before is None else max(before, after)
