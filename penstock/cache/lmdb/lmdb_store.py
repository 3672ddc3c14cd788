"""The store on disk: LMDB, every commit synced, one environment a process (`lmdb_environment`).

Invariants:

- nothing is written through the map: a full disk fails a transaction and never kills the process;
- a commit that returned is on the disk, its meta page too, unless `metasync=False` was asked for, or `sync=False`.
"""

from __future__ import annotations

import os

from penstock.cache.errors import ReadOnly
from penstock.cache.lmdb.address_space import LARGEST
from penstock.cache.lmdb.data_file import make_file
from penstock.cache.lmdb.lmdb_environment import Opening, acquire
from penstock.cache.lmdb.lmdb_errors import translated
from penstock.cache.lmdb.lmdb_snapshot import LmdbReader
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.cache.lmdb.memory_return import drop_mapped, trim_heap
from penstock.cache.permissions import PRIVATE
from penstock.cache.store.protocol import Info

__all__ = ["LmdbStore", "open_lmdb"]


def open_lmdb(
    path: str | os.PathLike[str],
    readonly: bool = False,
    map_size: int = LARGEST,
    metasync: bool = True,
    patience: float = 30.0,
    sync: bool = True,
    mode: int = PRIVATE,
) -> LmdbStore:
    """The store at a path, made if need be; only the holder of `Owner(path)` opens one to write.

    `metasync=False` saves the second flush of a commit, and with it a power loss can take back the last commit.
    `sync=False` flushes nothing: for a store that nobody needs after a crash.
    A folder that is made here has these permissions, and its files have those of `mode & 0o666`.
    A `map_size` below 1 TiB grows when it is full, after waiting up to `patience` seconds for open snapshots.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     store = open_lmdb(path)
    ...     with store.write() as txn:
    ...         txn.put_many("rows", [(b"Joe", b"1")])
    ...     with store.read() as snap:
    ...         snap.get_many("rows", [b"Joe", b"Sue"])
    ...     store.close()
    [b'1', None]
    """
    if not readonly:
        try:
            make_file(os.fspath(path), sync, mode)
        except OSError as error:
            raise translated(os.fspath(path), error) from error
    return LmdbStore(acquire(os.fspath(path), readonly, map_size, metasync, patience, sync))


class LmdbStore:
    """One opening of an environment."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._env = opening.env

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return self._env.path

    def read(self) -> LmdbReader:
        """A snapshot of what is committed."""
        self._opening.check()
        return LmdbReader(self._opening)

    def write(self) -> LmdbWriter:
        """A transaction; waits for the one another thread has."""
        self._opening.check()
        if self._opening.readonly:
            raise ReadOnly(self._env.path)
        return LmdbWriter(self._opening)

    def info(self) -> Info:
        """Sizes and places, for people."""
        self._opening.check_process()
        with self._env.still(self._opening) as env:
            about = env.info()
            size = (about["last_pgno"] + 1) * env.stat()["psize"]
        with self.read() as reader:
            used = reader.used()
        return {
            "path": self._env.path,
            "bytes": size,
            "used": min(used, size),
            "map_size": about["map_size"],
            "readers": about["num_readers"],
        }

    def trim(self) -> None:
        """Give back memory that only makes later reads faster: pages of the map, and the heap's free ones."""
        self._opening.check_process()
        with self._env.still(self._opening):
            drop_mapped(os.path.join(self._env.path, "data.mdb"))
        trim_heap()

    def close(self) -> None:
        """End it: a read on its way ends first. The last one in the process closes the environment, a child none."""
        self._opening.close()
