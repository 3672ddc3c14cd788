"""Share one LMDB environment per path and process. LMDB breaks if a process opens the same file twice.

Invariants:

- an environment belongs to the process that opened it. A forked child never uses it, and never closes it while
  transactions are open in it, since that would free the parent's snapshot;
- handles of databases are opened with the environment, in the transaction that creates the database, or before the
  first transaction that sees it (`lmdb_databases`). Meanwhile no other thread writes. Databases are deleted only when
  the environment is opened;
- the map changes only while no transaction of this process is open: new snapshots wait, and open ones are awaited;
- the environment closes after its last transaction: a read in another thread ends before its pages are unmapped.

Only the holder of a `writer_lock.WriterLock` opens an environment to write. It may stay open afterwards for readers
here.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Protocol
from weakref import WeakSet

import lmdb

from penstock.cache.errors import Closed, ForkedStore, PenstockError, StoreFull
from penstock.cache.lmdb.address_space import LARGEST, fitting, room
from penstock.cache.lmdb.data_file import open_file
from penstock.cache.lmdb.lmdb_databases import After, Handles, databases_of
from penstock.cache.lmdb.lmdb_errors import translated

__all__ = ["Environment", "Opening", "ReadTransaction", "acquire", "is_open"]

_CHECK_EVERY = 1000
_log = logging.getLogger("penstock.cache")


class Environment:
    """The environment of one path, with a count of its users."""

    def __init__(
        self, path: str, readonly: bool, map_size: int, metasync: bool, patience: float, sync: bool = True
    ) -> None:
        self.path = path
        self.pid = os.getpid()
        self.readonly = readonly
        self.map_size = fitting(map_size, len(_registry))
        self.users = 0
        self._write_lock = threading.Lock()
        self.writing = 0
        self._metasync = metasync
        self._sync = sync
        self._patience = patience
        self._writes = 0
        self._turn = threading.Condition()
        self.held = False  # a change of the map waits for the end of all snapshots
        self._open: dict[int, int] = {}
        self.env = self._start()

    def _start(self) -> lmdb.Environment:
        """Open the environment, clear its dead readers, and read its databases."""
        env, self._file = open_file(self.path, self.map_size, self.readonly, self._metasync, self._sync)
        try:
            self.databases = databases_of(env, self.path, not self.readonly)
        except BaseException:
            env.close()
            self._file.close()
            raise
        return env

    def shut(self) -> None:
        """Unmap and close the file. A second call does nothing."""
        self.env.close()
        self._file.close()

    def begin_read(self, opening: Opening, reader: OpenReader) -> tuple[ReadTransaction, Handles]:
        """Begin a read transaction, and return it with the handles of all its databases.

        When the opening is closed, it closes the reader too.
        """
        me = threading.get_ident()
        while True:
            with self._turn:
                while self.held and me not in self._open.values():
                    self._turn.wait()
                opening.check()
                self._file.check()
                opening.readers.add(reader)
                txn = self._begin()
                missing = self.databases.missing(txn, txn.id())
                if not missing:
                    read = ReadTransaction(self, txn)
                    self._open[id(txn)] = me
                    return read, self.databases.handles
                txn.abort()
            self._open_handles(opening, missing)

    def end_read(self, txn: lmdb.Transaction[memoryview]) -> None:
        """End a read transaction."""
        txn.abort()
        with self._turn:
            self._open.pop(id(txn), None)
            self._turn.notify_all()
        self._close_if_unused()

    def _begin(self, write: bool = False) -> lmdb.Transaction[memoryview]:
        while True:
            try:
                return self.env.begin(write=write, buffers=True)
            except lmdb.MapResizedError:
                self._follow()

    def _open_handles(self, opening: Opening, names: list[bytes]) -> None:
        """Open handles after other threads have finished writing.

        One of them may have created these databases just now.
        """
        mine = self.writing == threading.get_ident()
        with nullcontext() if mine else self._write_lock, self._turn:
            opening.check()
            self.databases.open(self.env, names)

    def enter_write(self, opening: Opening) -> None:
        """Make the calling thread the writer until `leave_write`. The environment stays open until then."""
        me = threading.get_ident()
        self._write_lock.acquire()
        try:
            with self._turn:
                opening.check()
                self.writing = me
        except BaseException:
            self._write_lock.release()
            raise

    def leave_write(self) -> None:
        """End the turn of the writing thread."""
        self.writing = 0
        self._write_lock.release()
        self._close_if_unused()

    def begin_write(self) -> lmdb.Transaction[memoryview]:
        """Begin a transaction after `enter_write`, with the handles and digests that precede it."""
        self._file.check()
        self._writes += 1
        if self._writes % _CHECK_EVERY == 0:
            self.env.reader_check()
        while True:
            txn = self._begin(write=True)
            before = txn.id() - 1
            if self.databases.current(before):
                return txn
            try:
                with self._turn:
                    missing = self.databases.missing(txn, before)
                if not missing:
                    self.databases.read_digests(txn, before)
                    return txn
            except BaseException:
                txn.abort()
                raise
            txn.abort()
            with self._turn:
                self.databases.open(self.env, missing)

    def commit(self, txn: lmdb.Transaction[memoryview], made: Handles, digests: After | None) -> None:
        """Commit, and register the databases that the transaction created before any snapshot can see them.

        A transaction without digests may have changed nothing. Then the next transaction gets the same number.
        """
        number = txn.id()
        with self._turn if made else nullcontext():
            txn.commit()
            self.databases.made(made)
            if digests is not None:
                self.databases.changed(number, digests)
        self._file.check_commit()

    def grow(self) -> None:
        """Double the map between transactions."""
        size = min(self.map_size * 2, LARGEST)
        limit = f"its map of {self.map_size} bytes is full"
        if size == self.map_size or not room(size - self.map_size):
            raise StoreFull(self.path, f"{limit} and this process may not map more (ulimit -v)")
        with self._alone(lambda reason: StoreFull(self.path, f"{limit} and can't grow: {reason}")):
            self._remap(size)
        _log.warning("%s: %s; it has %d now. A map of %d never grows: ulimit -v", self.path, limit, size, LARGEST)

    def _follow(self) -> None:
        """Enlarge the map to the size that another process has written."""
        size = self.map_size
        while size <= os.path.getsize(os.path.join(self.path, "data.mdb")):
            size *= 2
        with self._alone(lambda reason: PenstockError(f"the store at {self.path} has outgrown this map: {reason}")):
            self._remap(max(size, self.map_size * 2))

    def _remap(self, size: int) -> None:
        try:
            self.env.set_mapsize(size)
        except lmdb.Error as error:
            raise translated(self.path, error) from error
        self.map_size = size

    def to_write(self, map_size: int, metasync: bool) -> None:
        """Reopen an environment for writing that was open for reading."""
        former = self.map_size
        self._metasync = metasync
        with self._alone(lambda reason: PenstockError(f"the store at {self.path} is being read here: {reason}")):
            self.shut()
            try:
                self.readonly = False
                self.map_size = max(former, fitting(map_size, len(_registry)))
                self.env = self._start()
            except BaseException:
                self.readonly, self.map_size = True, former
                try:
                    self.env = self._start()
                except BaseException:
                    del _registry[self.path]  # it stays closed, and the next opening creates another
                    raise
                raise

    @contextmanager
    def _alone(self, refusal: Callable[[str], PenstockError]) -> Iterator[None]:
        """Wait until no snapshot of this process is open, and block new ones for the duration of the block."""
        with self._turn:
            if threading.get_ident() in self._open.values():
                raise refusal("this thread has a snapshot open; close it first")
            self.held = True
            try:
                if not self._turn.wait_for(lambda: not self._open, self._patience):
                    raise refusal(f"{len(self._open)} snapshots stayed open for {self._patience} s; close them first")
                yield
            finally:
                self.held = False
                self._turn.notify_all()

    @contextmanager
    def still(self, opening: Opening) -> Iterator[lmdb.Environment]:
        """Yield the environment. Within the block it stays open and its map stays in place."""
        with self._turn:
            opening.check()
            self._file.check()
            yield self.env

    @property
    def idle(self) -> bool:
        """Return whether no transaction is open."""
        return not self._open and not self.writing

    def end(self, opening: Opening) -> None:
        """End an opening and its readers. A running call ends first, and the next call raises Closed."""
        self.databases.watches.clear()  # another process may write now
        with self._turn:
            opening.closed = True
            readers = list(opening.readers)
        for reader in readers:
            reader.close()
        with _registered():
            self.users -= 1
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        """Close the environment after its last opening and its last transaction.

        The garbage collector may end a snapshot anywhere, even in a thread that holds the lock of the registry. So this
        does not wait for that lock. A thread that releases the lock checks for unused environments again.
        """
        if self.users == 0 and self.idle:
            _unused.append(self)
            _close_unused()


class OpenReader(Protocol):
    """A reader that can be closed."""

    def close(self) -> None:
        """Close it."""
        ...


class ReadTransaction:
    """A read transaction of LMDB.

    It ends with the last reference to it, from its reader or from rows lent without a copy.
    """

    __slots__ = ("_env", "txn")

    def __init__(self, env: Environment, txn: lmdb.Transaction[memoryview]) -> None:
        self._env = env
        self.txn = txn

    def __del__(self) -> None:
        if self._env.pid == os.getpid():
            self._env.end_read(self.txn)


class Opening:
    """One use of an environment, until it is closed."""

    def __init__(self, env: Environment, readonly: bool) -> None:
        self.env = env
        self.readonly = readonly
        self.closed = False
        self.readers: WeakSet[OpenReader] = WeakSet()

    def check(self) -> None:
        """Raise ForkedStore in a forked child, and Closed after `close`."""
        self.check_process()
        if self.closed:
            raise Closed(f"the store at {self.env.path}")

    def check_process(self) -> None:
        """Raise ForkedStore in a forked child.

        This precedes all locks: a thread of the parent may hold them for ever.
        """
        if self.env.pid != os.getpid():
            raise ForkedStore(self.env.path, self.env.pid)

    def close(self) -> None:
        """Close it. The last opening of the process closes the environment. In a forked child nothing happens."""
        if not self.closed and self.env.pid == os.getpid():
            self.env.end(self)
        self.closed = True


_registry: dict[str, Environment] = {}
_registry_lock = threading.Lock()
_unused: list[Environment] = []


@contextmanager
def _registered() -> Iterator[dict[str, Environment]]:
    """Yield the environments of this process by path, under the lock of the registry."""
    try:
        with _registry_lock:
            yield _registry
    finally:
        _close_unused()


def _close_unused() -> None:
    """Close unused environments. If another thread has the registry's lock, that thread does it."""
    while _unused and _registry_lock.acquire(blocking=False):
        try:
            env = _unused.pop() if _unused else None
            if env is not None and env.users == 0 and env.idle:
                if _registry.get(env.path) is env:
                    del _registry[env.path]
                env.shut()
        finally:
            _registry_lock.release()


def acquire(path: str, readonly: bool, map_size: int, metasync: bool, patience: float, sync: bool = True) -> Opening:
    """Open the environment of a path, or share it if it is open already."""
    path = os.path.realpath(path)
    with _registered() as registry:
        shared = registry.get(path)
        if shared is not None and shared.pid != os.getpid():
            _forget(shared)
            shared = None
        if shared is None or (shared.users == 0 and shared._file.is_replaced()):  # lent rows keep it open
            shared = registry[path] = Environment(path, readonly, map_size, metasync, patience, sync)
        elif shared.readonly and not readonly:
            shared.to_write(map_size, metasync)
        shared.users += 1
        return Opening(shared, readonly)


def is_open(path: str) -> bool:
    """Return whether this process has the store at a path open."""
    with _registered() as registry:
        shared = registry.get(os.path.realpath(path))
        return shared is not None and shared.pid == os.getpid()


def _forget(inherited: Environment) -> None:
    """Remove an inherited environment, so that this process can open its own."""
    if not inherited.idle:
        raise PenstockError(
            f"the store at {inherited.path} had a snapshot or a transaction open in process {inherited.pid} when that "
            "forked this one; close them before forking, or start this process by spawn"
        )
    del _registry[inherited.path]
    inherited.shut()


def _after_fork() -> None:
    """Create a new lock in a forked child: a thread that held the old one does not exist in the child."""
    global _registry_lock
    _registry_lock = threading.Lock()
    _unused.clear()


os.register_at_fork(after_in_child=_after_fork)
