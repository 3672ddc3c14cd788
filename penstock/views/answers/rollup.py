"""Roll up results by the first parts of groups, from subtotals of runs of rows.

A run is an interval of groups. Its subtotals are the merged accumulators of its rows, one per prefix. They are kept in
memory beside the store, as a value derived from the view's rows (`cache/store/database_watch`). The next rollup reads
only the rows of runs that changed, and uses the subtotals of the others. Invariants:

- subtotals are used only for accumulators whose sum is independent of order and grouping. For others all rows are read;
- a run is read again if it changed since its subtotals were computed, or if it has a held group;
- runs of a level are disjoint, and begin and end with keys that are stored whole.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from penstock.cache import Moment, Reader, Watched, decode_key, encode_key, prefix_bounds
from penstock.views.answers.row import Row

__all__ = ["HEAD", "Entry", "Rollup"]

HEAD = 368
"""From this many bytes on, several keys may have the same stored beginning."""

Entry = tuple[bytes, bytes, bytes, Any]
"""A row: its whole key, its stored key, the row, and its accumulators if they were decoded."""

_ROWS = 1024  # rows of a run, which are in memory together
_FEW_ROWS = 128  # smaller runs are not kept
_ROWS_A_PART = 8  # runs with fewer rows per subtotal are not kept
_MOST_PARTS = 1 << 16  # subtotals that are kept per view


class _Subtotal(NamedTuple):
    prefix: bytes
    state: Any
    stale: bool


class _GroupRun(NamedTuple):
    """The subtotals of all groups from `first` on and before `end`."""

    first: bytes
    end: bytes | None
    parts: Sequence[_Subtotal]


_Piece = tuple[bytes, bytes | None, _GroupRun | None]
_Levels = Mapping[int, Sequence[_GroupRun]]
_first = attrgetter("first")


@dataclass(frozen=True, slots=True)
class Rollup:
    """One rollup of a view: functions to scan its rows, to decode and merge accumulators, and to compute a result.

    `states` may return fewer accumulators than rows: merged, they equal those of the rows.
    """

    db: str
    level: int
    held: frozenset[bytes]
    scan: Callable[[Reader, bytes, bytes | None, bool], Iterator[Entry]]
    states: Callable[[Sequence[Entry]], Sequence[Any]]
    merge: Callable[[Sequence[Any]], Any]
    result: Callable[[Any], Any]

    def rows(self, reader: Reader, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
        """Yield the results in group order."""
        moments = reader.moments() if isinstance(reader, Watched) else ()
        if moments:
            streams = [self._of(moment, low, high, reverse) for moment in moments]
        else:
            streams = [self._scanned(reader, low, high, reverse, [])]
        parts = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=itemgetter(0), reverse=reverse)
        for prefix, group in groupby(parts, itemgetter(0)):
            own = list(group)
            state = self.merge([part.state for part in (reversed(own) if reverse else own)])
            stale = any(part.stale for part in own) or state.held is not None
            yield Row(decode_key(prefix), self.result(state), stale)

    def _of(self, moment: Moment, low: bytes, high: bytes | None, reverse: bool) -> Iterator[_Subtotal]:
        """Yield the subtotals of one store, from known runs and from rows."""
        known = moment.watches.derived(self.db, moment.commit)
        levels = {} if known is None else _unchanged(*known)
        fresh: list[_GroupRun] = []
        pieces = self._pieces(levels.get(self.level, ()), low, high)
        try:
            for first, end, run in reversed(pieces) if reverse else pieces:
                if run is None:
                    yield from self._scanned(moment.reader, first, end, reverse, fresh)
                else:
                    yield from reversed(run.parts) if reverse else run.parts
        finally:
            if known is None or known[1] or fresh:
                moment.watches.keep(self.db, moment.commit, self._with(levels, fresh) or None)

    def _pieces(self, runs: Sequence[_GroupRun], low: bytes, high: bytes | None) -> list[_Piece]:
        """Split the interval into known runs and the intervals between them."""
        pieces: list[_Piece] = []
        held, at = sorted(self.held), low
        for run in runs[bisect_left(runs, low, key=_first) :]:
            if high is not None and (run.end is None or run.end > high):
                break
            place = bisect_left(held, run.first)
            if place < len(held) and (run.end is None or held[place] < run.end):
                continue
            if at < run.first:
                pieces.append((at, run.first, None))
            pieces.append((run.first, run.end, run))
            if run.end is None:
                return pieces
            at = run.end
        if high is None or at < high:
            pieces.append((at, high, None))
        return pieces

    def _scanned(
        self, reader: Reader, first: bytes, end: bytes | None, reverse: bool, fresh: list[_GroupRun]
    ) -> Iterator[_Subtotal]:
        """Yield the subtotals of an interval from its rows. Runs that are worth keeping are added to `fresh`."""
        entries = self.scan(reader, first, end, reverse)
        following = next(entries, None)
        while following is not None:
            some = [following, *islice(entries, _ROWS - 1)]
            following = next(entries, None)
            while following is not None and len(following[0]) >= HEAD:
                some.append(following)
                following = next(entries, None)
            if reverse:
                yield from reversed(self._parts(some[::-1]))
            else:
                parts, stop = self._parts(some), end if following is None else following[0]
                if _is_worth(len(some), parts) and len(first) < HEAD and (stop is None or len(stop) < HEAD):
                    fresh.append(_GroupRun(first, stop, parts))
                yield from parts
                first = b"" if stop is None else stop

    def _parts(self, entries: Sequence[Entry]) -> list[_Subtotal]:
        """Return the subtotals of some rows in group order, one per prefix."""
        keys, parts, at = [entry[0] for entry in entries], list[_Subtotal](), 0
        while at < len(keys):
            prefix, bound = _prefix(keys[at], self.level)
            end = len(keys) if bound is None else bisect_left(keys, bound, at + 1)
            states = self.states(entries[at:end])
            stale = any(state.held is not None for state in states) or not self.held.isdisjoint(keys[at:end])
            parts.append(_Subtotal(prefix, self.merge(states), stale))
            at = end
        return parts

    def _with(self, levels: _Levels, fresh: Sequence[_GroupRun]) -> _Levels:
        """Return the runs of all levels with the fresh ones, unless these overlap others or exceed the limit."""
        runs = list(levels.get(self.level, ()))
        room = _MOST_PARTS - sum(len(run.parts) for own in levels.values() for run in own)
        for run in fresh:
            room -= len(run.parts)
            if room < 0:
                break
            place = bisect_right(runs, run.first, key=_first)
            before, after = runs[place - 1 : place], runs[place : place + 1]
            if all(own.end is not None and own.end <= run.first for own in before) and all(
                run.end is not None and run.end <= own.first for own in after
            ):
                runs.insert(place, run)
        others = {level: own for level, own in levels.items() if level != self.level}
        return {**others, self.level: runs} if runs else others


def _unchanged(levels: _Levels, changed: Iterable[bytes]) -> dict[int, Sequence[_GroupRun]]:
    """Return the runs that contain none of these stored keys."""
    out: dict[int, Sequence[_GroupRun]] = {}
    keys = sorted(set(changed))
    for level, runs in levels.items():
        left = []
        for run in runs:
            place = bisect_left(keys, run.first)
            if place == len(keys) or (run.end is not None and keys[place] >= run.end):
                left.append(run)
        if left:
            out[level] = left
    return out


def _is_worth(rows: int, parts: Sequence[_Subtotal]) -> bool:
    """Return whether a run is worth keeping: it has many rows per subtotal, and none is held."""
    if rows < _FEW_ROWS or rows < _ROWS_A_PART * len(parts):
        return False
    return not any(part.stale or part.state.held is not None for part in parts)


def _prefix(key: bytes, level: int) -> tuple[bytes, bytes | None]:
    """Return the prefix of a group, and the encoded end of the groups with this prefix."""
    if not level:
        return encode_key(()), None
    group = decode_key(key)
    if isinstance(group, tuple) and len(group) >= level:
        return prefix_bounds(group[:level])
    return key, key + b"\0"
