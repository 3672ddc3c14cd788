"""Remove the garbage of a state: files of failed attempts, and files before a snapshot file.

A file is removed only if at least two kept manifests are newer than its batch, and if it is older than an hour. So a
batch that is under way, or a reader of the last manifest, finds its files.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.partitions import changelog_name, snapshot_name
from penstock.spark.streaming.manifests import Manifest, SparkState

__all__ = ["remove_garbage"]

_YOUNG = 3600.0
_NEWER = 2  # kept manifests that are newer than a file that is removed


def remove_garbage(state: SparkState, young: float = _YOUNG) -> int:
    """Remove the garbage of a state. Return the number of files."""
    kept = [own for batch in state.batches() if (own := state.manifest(batch)) is not None]
    if len(kept) <= _NEWER:
        return 0
    named = {name for own in kept for name in _named(own)}
    before = kept[-_NEWER].batch
    gone = 0
    for partition in range(len(kept[-1].partitions)):
        for folder in (f"log/{partition}", f"snapshot/{partition}"):
            for file in state.files.names(folder):
                name = f"{folder}/{file}"
                if name not in named and int(file.partition("-")[0]) < before and state.files.age(name) > young:
                    state.files.delete(name)
                    gone += 1
    return gone


def _named(manifest: Manifest) -> Iterator[str]:
    """Yield the names of all files of a manifest."""
    for partition, own in enumerate(manifest.partitions):
        if own.version.snapshot is not None:
            yield snapshot_name(partition, own.version.snapshot)
        for link in own.version.chain:
            yield changelog_name(partition, link)
