"""Refuse a batch if its reader had an outdated offset of the source partition.

Processes may share the source partitions of a spout, and one may learn of its share too late. So its batches are
fenced. A batch that continues must have the spout state that the store has for this source partition. A batch that
begins again must start from the offset that the store still has.
"""

from __future__ import annotations

from penstock.spout import Remembered, SourceMoved, SpoutBatch

__all__ = ["check_fence"]


def check_fence(batch: SpoutBatch, stands: Remembered | None) -> None:
    """Raise SourceMoved if the store's offset or spout state differs from the one that the spout was given."""
    assert batch.source is not None, "what others may read has a name"
    if batch.again:
        holds = stands == batch.stood
    else:
        holds = stands is not None and stands.note == batch.note
    if not holds:
        raise SourceMoved(batch.source, batch.start, 0 if stands is None else stands.offset)
