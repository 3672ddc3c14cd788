"""What was fetched of a topic and not given yet, by partitions in the order in which the oldest of each came.

A batch is of one partition, and large ones cost less a record: so fetching goes on until one partition has a batch, for
as long as there is something to fetch. Invariant: what is given of a partition is in its order, and without a gap.
"""

from __future__ import annotations

from penstock.kafka import Chunk

_MOST = 4  # batches of all partitions together
_BYTES = 8 << 20  # of a batch, about


class Held:
    """Chunks that wait."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Chunk]] = {}
        self._records: dict[int, int] = {}
        self._bytes: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, chunk: Chunk) -> None:
        """One more, behind what is held of its partition."""
        partition = chunk.partition
        self._parts.setdefault(partition, []).append(chunk)
        self._records[partition] = self._records.get(partition, 0) + len(chunk)
        self._bytes[partition] = self._bytes.get(partition, 0) + chunk.size

    def room(self, limit: int) -> int:
        """How many records may be fetched still before a batch of so many is given; 0 where one is there."""
        if not self._parts:
            return limit
        if max(self._bytes.values()) >= _BYTES or sum(self._bytes.values()) >= _MOST * _BYTES:
            return 0
        return max(0, min(limit - max(self._records.values()), _MOST * limit - sum(self._records.values())))

    def take(self, limit: int) -> Chunk | None:
        """At most so many records of the partition whose oldest came first, if any are held."""
        if not self._parts:
            return None
        partition = next(iter(self._parts))
        chunk = Chunk.join(self._parts[partition])
        self.drop(partition)
        if len(chunk) > limit:
            chunk, rest = chunk.cut(limit)
            self.add(rest)
        return chunk

    def drop(self, partition: int) -> None:
        """Nothing of a partition is held any more."""
        for own in (self._parts, self._records, self._bytes):
            own.pop(partition, None)
