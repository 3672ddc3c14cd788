"""What a batch may do of which another reader of its source may not know: nothing, where the store stands otherwise.

A spout whose source is dealt out among processes may be told of its share too late. Its batches are fenced: one that
goes on counts for records of the store's own source alone, and one that begins anew does so from where its spout was
told that the store stands.
"""

from __future__ import annotations

from penstock.spout import Remembered, SourceMoved, SpoutBatch

__all__ = ["check_fence"]


def check_fence(batch: SpoutBatch, stands: Remembered | None) -> None:
    """SourceMoved where the store does not stand as the batch's spout was told."""
    assert batch.source is not None, "what others may read has a name"
    if batch.again:
        holds = stands == batch.stood
    else:
        holds = stands is not None and stands.note == batch.note
    if not holds:
        raise SourceMoved(batch.source, batch.start, 0 if stands is None else stands.offset)
