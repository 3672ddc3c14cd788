"""Pages of the rows of a view, all at the position of the first page.

A cursor has that position and the last group. If the store has gone on, the changes feed tells the former results, and
they replace the current ones. So a page needs no snapshot from the time of the first one, and any front can serve it.
"""

from __future__ import annotations

import heapq
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.cache import DefinitionError, PenstockError, decode_key, encode_key, prefix_bounds
from penstock.engine import Engine, Snapshot
from penstock.views import ABSENT, Position, PositionExpired, json_text, json_value

__all__ = ["PageRequest", "RowPage", "read_page"]

_BYTES = 256 << 10  # of one page, but for its last row
_CHANGES = 100_000  # former results that a page may need
_ROW = tuple[bytes, Any, Any, bool]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The rows of an interval of groups from `cursor` on; `level` rolls them up."""

    view: str
    limits: dict[str, Any]  # start, stop, prefix
    reverse: bool
    limit: int
    level: int | None
    cursor: str | None


@dataclass(frozen=True, slots=True)
class RowPage:
    """The rows of one page, and the cursor of the next one if there are more.

    A row has its key and value as JSON, and True if it is held.
    """

    rows: list[tuple[bytes, bytes, bool]]
    position: Position
    cursor: str | None

    @property
    def texts(self) -> list[bytes]:
        """The rows as JSON objects."""
        return [
            b'{"key": %b, "value": %b, "held": %b}' % (key, value, b"true" if held else b"false")
            for key, value, held in self.rows
        ]


def read_page(reader: Engine, snap: Snapshot, asked: PageRequest, encode: Callable[[Any], bytes]) -> RowPage:
    """Read one page in a snapshot; `encode` returns a key or a value as JSON.

    PositionExpired if the feed no longer has the changes since the first page.
    """
    position, last = (snap.position, None) if asked.cursor is None else _cursor_of(asked.cursor)
    limits = dict(asked.limits)
    if last is not None:
        limits["stop" if asked.reverse else "start"] = decode_key(last)
    former = {} if position == snap.position else _former(reader, snap, asked, position)
    rows, size = list[tuple[bytes, bytes, bool]](), 0
    cursor, shown = None, last
    for encoded, group, value, held in _rows(snap, asked, limits, former):
        if encoded == last:
            continue
        if len(rows) == asked.limit or size > _BYTES:
            assert shown is not None, "a page has a row"
            cursor = _cursor(position, shown)
            break
        rows.append((encode(group), encode(value), held))
        size, shown = size + len(rows[-1][0]) + len(rows[-1][1]), encoded
    return RowPage(rows, position, cursor)


def _rows(
    snap: Snapshot, asked: PageRequest, limits: dict[str, Any], former: dict[bytes, tuple[Any, Any]]
) -> Iterator[_ROW]:
    """Yield rows in order, with former results in place of current ones."""
    view = snap.view(asked.view)
    if asked.level is not None:
        found = view.rollup(asked.level, reverse=asked.reverse, **limits)
    else:
        found = view.items(reverse=asked.reverse, **limits)
    current = ((encode_key(row.key), row.key, row.value, row.held) for row in found)
    if not former:
        return current
    low, high = _bounds(limits)
    before = [
        (key, group, old, False)
        for key, (group, old) in former.items()
        if old is not ABSENT and low <= key and (high is None or key < high)
    ]
    before.sort(key=_key, reverse=asked.reverse)
    return heapq.merge((row for row in current if row[0] not in former), before, key=_key, reverse=asked.reverse)


def _former(reader: Engine, snap: Snapshot, asked: PageRequest, position: Position) -> dict[bytes, tuple[Any, Any]]:
    """Return the groups that changed after a position, each with its result then."""
    out: dict[bytes, tuple[Any, Any]] = {}
    several = asked.level is not None or snap.schema.view(asked.view, snap.reader()).view.index
    for part in reader.feed(asked.view, since=position, until=snap.position):
        if len(part) and (several or len(out) > _CHANGES):
            raise PositionExpired(position, snap.position)
        for group, old in zip(part.groups, part.old, strict=True):
            out.setdefault(encode_key(group), (group, old))
    return out


def _bounds(limits: dict[str, Any]) -> tuple[bytes, bytes | None]:
    """Return the first encoded group of an interval, and the first one after it."""
    low, high = prefix_bounds(limits["prefix"]) if "prefix" in limits else (b"", None)
    if "start" in limits:
        low = max(low, encode_key(limits["start"]))
    if "stop" in limits:
        stop = encode_key(limits["stop"])
        high = stop if high is None else min(high, stop)
    return low, high


def _key(row: _ROW) -> bytes:
    return row[0]


def _cursor(position: Position, last: bytes) -> str:
    text = json_text([position if isinstance(position, int) else list(position), last.hex()])
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _cursor_of(text: str) -> tuple[Position, bytes]:
    try:
        given, last = json_value(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        key = bytes.fromhex(last)
        decode_key(key)
    except (IndexError, PenstockError, TypeError, ValueError):
        raise DefinitionError("the cursor is none that an answer had; begin without it") from None
    return given if isinstance(given, int) else tuple(given), key
