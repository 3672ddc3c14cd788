"""A store for a while, in a folder within another store's: what is built beside a large view lies there.

Nothing of it is synced: nobody needs it after a crash. Invariant: the folder goes with the block, and one of a process
that was killed goes with the next block. A folder of that name without a mark is a user's, and stays.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cache import Store, make_folder, open_lmdb, sweep_folder

__all__ = ["folder_store", "scratch_folder"]

_NAMED = "repair-"


@contextmanager
def scratch_folder(path: str) -> Iterator[str]:
    """An empty folder within this one, whose repairs go one at a time."""
    for name in os.listdir(path):
        if name.startswith(_NAMED):
            sweep_folder(os.path.join(path, name))
    folder = os.path.join(path, _NAMED + secrets.token_hex(4))
    make_folder(folder)
    try:
        yield folder
    finally:
        sweep_folder(folder)


@contextmanager
def folder_store(path: str) -> Iterator[Store]:
    """An empty store within this folder."""
    with scratch_folder(path) as folder:
        store = open_lmdb(folder, sync=False)
        try:
            yield store
        finally:
            store.close()
