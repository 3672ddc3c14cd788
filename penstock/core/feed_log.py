"""The feed of a store: one row a commit, and not more than is to be kept.

The oldest rows go once more changes or bytes are kept than the store was opened for. `State.followed` is the oldest
position that a reader can still follow from; it moves in the transaction that drops rows, and with each commit that is
not fed, where the store was opened for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from penstock.cache import Store, StoreDamaged, Writer
from penstock.core.catalog import State, write_state
from penstock.mapreduce import FEED, Fed, feed_counts, feed_key, feed_row

CHANGES, BYTES = 1_000_000, 256 << 20
_DROPPED = 64  # rows that one step drops at most


class Feed:
    """The writer's side of it."""

    def __init__(self, changes: int) -> None:
        self.on = changes > 0
        self._changes = changes
        self._first: tuple[int, int, int] | None = None  # position, and changes and bytes before it

    def put(self, writer: Writer, parts: Sequence[Fed], state: State) -> State:
        """Add the row of a commit, and what the state then says."""
        key = feed_key(state.position)
        row, changes, size = feed_row(key, parts, state.fed, state.fed_bytes)
        writer.put_many(FEED, [(key, row)], append=True)
        return msgspec.structs.replace(state, fed=changes, fed_bytes=size)

    def trim(self, store: Store, state: State) -> State:
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
        """Memory is in doubt."""
        self._first = None

    def _over(self, state: State, first: tuple[int, int, int]) -> bool:
        _, changes, size = first
        return state.fed - changes > self._changes or state.fed_bytes - size > BYTES

    def _find(self, store: Store) -> bool:
        with store.read() as reader:
            for key, row in islice(reader.scan(FEED), 1):
                self._first = (int.from_bytes(key, "big"), *self._before(key, row))
        return self._first is not None

    def _before(self, key: bytes, row: bytes) -> tuple[int, int]:
        """How many changes and bytes were fed before a row; of one that is damaged as many as before the last one.

        Damage is for those who follow: it keeps nobody from writing.
        """
        try:
            return feed_counts(key, row)
        except StoreDamaged:
            return (0, 0) if self._first is None else self._first[1:]
