"""Close windows: the groups of window views whose end the watermark of their stream passes in a transaction.

Closing is one range scan between two watermarks. The feed gets the closed groups, and the changes of groups that were
closed before, under the negative number of the view. Invariant: the feed has a group once when it closes, and again
only with a change of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.cache import Reader, Writer, decode_key, encode_key, prefix_bounds
from penstock.flow.times import NEVER
from penstock.flow.watermarks import Watermarks
from penstock.gateway import TableNode
from penstock.mapreduce import FeedChanges, RowState, ViewNode, Writes, selected_changes
from penstock.views import Stream, WindowGroups

__all__ = ["close_windows", "final_number", "first_open_end"]

_NEXT = b"\0"


def final_number(view: int) -> int:
    """Return the number under which the feed has the closed groups of a view."""
    return -view


def close_windows(nodes: Iterable[TableNode], watermarks: Watermarks, writes: Writes) -> None:
    """Add the closed groups of this transaction to the feed, after its rows are written."""
    for node in nodes:
        span = watermarks.span(node.table.name, writes) if isinstance(node.table, Stream) else None
        if span is None:
            continue
        for view in node.views:
            if view.view.window is not None and view.building is None:
                _close(node.table.name, view, view.view.window, span, watermarks, writes)


def _close(
    stream: str, view: ViewNode, window: WindowGroups, span: tuple[int, int], watermarks: Watermarks, writes: Writes
) -> None:
    before, after = span
    crossed = before != after and _boundary(window, before) < _boundary(window, after)
    changed = any(part.view == view.number for part in writes.fed)
    if not (crossed or changed or watermarks.must_look(stream, view.name)):
        return
    writes.changed = writes.changed or crossed

    def close(writer: Writer) -> None:
        watermarks.look_at(stream, view.name, first_open_end(writer, view, window, after))
        if writes.feeding:
            parts = [_corrections(part, window, before) for part in writes.fed if part.view == view.number]
            parts.append(_closings(writer, view, window, before, after) if crossed else FeedChanges(0, []))
            for part in parts:
                part.view = final_number(view.number)
            writes.fed += [part for part in parts if part.groups]

    writes.during.append(close)


def _boundary(window: WindowGroups, time: int) -> int:
    """Return the number of the last window that ends at this time or before it."""
    own = window.window
    return NEVER if time == NEVER else (time - own.size - own.offset) // own.every


def _corrections(part: FeedChanges, window: WindowGroups, before: int) -> FeedChanges:
    """Return the changes of groups that were closed before the transaction."""
    ends = [window.end(decode_key(group)) for group in part.groups]
    return selected_changes(part, [i for i, end in enumerate(ends) if end is not None and end <= before])


def _closings(reader: Reader, view: ViewNode, window: WindowGroups, before: int, after: int) -> FeedChanges:
    """Return the groups that close in the transaction, with their rows after it."""
    out = FeedChanges(0, [])
    codec = view.reduce.codec
    for whole, row in _rows(reader, view, window, before, after):
        out.odd.append([len(out.groups), None, codec.payload(row)])
        out.groups.append(whole)
    return out


def _rows(
    reader: Reader, view: ViewNode, window: WindowGroups, before: int, after: int | None
) -> Iterator[tuple[bytes, RowState]]:
    """Yield the encoded groups and rows whose windows end after one time and not after the other, in group order."""
    codec, where = view.reduce.codec, f"view {view.name!r}"
    for text in (False, True):
        low, high = _bound(window, before, text), None if after is None else _bound(window, after, text)
        if low is None or (after is not None and high is None):
            continue
        for key, row in reader.scan(view.reduce.db, low, high):
            state = codec.decode(key, row, where)
            whole = state.whole or key
            end = window.end(decode_key(whole))
            if end is not None and before < end and (after is None or end <= after):
                yield whole, state


def first_open_end(reader: Reader, view: ViewNode, window: WindowGroups, low: int) -> int | None:
    """Return the least end of a window that is open at a watermark; None if all are closed."""
    found = next(_rows(reader, view, window, low, None), None)
    return None if found is None else window.end(decode_key(found[0]))


def _bound(window: WindowGroups, time: int, text: bool) -> bytes | None:
    """Return the encoding after all groups whose window ends at a time; None if no text has this time."""
    if time == NEVER:
        return b"" if not text else encode_key("") if window.single else prefix_bounds(("",))[0]
    try:
        start = window.bound(time, text)
    except (OverflowError, ValueError):
        return None
    return encode_key(start) + _NEXT if window.single else prefix_bounds((start,))[1]
