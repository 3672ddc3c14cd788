"""The changes of views in a batch, as stored in the feed: one row of MessagePack per commit.

    [changes before, bytes before, [part, …]]      a part, of one view:
    [number of the view, [group, …], lanes, odd, width]

`lanes` has for each group n and all lanes before, and n and all lanes after, as ints of `width` bytes. The width is the
least that holds them all. A part without a width has ints of 8 bytes. If there is no row, n is 0.
`odd` has the states beyond lanes: [place, payload of the row before or nil, after or nil]. The two counts cover all
changes and bytes ever fed. So the difference of two rows is the amount between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import ne
from struct import pack
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, seal, unpack, unseal
from penstock.mapreduce.fold.row_format import RowState, same_result
from penstock.views import ABSENT, Absent

FEED = "feed"
WIDEST = 8
_LETTERS = {1: "b", 2: "h", 4: "i", WIDEST: "q"}
_PLAIN = frozenset((int, str, type(None), Absent))  # equal values of these types are identical
Odd = list[list[Any]]
_encode = msgspec.msgpack.Encoder().encode  # all values are ints and bytes


class RowReading(Protocol):
    """The decoder of a view's rows."""

    def state_of(self, payload: bytes) -> RowState:
        """Decode the payload of a row."""
        ...

    def result(self, state: RowState) -> Any:
        """Return the result of a state."""
        ...

    def results(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return the results of rows that are only lanes. Each has n, which is above 0, and its lanes."""
        ...


@dataclass(slots=True)
class FeedChanges:
    """The changes of one view in one batch."""

    view: int
    groups: list[bytes]  # encoded
    lanes: bytes = b""  # a row of ints per group: n and lanes before, n and lanes after
    odd: Odd = field(default_factory=list)
    width: int = WIDEST


def lane_width(least: int, most: int) -> int:
    """Return the bytes of the narrowest int that holds both.

    >>> lane_width(-128, 127), lane_width(0, 128), lane_width(0, 1 << 40)
    (1, 2, 8)
    """
    size = max((~least if least < 0 else least).bit_length(), (~most if most < 0 else most).bit_length())
    return 1 if size < 8 else 2 if size < 16 else 4 if size < 32 else WIDEST


def packed_columns(columns: NDArray[np.int64]) -> tuple[bytes, int]:
    """Pack a column of lanes per group. Return the bytes and the width."""
    width = lane_width(int(columns.min()), int(columns.max())) if columns.size else 1
    return columns.T.astype(f"<i{width}").tobytes(), width


def packed_lanes(lanes: list[int]) -> tuple[bytes, int]:
    """Pack the lanes of a few groups, one group after the other, like `packed_columns`."""
    width = lane_width(min(lanes), max(lanes)) if lanes else 1
    return pack(f"<{len(lanes)}{_LETTERS[width]}", *lanes), width


def feed_key(position: int) -> bytes:
    """Return the key of a commit's row."""
    return position.to_bytes(8, "big")


def feed_row(key: bytes, parts: Sequence[FeedChanges], changes: int, size: int) -> tuple[bytes, int, int]:
    """Return the row of a commit and the counts after it. `changes` and `size` are the counts before it."""
    listed = [[p.view, p.groups, p.lanes, p.odd, p.width] for p in parts]
    row = seal(key, _encode([changes, size, listed]))
    return row, changes + sum(len(p.groups) for p in parts), size + len(row)


def feed_counts(key: bytes, row: bytes) -> tuple[int, int]:
    """Return the numbers of changes and bytes fed before a row."""
    changes, size, _ = unpack(unseal(key, row, FEED))
    return changes, size


@dataclass(frozen=True, slots=True)
class FeedChange:
    """One changed group with its state before and after. None: there was no row."""

    view: int
    group: bytes
    old: RowState | None
    new: RowState | None


def read_feed(
    reader: Reader, since: int, views: dict[int, RowReading], stop: bytes | None = None
) -> Iterator[tuple[int, FeedChange]]:
    """Yield the changes of these views in commits after a position, with their positions."""
    for key, row in reader.scan(FEED, feed_key(since + 1), stop):
        position = int.from_bytes(key, "big")
        _, _, parts = unpack(unseal(key, row, FEED))
        for part in map(_part_of, parts):
            codec = views.get(part.view)
            if codec is not None:
                for change in _changes(part, codec):
                    yield position, change


@dataclass(slots=True)
class ResultChanges:
    """The changes of one view in a batch for readers: results, or ABSENT if there is no row."""

    view: int
    groups: list[bytes]
    old: list[Any]
    new: list[Any]

    def apart(self) -> ResultChanges:
        """Select the changes whose result differs."""
        if _PLAIN.issuperset(map(type, self.old)) and _PLAIN.issuperset(map(type, self.new)):
            apart = list(map(ne, self.old, self.new))
        else:
            apart = list(map(are_apart, self.old, self.new))
        if all(apart):
            return self
        return ResultChanges(self.view, *(list(compress(own, apart)) for own in (self.groups, self.old, self.new)))


def are_apart(old: Any, new: Any) -> bool:
    """Return True if readers see different results."""
    return old is not new if old is ABSENT or new is ABSENT else not same_result(old, new)


def read_result_changes(
    reader: Reader, since: int, views: dict[int, RowReading], stop: bytes | None = None
) -> Iterator[tuple[int, list[ResultChanges]]]:
    """Yield by position the changes of these views in commits after a position."""
    for key, row in reader.scan(FEED, feed_key(since + 1), stop):
        _, _, parts = unpack(unseal(key, row, FEED))
        columns = [result_changes(_part_of(part), views[part[0]]) for part in parts if part[0] in views]
        yield int.from_bytes(key, "big"), columns


def _part_of(part: Sequence[Any]) -> FeedChanges:
    view, groups, lanes, odd, *width = part
    return FeedChanges(view, groups, lanes, odd, *width)


def result_changes(part: FeedChanges, codec: RowReading) -> ResultChanges:
    """Return the changes of one view by a batch that may not be committed yet."""
    groups, odd = part.groups, part.odd
    lanes = _lanes_of(part) if part.lanes else np.zeros((len(groups), 2), np.int64)
    half = lanes.shape[1] // 2
    strange = [place for place, *_ in odd]
    old, new = (row_results(codec, side, strange) for side in (lanes[:, :half], lanes[:, half:]))
    for place, *payloads in odd:
        own = (ABSENT if payload is None else codec.result(codec.state_of(payload)) for payload in payloads)
        old[place], new[place] = own
    return ResultChanges(part.view, groups, old, new)


def selected_changes(part: FeedChanges, places: Sequence[int]) -> FeedChanges:
    """Return some changes of one view, by their places."""
    if len(places) == len(part.groups):
        return FeedChanges(part.view, list(part.groups), part.lanes, list(part.odd), part.width)
    lanes = _lanes_of(part)[list(places)].astype(f"<i{part.width}").tobytes() if part.lanes and places else b""
    new = {place: i for i, place in enumerate(places)}
    odd = [[new[place], *payloads] for place, *payloads in part.odd if place in new]
    return FeedChanges(part.view, [part.groups[place] for place in places], lanes, odd, part.width)


def _lanes_of(part: FeedChanges) -> NDArray[np.int64]:
    """Return the lanes, a row per group."""
    return np.frombuffer(part.lanes, f"<i{part.width}").reshape(len(part.groups), -1).astype(np.int64, copy=False)


def row_results(codec: RowReading, rows: NDArray[np.int64], strange: list[int]) -> list[Any]:
    """Return the results of rows. `strange` rows, which lanes do not determine, are left ABSENT."""
    present = rows[:, 0] != 0
    present[strange] = False
    at = present.nonzero()[0]
    if 0 < at.size == len(rows):
        return codec.results(rows)
    out: list[Any] = [ABSENT] * len(rows)
    if at.size:
        for place, result in zip(at.tolist(), codec.results(rows[at]), strict=True):
            out[place] = result
    return out


def _changes(part: FeedChanges, codec: RowReading) -> Iterator[FeedChange]:
    strange = {place: (old, new) for place, old, new in part.odd}
    lanes = _lanes_of(part).tolist() if part.lanes else []
    half = len(lanes[0]) // 2 if lanes else 0
    for place, group in enumerate(part.groups):
        if place in strange:
            old, new = (None if payload is None else codec.state_of(payload) for payload in strange[place])
        else:
            own = lanes[place]
            old, new = (RowState(part[0], part[1:]) if part[0] else None for part in (own[:half], own[half:]))
        yield FeedChange(part.view, group, old, new)
