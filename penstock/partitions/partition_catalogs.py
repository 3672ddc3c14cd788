"""Catalogs of all partitions of a store, read before any of them is opened, and compared with each other.

Invariant: no partition is opened from an older copy of its file if that copy contradicts the productions of other
partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from penstock.cache import Store, StoreMissing, naming, open_lmdb
from penstock.core import Catalog, ForeignPartition, database_labels, must_be_partition, read_state
from penstock.mapreduce import KeyRanges
from penstock.recovery import Sent, oldest_owed

__all__ = ["catalogs_of"]


def catalogs_of(folders: Sequence[str], ranges: KeyRanges) -> list[Catalog | None]:
    """Return the catalog of each partition.

    Raise ForeignPartition if one is missing and another has data, or if one is older than the others.
    """
    with ExitStack() as stack, naming(lambda: database_labels(None)):
        stores = [_opened(folder, stack) for folder in folders]
        catalogs: list[Catalog | None] = []
        written = False
        for number, (folder, store) in enumerate(zip(folders, stores, strict=True)):
            if store is None:
                catalogs.append(None)
                continue
            with store.read() as reader:
                catalogs.append(must_be_partition(reader, folder, ranges, number))
                written = written or read_state(reader).position > 0
        if written and None in catalogs:
            raise ForeignPartition(folders[catalogs.index(None)], "its data.mdb is missing or empty")
        if written:
            _must_fit(folders, [store for store in stores if store is not None])
    return catalogs


def _opened(folder: str, stack: ExitStack) -> Store | None:
    try:
        store = open_lmdb(folder, readonly=True)
    except StoreMissing:
        return None
    stack.callback(store.close)
    return store


def _must_fit(folders: Sequence[str], stores: Sequence[Store]) -> None:
    """Raise ForeignPartition if the productions of two partitions contradict each other: one file is an older copy.

    For each direction, acknowledged ≤ applied ≤ saved. Each number only grows, and the smaller ones are read first. So
    this also holds for partitions that are being written.
    """
    acknowledged, applied, saved = map(list[Sent], ([], [], []))
    for number, store in enumerate(stores):
        with store.read() as reader:
            oldest = oldest_owed(reader, [other for other in range(len(stores)) if other != number])
            acknowledged.append({**read_state(reader).sent, **oldest})
    for store in stores:
        with store.read() as reader:
            applied.append({of: number for of, (_, number) in read_state(reader).taken.items()})
    for store in stores:
        with store.read() as reader:
            saved.append(read_state(reader).sent)
    for of, known in enumerate(acknowledged):
        for to, number in known.items():
            received, given = applied[to].get(of, 0), saved[of].get(to, 0)
            if received < number:
                raise ForeignPartition(
                    folders[to],
                    f"its data.mdb is an older copy: it has applied {received} productions of partition {of}, which "
                    f"knows that {number} were applied",
                )
            if received > given:
                raise ForeignPartition(
                    folders[of],
                    f"its data.mdb is an older copy: it has saved {given} productions for partition {to}, which has "
                    f"applied {received}",
                )
