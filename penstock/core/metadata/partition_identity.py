"""The identity of a partition's file: its catalog has it, and each opening compares it with the layout.

Invariant: no partition is opened, copied or moved from the file of another store, or of another partition. A catalog of
an earlier version has no identity. Its seed and its state are compared, and the next writer adds the identity.
"""

from __future__ import annotations

from penstock.cache import PenstockError, Reader
from penstock.core.metadata.catalog import Catalog, PartitionIdentity, read_catalog
from penstock.core.metadata.store_state import read_state
from penstock.mapreduce import KeyRanges

__all__ = ["ForeignPartition", "identity_of", "must_be_alone", "must_be_partition"]

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


def identity_of(ranges: KeyRanges, number: int) -> PartitionIdentity:
    """Return the identity of a partition: its number and its range."""
    ends = (*ranges.starts[1:], _HASHES)
    return PartitionIdentity(number, ranges.starts[number], ends[number] - 1)


def must_be_partition(reader: Reader, path: str, ranges: KeyRanges, number: int) -> Catalog | None:
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
