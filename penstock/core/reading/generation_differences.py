"""The differences between two generations of a view, as the changes at the position of their switch.

The switch does not write them. The rows of the former generation stay unchanged. The rows of the current one at the
switch follow from its rows now and its changes in the feed since. A view built for the first time had no rows before; a
dropped view has none after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from penstock.cache import Reader, decode_key, stored_key
from penstock.core.schema import Schema
from penstock.mapreduce import RowState, StoredCodec, read_feed, rows_db, same_result
from penstock.views import ABSENT, Change

__all__ = ["differing", "next_switch"]

_BLOCK = 1 << 10  # rows that are in memory at once
Known = dict[bytes, tuple[bytes, RowState | None]]  # by stored key: the whole key, and the row


def next_switch(schema: Schema, names: Iterable[str], since: int) -> int | None:
    """Return the next position after this one at which one of these views switched."""
    wanted = set(names)
    return min((f.until for f in schema.catalog.former if f.name in wanted and f.until > since), default=None)


def differing(reader: Reader, schema: Schema, names: Iterable[str], position: int) -> Iterator[Change]:
    """Yield the changes of these views at the position of a switch."""
    wanted = set(names)
    for former in schema.catalog.former:
        if former.until == position and former.name in wanted:
            yield from _Pair(reader, schema, former.name, former.number, position).changes()


class _Pair:
    """A generation, and the one that replaced it."""

    def __init__(self, reader: Reader, schema: Schema, name: str, old: int, position: int) -> None:
        generations = schema.generations([name])
        self._reader = reader
        self._name = name
        self._position = position
        self._old, self._new = old, _after(schema, name, position)
        self._old_codec = generations[old][1] if old else None
        self._new_codec = generations[self._new][1] if self._new else None

    def changes(self) -> Iterator[Change]:
        """Yield the groups whose result differs, in no order."""
        since = self._changed_since()
        for rows in self._blocks(self._new, self._new_codec):
            old = self._rows(self._old, self._old_codec, list(rows))
            for key, (whole, now) in rows.items():
                yield from self._change(whole, old[key], since.pop(key, (whole, now))[1])
        for rows in self._blocks(self._old, self._old_codec):
            known = self._rows(self._new, self._new_codec, list(rows))
            for key, (whole, before) in rows.items():
                if known[key] is None:
                    yield from self._change(whole, before, since.pop(key, (whole, None))[1])
        for whole, state in since.values():
            yield from self._change(whole, None, state)

    def _changed_since(self) -> Known:
        """Return the state at the switch of groups that changed since."""
        out: Known = {}
        if self._new_codec is not None:
            for _, change in read_feed(self._reader, self._position, {self._new: self._new_codec}):
                out.setdefault(stored_key(change.group), (change.group, change.old))
        return out

    def _blocks(self, number: int, codec: StoredCodec | None) -> Iterator[Known]:
        if codec is None:
            return
        rows, where = self._reader.scan(rows_db(number)), f"view {self._name!r}"
        while block := list(islice(rows, _BLOCK)):
            states = [(key, codec.decode(key, row, where)) for key, row in block]
            yield {key: (state.whole or key, state) for key, state in states}

    def _rows(self, number: int, codec: StoredCodec | None, keys: list[bytes]) -> dict[bytes, RowState | None]:
        if codec is None:
            return dict.fromkeys(keys)
        where = f"view {self._name!r}"
        rows = zip(keys, self._reader.get_many(rows_db(number), keys), strict=True)
        return {key: None if row is None else codec.decode(key, row, where) for key, row in rows}

    def _change(self, whole: bytes, old: RowState | None, new: RowState | None) -> Iterator[Change]:
        before, after = _result(self._old_codec, old), _result(self._new_codec, new)
        absent = (before is ABSENT) + (after is ABSENT)
        if absent == 1 or (not absent and not same_result(before, after)):
            yield Change(self._name, decode_key(whole), before, after, self._position)


def _after(schema: Schema, name: str, position: int) -> int:
    """Return the number of the generation that replaced it at this position; 0 if there was none."""
    later = [(f.until, f.number) for f in schema.catalog.former if f.name == name and f.until > position]
    if later:
        return min(later)[1]
    entry = schema.catalog.entries.get(name)
    return 0 if entry is None else entry.number


def _result(codec: StoredCodec | None, state: RowState | None) -> Any:
    return ABSENT if codec is None or state is None else codec.result(state)
