"""The feed of a store: one row per commit, with a bounded length.

The oldest rows are dropped once the feed has more changes or bytes than its limits. `StateRow.followed` is the oldest
position from which a reader can follow. It moves in the transaction that drops rows. In a store without a feed it moves
with each commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from penstock.cache import Store, StoreDamaged, Writer
from penstock.core.metadata.store_state import StateRow, write_state
from penstock.mapreduce import FEED, FeedChanges, feed_counts, feed_key, feed_row

CHANGES, BYTES = 1_000_000, 256 << 20
_DROPPED = 64  # rows that one step drops at most


class FeedLog:
    """The writer's side of the feed."""

    def __init__(self, changes: int) -> None:
        self.on = changes > 0
        self._changes = changes
        self._first: tuple[int, int, int] | None = None  # position, and changes and bytes before it

    def put(self, writer: Writer, parts: Sequence[FeedChanges], state: StateRow) -> StateRow:
        """Write the row of a commit, and return the state with its counts."""
        key = feed_key(state.position)
        row, changes, size = feed_row(key, parts, state.fed, state.fed_bytes)
        writer.put_many(FEED, [(key, row)], append=True)
        return msgspec.structs.replace(state, fed=changes, fed_bytes=size)

    def trim(self, store: Store, state: StateRow) -> StateRow:
        """Drop the oldest rows, if more are kept than should be; return the state after it."""
        if self._first is None and not self._find(store):
            return state
        assert self._first is not None, "it was just found"
        if not self._over(state, self._first):
            return state
        with store.write() as writer:
            gone: list[bytes] = []
            last = min(state.told_at.values(), default=state.position)  # readers of saved changes are before it
            for key, row in islice(writer.scan(FEED), _DROPPED + 1):
                position = int.from_bytes(key, "big")
                self._first = (position, *self._before(key, row))
                if len(gone) == _DROPPED or not self._over(state, self._first) or position >= last:
                    break
                gone.append(key)
            if not gone:
                return state
            writer.delete_many(FEED, gone)
            followed = max(state.followed, int.from_bytes(gone[-1], "big"))  # rows from before a time without a feed
            state = msgspec.structs.replace(state, followed=followed)
            write_state(writer, state)
        return state

    def forget(self) -> None:
        """Clear the cache."""
        self._first = None

    def _over(self, state: StateRow, first: tuple[int, int, int]) -> bool:
        _, changes, size = first
        return state.fed - changes > self._changes or state.fed_bytes - size > BYTES

    def _find(self, store: Store) -> bool:
        with store.read() as reader:
            for key, row in islice(reader.scan(FEED), 1):
                self._first = (int.from_bytes(key, "big"), *self._before(key, row))
        return self._first is not None

    def _before(self, key: bytes, row: bytes) -> tuple[int, int]:
        """Return the number of changes and bytes fed before a row; for a damaged row those of the row before it.

        Followers report the damage. It must not stop writers.
        """
        try:
            return feed_counts(key, row)
        except StoreDamaged:
            return (0, 0) if self._first is None else self._first[1:]
