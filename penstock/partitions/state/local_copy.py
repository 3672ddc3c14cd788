"""The local copy of a partition: a folder on a state process's disk, brought to any state version from the state.

The copy is a cache, and is written without syncs. Invariants:

- the copy names its own state version in a row of `meta`, which changes in the same transaction as the rows. A second
  file would differ from them after a kill between both;
- a copy of another state or partition, of an unknown state version, or with damage is deleted and made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from crc32c import crc32c

from penstock.cache import (
    DATA,
    META,
    ChangelogHead,
    LmdbStore,
    PenstockError,
    Reader,
    RowChanges,
    Store,
    apply_changes,
    copy_snapshot,
    encode_changelog,
    open_lmdb,
    pack,
    read_changelog,
    seal,
    unpack,
    unseal,
)
from penstock.partitions.state.state_files import StateFiles
from penstock.partitions.state.turns import ChainLink, SnapshotFile, StateVersion, changelog_name, snapshot_name

__all__ = ["LocalCopy", "SnapshotDamaged"]

_VERSION = b"state version"


class SnapshotDamaged(PenstockError):
    """A snapshot file has other bytes than its manifest says.

    >>> print(SnapshotDamaged("snapshot/0/000000000040-ab", "it has 7 bytes and had 4096"))
    snapshot file snapshot/0/000000000040-ab: it has 7 bytes and had 4096; put that file back from a copy of the state
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"snapshot file {self.name}: {self.reason}; put that file back from a copy of the state"


class LocalCopy:
    """The folder of a partition of a state. The caller holds its writer lock."""

    def __init__(self, folder: str, state: str, partition: int, files: StateFiles) -> None:
        self.folder = folder
        self.state = state
        self.partition = partition
        self.files = files

    def open(self, base: StateVersion) -> LmdbStore:
        """Open the store of the copy at a state version.

        A copy of an earlier state version of the same chain gets the changelogs after it. Any other is made again.
        """
        store = self._known(base)
        if store is None:
            self._delete()
            if base.snapshot is not None:
                self._fetch(base.snapshot)
            store = open_lmdb(self.folder, sync=False)
        try:
            ids, own = base.ids, self.version(store) or ""
            for parent, link in zip(ids[ids.index(own) :], base.chain[ids.index(own) :], strict=False):
                self._apply(store, parent, link)
        except BaseException:
            store.close()
            raise
        return store

    def _known(self, base: StateVersion) -> LmdbStore | None:
        """Open the copy that is there, if its state version is of this chain."""
        if not os.path.exists(os.path.join(self.folder, DATA)):
            return None
        try:
            store = open_lmdb(self.folder, sync=False)
        except PenstockError:
            return None
        try:
            if self.version(store) in base.ids:
                return store
        except PenstockError:
            pass
        store.close()
        return None

    def version(self, store: Store) -> str | None:
        """Return the id of an open copy's state version: "" for an empty store, None for one of another place."""
        with store.read() as snap:
            link = self._link(snap)
        return None if link is None else link.id

    def _link(self, snap: Reader) -> ChainLink | None:
        """Return the changelog that a snapshot of the copy stands at, as `version` does."""
        row = snap.get_many(META, [_VERSION])[0]
        if row is None:
            return None if snap.count(META) else ChainLink(-1, "")
        state, partition, batch, own = unpack(unseal(_VERSION, row, META))
        return ChainLink(batch, own) if (state, partition) == (self.state, self.partition) else None

    def mark(self, link: ChainLink) -> tuple[bytes, bytes]:
        """Return the row of `meta` that names the state version after a changelog."""
        return _VERSION, seal(_VERSION, pack([self.state, self.partition, link.batch, link.id]))

    def _delete(self) -> None:
        for name in (DATA, "lock.mdb"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, name))

    def _fetch(self, snapshot: SnapshotFile) -> None:
        """Write a snapshot file as the data file of the copy, under another name first."""
        partial = os.path.join(self.folder, f"{DATA}.partial")
        with open(partial, "wb") as file:
            self._must_be_whole(snapshot, file.write)
        os.rename(partial, os.path.join(self.folder, DATA))

    def _must_be_whole(self, snapshot: SnapshotFile, take: Callable[[bytes], object]) -> None:
        """Read a snapshot file to its end, and compare its size and its checksum."""
        name = snapshot_name(self.partition, snapshot)
        size = crc = 0
        for block in self.files.read(name):
            take(block)
            size += len(block)
            crc = crc32c(block, crc)
        if size != snapshot.bytes:
            raise SnapshotDamaged(name, f"it has {size} bytes and had {snapshot.bytes}")
        if crc != snapshot.crc:
            raise SnapshotDamaged(name, "its checksum differs")

    def _apply(self, store: LmdbStore, parent: str, link: ChainLink) -> None:
        name = changelog_name(self.partition, link)
        head = ChangelogHead(self.state, self.partition, link.batch, parent, link.id)
        changes = read_changelog(name, b"".join(self.files.read(name)), head)
        with store.write() as writer:
            apply_changes(writer, changes)
            writer.put_many(META, [self.mark(link)])

    def write_changelog(self, parent: str, link: ChainLink, changes: list[RowChanges]) -> None:
        """Write the changelog of a turn into the state. It is durable afterwards."""
        head = ChangelogHead(self.state, self.partition, link.batch, parent, link.id)
        self.files.write(changelog_name(self.partition, link), encode_changelog(head, changes))

    def write_snapshot(self, store: LmdbStore) -> SnapshotFile:
        """Write the committed rows of the copy into the state, as the snapshot file of its state version.

        The file is checked, written and read back. Others may write to the copy meanwhile.
        """
        folder = os.path.join(self.folder, "snapshot")
        path, crc = os.path.join(folder, DATA), 0
        _delete_copy(folder)  # of a process that was killed
        with store.read() as snap:
            link = self._link(snap)
            assert link is not None, "the copy was opened as one of this partition"
            assert link.id, "a snapshot file is written after the first changelog"
            size = copy_snapshot(snap, folder, _tell_nothing)
        try:
            for block in _blocks(path):
                crc = crc32c(block, crc)
            snapshot = SnapshotFile(link.batch, link.id, size, crc)
            self.files.write(snapshot_name(self.partition, snapshot), _blocks(path))
        finally:
            _delete_copy(folder)
        self._must_be_whole(snapshot, len)
        return snapshot


def _delete_copy(folder: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, DATA))
    with suppress(FileNotFoundError):
        os.rmdir(folder)


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while block := file.read(1 << 20):
            yield block


def _tell_nothing(step: str, done: int, total: int) -> None:
    """Report no progress."""
