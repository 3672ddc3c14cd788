"""Copy a store of any number of partitions, so that the copies of the partitions fit together.

Any process can make a copy from its own read transactions, while others write. It begins one at each partition. It
begins them again until every production that its receiver has not applied is stored at the sender. Then the copy can
continue as the store would after a crash. Invariant: an unfinished copy has no name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack

from penstock.cache import (
    CopyFailed,
    Reader,
    Tell,
    built_beside,
    checked,
    copy_snapshot,
    open_lmdb,
)
from penstock.core import (
    Catalog,
    decides,
    former_catalog,
    is_built,
    is_ready,
    read_catalog,
    read_layout,
    read_state,
    write_layout,
)
from penstock.partitions.copies.store_copies import Copied, copy_of
from penstock.partitions.partition_catalogs import catalogs_of
from penstock.partitions.union.union_snapshot import unlike
from penstock.recovery import consistent

__all__ = ["copy_any"]

_TRIES = 5_000
_AGAIN = 0.001


@checked
def copy_any(path: str, target: str, tell: Tell | None = None) -> Copied:
    """Copy the store at a path into a new folder, and check the copy; other processes may write meanwhile."""
    layout = read_layout(path)
    if layout is None:
        return copy_of(path, target, tell)
    catalogs_of(layout.folders(path), layout.ranges())
    with built_beside(target) as folder, ExitStack() as stack:
        stores = [open_lmdb(own, readonly=True) for own in layout.folders(path)]
        for store in stores:
            stack.callback(store.close)
        for _ in range(_TRIES):
            with ExitStack() as begun:
                readers = [begun.enter_context(store.read()) for store in stores]
                states = [read_state(reader) for reader in readers]
                catalogs = [read_catalog(*own) for own in zip(readers, layout.folders(path), strict=True)]
                if _between_switches(readers, catalogs) or not consistent(readers, states):
                    time.sleep(_AGAIN)
                    continue
                into = [os.path.join(folder, partition.folder) for partition in layout.parts]
                size = sum(copy_snapshot(*own, tell or _nobody) for own in zip(readers, into, strict=True))
                write_layout(folder, layout)
                return Copied(target, size, layout.app, tuple(state.position for state in states))
        raise CopyFailed(target, "its partitions did not stand at one moment", "copy it again while less is written")


def _between_switches(readers: Sequence[Reader], catalogs: Sequence[Catalog | None]) -> bool:
    """Return True if these snapshots began during a switch that could not be finished when the copy is opened."""
    known = [catalog for catalog in catalogs if catalog is not None]
    if len(known) == len(catalogs) and unlike(known) is None:
        return False
    if unlike([former_catalog(catalog) for catalog in known]) is not None:
        return True
    first = next((catalog for catalog in known if catalog.unfinished is not None), None)
    if first is None:
        return True
    refilled = first.unfinished is not None and first.unfinished.state is not None
    return not all(
        catalog.unfinished is not None
        or (is_ready(catalog) and decides(first, catalog) if refilled else is_built(reader, catalog))
        for reader, catalog in zip(readers, known, strict=True)
    )


def _nobody(what: str, done: int, total: int) -> None:
    """Report no progress."""
