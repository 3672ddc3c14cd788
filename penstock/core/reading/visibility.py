"""Saved changes in the feed of one partition: which early sets it shows, and which of them were taken back.

Another partition may send contributions before it saves their batch (`productions/early`). Their commit is
in the feed at once. Readers of saved changes stop before it until the sender says that the batch is saved. If the batch
never is, a later commit takes the contributions back. The commits between the two are then one span. Readers of saved
changes get the net changes of a span, at its last position. Invariants:

- the state names the first position of each early set that is not known to be saved, in the transaction that takes it;
- a span is written in the transaction that takes the contributions back;
- a position that readers of saved changes have been given is never inside a span.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from penstock.cache import META, Reader, Writer, seal, unseal
from penstock.core.metadata.store_state import StateRow
from penstock.mapreduce import ResultChanges, RowReading, feed_key, read_result_changes

__all__ = ["Span", "add_span", "net_changes", "next_span", "read_spans", "saved_position", "with_early_set"]

Span = tuple[int, int]
"""The first position of an early set, and the position at which it was retracted."""
_KEY = b"undone"
_decode = msgspec.msgpack.Decoder(list[Span]).decode


def with_early_set(state: StateRow, sender: int, position: int | None) -> StateRow:
    """Return the state with the position of a sender's early set; None if it has none that may be unsaved."""
    positions = {other: at for other, at in state.told_at.items() if other != sender}
    if position is not None:
        positions[sender] = position
    return state if positions == state.told_at else msgspec.structs.replace(state, told_at=positions)


def read_spans(reader: Reader, state: StateRow) -> list[Span]:
    """Return, in order, the spans that the feed still has, or that end after an unsaved early set."""
    if not state.guard:
        return []  # no other partition ever sent an early set
    row = reader.get_many(META, [_KEY])[0]
    needed = min([state.followed, *(at - 1 for at in state.told_at.values())])
    return [] if row is None else [span for span in _decode(unseal(_KEY, row, META)) if span[1] > needed]


def add_span(writer: Writer, state: StateRow, span: Span) -> None:
    """Write one more span, and drop those that the feed no longer has."""
    spans = sorted([*read_spans(writer, state), span])
    writer.put_many(META, [(_KEY, seal(_KEY, msgspec.msgpack.encode(spans)))])


def saved_position(state: StateRow, spans: Sequence[Span]) -> int:
    """Return the last position up to which all changes are known to be saved, or were retracted."""
    position = min([state.position, *(at - 1 for at in state.told_at.values())])
    for first, last in reversed(spans):
        if first <= position < last:
            position = first - 1
    return position


def next_span(spans: Sequence[Span], since: int) -> Span | None:
    """Return the next span after or around a position, merged with the spans that overlap it."""
    out: Span | None = None
    for first, last in spans:
        if last <= since:
            continue
        if out is not None and first > out[1]:
            break
        out = (first, last) if out is None else (out[0], max(last, out[1]))
    return out


def net_changes(reader: Reader, since: int, until: int, views: dict[int, RowReading]) -> Iterable[ResultChanges]:
    """Yield the net changes of these views between two positions, without groups that end as they began."""
    found: dict[int, dict[bytes, tuple[object, object]]] = {}
    for _, commit in read_result_changes(reader, since, views, feed_key(until + 1)):
        for changes in commit:
            known = found.setdefault(changes.view, {})
            for group, old, new in zip(changes.groups, changes.old, changes.new, strict=True):
                known[group] = (known[group][0] if group in known else old, new)
    for view, known in found.items():
        sides = list(known.values())
        yield ResultChanges(view, list(known), [old for old, _ in sides], [new for _, new in sides]).apart()
