"""The supervisor of a partition's own process: it starts a replacement when the process ends or stops answering.

Before that it kills the old process and waits for its end. So a partition never has two writers. The replacement starts
a new epoch. Invariant: a call returns after its commit, or raises an error. An interrupted call is repeated with the
replacement, where a batch already stored changes nothing.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from penstock.cache import Closed, PenstockError, StoreInUse, WriterLock, unpack, writer_pid
from penstock.core import Resume
from penstock.generations import BuildProgress, Switch
from penstock.partitions import partition_operations as operations
from penstock.partitions.member import Marks, MemberStatus, Tables
from penstock.partitions.start_message import StartMessage, write_message
from penstock.remote import COMPACT, HolderLost, HolderSilent, Operation, RemoteWriter, WireClosed, error_of
from penstock.views import Counts

A = TypeVar("A")
_TRIES = 5  # processes in a row that end during the same call before it fails
_LEAVING = 2.0  # seconds in which an orphan ends by itself
_AGAIN = 0.02
_STARTING = 60.0  # seconds until a started process sends its first message
_PIECE = 1 << 20  # bytes per read
_HEAD = 4  # bytes of the length before each message
_log = logging.getLogger("penstock.engine")


class PartitionProcess:
    """The handle of a partition that has a process of its own."""

    def __init__(self, message: StartMessage, program: str) -> None:
        self.partition = message.partition
        self.folder = message.folders[message.partition]
        self._message = message
        self._program = program  # the module whose `main` runs the partition
        self._turn = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._client: RemoteWriter | None = None
        self.closed = False
        self.begun = 0  # how many processes it has had
        _begun.add(self)

    @property
    def name(self) -> str:
        """The name of the partition in messages."""
        return f"partition {self.partition}"

    @property
    def pid(self) -> int | None:
        """The id of its process; None if there is none."""
        return None if self._process is None else self._process.pid

    # -- its process

    def begin(self) -> None:
        """Start its process; `ready` waits for it."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; from {self._program} import main; sys.exit(main())"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the process that opened the store, which then ends this one
        )
        self.begun += 1
        assert self._process.stdin is not None, "it was asked for"
        with suppress(BrokenPipeError):  # `ready` reads the reason
            write_message(self._process.stdin, self._message)

    def ready(self) -> None:
        """Wait until its store is open; raise the error that prevents this.

        The process may be killed, or hang, before that. Or an orphan process that started late holds the store. Both
        are ended then, and another process is started.
        """
        for _ in range(_TRIES - 1):
            try:
                self._await()
                return
            except (StoreInUse, HolderSilent, HolderLost):
                self._end(0)
                evict(self.folder, self._message.settings.mode)
                self.begin()
        self._await()

    def _await(self) -> None:
        process = self._process
        assert process is not None, "it was begun"
        assert process.stdout is not None, "it was asked for"
        said = _read_message(process.stdout.fileno(), _STARTING)
        while said is not None and "beat" in said:
            said = _read_message(process.stdout.fileno(), self._message.patience)
        if said is None:
            self._end(0)
            raise HolderSilent(self.folder, f"process {process.pid}, {self.name}", self._message.patience)
        if "failed" in said:
            self._end(0)
            raise error_of(said["failed"], self.name)
        if "ready" not in said:
            if process.wait() < 0:
                raise self._lost
            self._end(0)
            raise PenstockError(f"the process of {self.name} ended before its store was open; its output may say why")
        try:
            self._client = self._reached(process)
        except WireClosed:
            raise self._lost from None

    @property
    def _lost(self) -> HolderLost:
        return HolderLost(self.folder, self.name, "it has ended")

    def _reached(self, process: subprocess.Popen[bytes]) -> RemoteWriter:
        return RemoteWriter.reach(self.folder, f"process {process.pid}, {self.name}", self._message.patience)

    def look(self) -> None:
        """Check that the process works, and replace it if not. Skip this during a call, which checks it too."""
        if not self._turn.acquire(blocking=False):
            return  # the call may wait for another partition, which must be checked too
        try:
            self._look()
        finally:
            self._turn.release()

    def _look(self) -> None:
        if self.closed:
            return
        try:
            if self._process is not None and self._process.poll() is None:
                self._ask(operations.ALIVE)
                return
        except (HolderLost, HolderSilent):
            pass
        try:
            self.follow()
        except PenstockError as error:
            _log.error("%s can't be opened: %s", self.name, error)

    def follow(self) -> None:
        """Kill the process, wait for its end, and start the next one."""
        with self._turn:
            process = self._process
            _log.warning(
                "%s: process %s %s; another one takes its place",
                self.name,
                None if process is None else process.pid,
                "is silent" if process is not None and process.poll() is None else "has ended",
            )
            self._end(0)
            self.begin()
            self.ready()

    def _end(self, patience: float) -> None:
        """End its process: close its input, and kill it if it still runs after `patience` seconds."""
        if self._client is not None:
            self._client.close()
            self._client = None
        process, self._process = self._process, None
        if process is None:
            return
        if not patience:
            process.kill()
        assert process.stdin is not None, "it was asked for"
        assert process.stdout is not None, "it was asked for"
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(patience or None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    # -- its work

    def take(
        self,
        tables: Tables,
        sources: Mapping[str, Resume],
        number: int,
        kinds: Mapping[str, str],
        strict: bool = False,
        others: Mapping[int, Tables] | None = None,
    ) -> list[Counts]:
        """Commit records of this partition and the offsets after them, in one transaction and once per batch number."""
        given = {"sources": sources, "number": number, "kinds": kinds, "strict": strict, "others": others or {}}
        return self._done(operations.OWN, tables=tables, **given)

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> list[Counts]:
        """Return the counts that each batch would have, without storing its records."""
        return self._done(operations.TRIED, tables=tables, kinds=kinds)

    def standing(self) -> MemberStatus:
        """Delete acknowledged productions, and return the status of the partition."""
        return self._done(operations.STANDING)

    def marks(self) -> Marks:
        """Return the current numbers of productions."""
        return self._done(operations.MARKS)

    def spout_state(self, source: str) -> bytes:
        """Return the spout state of a source, as its last batch left it."""
        return self._done(operations.SPOUT_STATE, source=source)

    def compact(self) -> dict[str, Any]:
        """Reclaim the space of old versions."""
        return self._done(COMPACT).data()

    def repair(self, do: str, *what: Any) -> Any:
        """Perform a step of a repair, in plain data."""
        return self._done(operations.REPAIR, step=do, arguments=what)

    def build_step(self, limit: int | None, switch: Switch | None = None, of: str = "") -> BuildProgress:
        """Build about `limit` documents, or take a step of a switch; with neither, only return the progress."""
        return self._done(operations.BUILD_STEP, limit=limit, switch=switch, of=of)

    def close(self) -> None:
        """End the process. A second call does nothing."""
        with self._turn:
            self.closed = True
            self._end(30.0)

    def _done(self, operation: Operation[A], **arguments: Any) -> A:
        """Perform an operation; if the process ends meanwhile, repeat it with the next one."""
        with self._turn:
            for again in range(_TRIES):
                try:
                    return self._ask(operation, **arguments)
                except (HolderLost, HolderSilent):
                    if again == _TRIES - 1:
                        raise
                    self.follow()
        raise AssertionError("it returns or raises")

    def _ask(self, operation: Operation[A], **arguments: Any) -> A:
        process = self._process
        try:
            if self._client is None or process is None:
                raise WireClosed
            try:
                return self._client.call(operation, **arguments)
            except Closed:  # by an interrupt here, in the middle of an answer
                self._client = self._reached(process)
                return self._client.call(operation, **arguments)
        except (WireClosed, Closed):
            raise self._lost from None

    def disown(self) -> None:
        """Close the pipes in a forked child, so that the input ends as soon as the parent closes it."""
        self.closed = True
        process, self._process, self._client = self._process, None, None
        if process is not None:
            process.returncode = 0  # it is no child of this process: nothing is to be awaited
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _read_message(file: int, patience: float) -> dict[str, Any] | None:
    """Return the next message on a pipe; empty at its end, and None after `patience` seconds without data."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    data = bytearray()
    size = _HEAD
    while len(data) < size:
        if not waiting.poll(1000 * patience):
            return None
        more = os.read(file, min(size - len(data), _PIECE))
        if not more:
            return {}
        data += more
        if len(data) == _HEAD:
            size += int.from_bytes(data, "big")
    said: dict[str, Any] = unpack(bytes(data[_HEAD:]))
    return said


def evict(folder: str, mode: int) -> None:
    """Wait until no process holds a partition; after a while, kill the orphan process that holds it."""
    until = time.monotonic() + _LEAVING
    while True:
        try:
            WriterLock(folder, mode).close()
            return
        except StoreInUse:
            pid = writer_pid(folder)
            if time.monotonic() >= until and pid is not None and pid != os.getpid():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_AGAIN)


_begun: weakref.WeakSet[PartitionProcess] = weakref.WeakSet()


def _after_fork() -> None:
    for supervisor in list(_begun):
        supervisor.disown()


os.register_at_fork(after_in_child=_after_fork)
