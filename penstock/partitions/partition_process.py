"""A partition in a process of its own, looked after: it is begun again when it ends or falls silent.

Whoever is to be followed is killed first and its end awaited, so that there are never two owners of a partition; the
next one begins a new epoch. Invariant: a call returns what is committed there, or raises; one that was cut off is made
once more with the next owner, where records that are in already change nothing.
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
_TRIES = 5  # owners in a row that end at the same work before it is given up
_LEAVING = 2.0  # seconds in which an orphan ends by itself
_AGAIN = 0.02
_STARTING = 60.0  # seconds until a process that was begun says its first word
_PIECE = 1 << 20  # bytes that are read at once
_HEAD = 4  # bytes before what it says: how many these are
_log = logging.getLogger("penstock.engine")


class PartitionProcess:
    """The handle of a partition that has a process of its own."""

    def __init__(self, message: StartMessage, program: str) -> None:
        self.here = message.here
        self.folder = message.folders[message.here]
        self._message = message
        self._program = program  # the module whose `main` runs the partition
        self._turn = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._there: RemoteWriter | None = None
        self.closed = False
        self.begun = 0  # how many processes it has had
        _begun.add(self)

    @property
    def name(self) -> str:
        """What people call it."""
        return f"partition {self.here}"

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None else self._process.pid

    # -- its process

    def begin(self) -> None:
        """Begin its process; `ready` waits for it."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; from {self._program} import main; sys.exit(main())"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the process that opened the store, which then ends this one
        )
        self.begun += 1
        assert self._process.stdin is not None, "it was asked for"
        with suppress(BrokenPipeError):  # what it says tells why
            write_message(self._process.stdin, self._message)

    def ready(self) -> None:
        """Wait until its store is open; raises why it isn't.

        It may be killed, or hang, before that; and an orphan that was born late may have taken the store meanwhile, and
        is ended. Another one is begun then.
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
            self._there = self._reached(process)
        except WireClosed:
            raise self._lost from None

    @property
    def _lost(self) -> HolderLost:
        return HolderLost(self.folder, self.name, "it has ended")

    def _reached(self, process: subprocess.Popen[bytes]) -> RemoteWriter:
        return RemoteWriter.reach(self.folder, f"process {process.pid}, {self.name}", self._message.patience)

    def look(self) -> None:
        """See whether it works; one that doesn't is followed by another. One that is asked something shows it there."""
        if not self._turn.acquire(blocking=False):
            return  # and what it is asked may wait for another one, which is to be looked at too
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
        """Kill the owner, await its end, and begin the next one."""
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
        """End its process: by the end of its input, or, after so many seconds, by force."""
        if self._there is not None:
            self._there.close()
            self._there = None
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
        """One transaction of records that it owns, and the offsets after them; one with this number once only."""
        given = {"sources": sources, "number": number, "kinds": kinds, "strict": strict, "others": others or {}}
        return self._done(operations.OWN, tables=tables, **given)

    def tried(self, tables: Tables, kinds: Mapping[str, str]) -> Counts:
        """How these records would fare."""
        return self._done(operations.TRIED, tables=tables, kinds=kinds)

    def standing(self) -> MemberStatus:
        """How far it is; what has arrived is deleted first."""
        return self._done(operations.STANDING)

    def marks(self) -> Marks:
        """The numbers of productions as they are now."""
        return self._done(operations.MARKS)

    def note(self, source: str) -> bytes:
        """What the spout of a source noted with its last batch."""
        return self._done(operations.NOTE, source=source)

    def compact(self) -> dict[str, Any]:
        """Give back what old versions take."""
        return self._done(COMPACT).data()

    def repair(self, do: str, *what: Any) -> Any:
        """A step of a repair, in plain data."""
        return self._done(operations.REPAIR, step=do, arguments=what)

    def swept(self, limit: int | None, switch: Switch | None = None) -> BuildProgress:
        """One step of building views, of about so many documents, or of the switch; with neither a look."""
        return self._done(operations.SWEPT, limit=limit, switch=switch)

    def close(self) -> None:
        """End it. Closing twice is nothing."""
        with self._turn:
            self.closed = True
            self._end(30.0)

    def _done(self, operation: Operation[A], **arguments: Any) -> A:
        """Have one thing done, by the next owner if this one ends at it."""
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
            if self._there is None or process is None:
                raise WireClosed
            try:
                return self._there.call(operation, **arguments)
            except Closed:  # by an interrupt here, in the middle of an answer
                self._there = self._reached(process)
                return self._there.call(operation, **arguments)
        except (WireClosed, Closed):
            raise self._lost from None

    def disown(self) -> None:
        """In a forked child: let go of its input, which ends when its own parent lets go of it."""
        self.closed = True
        process, self._process, self._there = self._process, None, None
        if process is not None:
            process.returncode = 0  # it is no child of this process: nothing is to be awaited
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _read_message(file: int, patience: float) -> dict[str, Any] | None:
    """What a process says next on a pipe, empty where it ended; None where it says nothing for so many seconds."""
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
    """See to it that nobody owns a partition: who does is of an owner that died, and is ended."""
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
    for away in list(_begun):
        away.disown()


os.register_at_fork(after_in_child=_after_fork)
