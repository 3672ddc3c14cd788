"""Temporary stores in a folder of another store, for the shadow of a large view.

They are not synced, because nothing needs them after a crash. Invariant: the folder is deleted at the end of the block.
The next block deletes the folder of a killed process. A folder with this prefix but without a mark belongs to a user,
and stays.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cache import Store, delete_marked_folder, make_folder, open_lmdb

__all__ = ["folder_store", "scratch_folder"]

_NAMED = "repair-"


@contextmanager
def scratch_folder(path: str) -> Iterator[str]:
    """Make an empty folder within this one; only one repair runs at a time."""
    for name in os.listdir(path):
        if name.startswith(_NAMED):
            delete_marked_folder(os.path.join(path, name))
    folder = os.path.join(path, _NAMED + secrets.token_hex(4))
    make_folder(folder)
    try:
        yield folder
    finally:
        delete_marked_folder(folder)


@contextmanager
def folder_store(path: str) -> Iterator[Store]:
    """Open an empty store within this folder."""
    with scratch_folder(path) as folder:
        store = open_lmdb(folder, sync=False)
        try:
            yield store
        finally:
            store.close()
