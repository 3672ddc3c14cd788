"""The store on disk: LMDB with a sync after each commit, and one environment per process (`lmdb_environment`).

Invariants:

- no row is written through the map: a full disk fails a transaction and never kills the process;
- a commit that returned is on the disk with its meta page, unless the caller chose `metasync=False` or `sync=False`.
"""

from __future__ import annotations

import os

from penstock.cache.errors import ReadOnly
from penstock.cache.lmdb.address_space import LARGEST
from penstock.cache.lmdb.data_file import make_file
from penstock.cache.lmdb.lmdb_environment import Opening, acquire
from penstock.cache.lmdb.lmdb_errors import translated
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.cache.lmdb.memory_return import drop_mapped, trim_heap
from penstock.cache.lmdb.read_snapshot import LmdbReader
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
    """Open the store at a path, and create it for a writer. Only the holder of `WriterLock(path)` opens a store to
    write.

    `metasync=False` saves the second flush of a commit. A power loss can then take back the last commit.
    `sync=False` flushes nothing. It is for a store that is not needed after a crash.
    `mode` is the permissions of a new folder. Its files get `mode & 0o666`.
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
        """Return the folder of its files."""
        return self._env.path

    def read(self) -> LmdbReader:
        """Open a snapshot of the committed rows."""
        self._opening.check()
        return LmdbReader(self._opening)

    def write(self) -> LmdbWriter:
        """Begin a transaction. Wait for the transaction of another thread."""
        self._opening.check()
        if self._opening.readonly:
            raise ReadOnly(self._env.path)
        return LmdbWriter(self._opening)

    def info(self) -> Info:
        """Return sizes and the path for status reports."""
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

    def snapshots(self) -> list[tuple[int, str, int]]:
        """Return process, thread and transaction of each open snapshot, of all processes."""
        self._opening.check_process()
        with self._env.still(self._opening) as env:
            lines = env.readers().splitlines()[1:]  # the first line names the columns
        found = (line.split() for line in lines)
        return [(int(own[0]), own[1], int(own[2])) for own in found if len(own) == 3 and own[2].isdecimal()]

    def trim(self) -> None:
        """Release memory that only serves to speed up later reads: pages of the map, and free memory of the heap."""
        self._opening.check_process()
        with self._env.still(self._opening):
            drop_mapped(os.path.join(self._env.path, "data.mdb"))
        trim_heap()

    def close(self) -> None:
        """Close it after running reads.

        The last opening in the process closes the environment. A forked child closes none.
        """
        self._opening.close()
