"""Which partition of which store a file is: its catalog says so, and each opening compares that with the layout.

Invariants:

- no partition is opened, copied or moved from the file of another store, or of another partition. A catalog of an
  earlier version has no identity. Its seed and its state are compared, and the next writer adds the identity;
- no partition is opened from an older copy of its file if that copy contradicts the productions of other partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from penstock.cache import PenstockError, Reader, Store, StoreMissing, naming, open_lmdb
from penstock.core.catalog import Catalog, Identity, read_catalog, read_state
from penstock.core.damage_names import places_of
from penstock.mapreduce import Ranges
from penstock.recovery import Sent, oldest_owed

__all__ = ["ForeignPartition", "catalogs_of", "identity_of", "must_be_alone", "must_be_partition"]

_HASHES = 1 << 64


class ForeignPartition(PenstockError):
    """The folder of a partition has the file of another store or of another partition, or none.

    >>> print(ForeignPartition("0-1", "its data.mdb is of another store"))
    0-1: its data.mdb is of another store; put the file of this partition back, or restore a copy of the whole store
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; put the file of this partition back, or restore a copy of the whole store"


def identity_of(ranges: Ranges, number: int) -> Identity:
    """Return the identity of a partition: its number and its range."""
    ends = (*ranges.starts[1:], _HASHES)
    return Identity(number, ranges.starts[number], ends[number] - 1)


def must_be_partition(reader: Reader, path: str, ranges: Ranges, number: int) -> Catalog | None:
    """Return the catalog of a partition, None if it is empty. ForeignPartition is raised for another file."""
    catalog = read_catalog(reader, path)
    if catalog is None:
        return None
    if catalog.seed != ranges.seed:
        raise ForeignPartition(path, "its data.mdb is of another store")
    found, wanted = catalog.partition, identity_of(ranges, number)
    if found is None:
        state = read_state(reader)
        if number in state.sent or number in state.taken:  # a partition owes itself nothing
            raise ForeignPartition(path, f"its data.mdb is of another partition than {number}")
    elif found.number != number:
        raise ForeignPartition(path, f"its data.mdb is of partition {found.number}, and this is partition {number}")
    elif found != wanted:
        raise ForeignPartition(path, f"its data.mdb is of partition {number} of this store before a repartition")
    return catalog


def must_be_alone(catalog: Catalog, path: str) -> None:
    """Raise an error if the store at a path is one partition of several."""
    if catalog.partition is not None:
        raise PenstockError(
            f"{path} is partition {catalog.partition.number} of a store of several partitions; open the folder of the "
            "whole store, which is usually the one around it"
        )


def catalogs_of(folders: Sequence[str], ranges: Ranges) -> list[Catalog | None]:
    """Return the catalog of each partition.

    ForeignPartition is raised if one is missing and another has data, and if one is older than the others.
    """
    with ExitStack() as stack, naming(lambda: places_of(None)):
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

    For each direction, acknowledged ≤ applied ≤ saved. Each number only grows, and the smaller ones are read first, so
    that this holds for partitions that are written meanwhile too.
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
            there, given = applied[to].get(of, 0), saved[of].get(to, 0)
            if there < number:
                raise ForeignPartition(
                    folders[to],
                    f"its data.mdb is an older copy: it has applied {there} productions of partition {of}, which knows "
                    f"that {number} were applied",
                )
            if there > given:
                raise ForeignPartition(
                    folders[of],
                    f"its data.mdb is an older copy: it has saved {given} productions for partition {to}, which has "
                    f"applied {there}",
                )
