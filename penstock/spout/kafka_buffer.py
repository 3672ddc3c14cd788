"""Hold records that were fetched from a topic, until they are returned. The partition with the oldest records is first.

A batch is of one partition, and large batches cost less per record. So fetching continues until one partition has a
full batch, as long as there are records. Invariant: the records of a partition are returned in order and without a gap.
"""

from __future__ import annotations

from penstock.kafka import Chunk

_MOST = 4  # batches of all partitions together
_BYTES = 8 << 20  # approximate bytes of a batch


class KafkaBuffer:
    """Fetched chunks by partition."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Chunk]] = {}
        self._records: dict[int, int] = {}
        self._bytes: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, chunk: Chunk) -> None:
        """Append a chunk to its partition."""
        partition = chunk.partition
        self._parts.setdefault(partition, []).append(chunk)
        self._records[partition] = self._records.get(partition, 0) + len(chunk)
        self._bytes[partition] = self._bytes.get(partition, 0) + chunk.size

    def room(self, limit: int) -> int:
        """Return how many records may still be fetched before a batch of `limit` is full. 0 if one is ready."""
        if not self._parts:
            return limit
        if max(self._bytes.values()) >= _BYTES or sum(self._bytes.values()) >= _MOST * _BYTES:
            return 0
        return max(0, min(limit - max(self._records.values()), _MOST * limit - sum(self._records.values())))

    def take(self, limit: int) -> Chunk | None:
        """Return at most `limit` records of the partition with the oldest records, or None."""
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
        """Drop all records of a partition."""
        for own in (self._parts, self._records, self._bytes):
            own.pop(partition, None)
