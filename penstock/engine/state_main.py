"""The process of one partition of a state, which the tasks of a stream ask for the stages of batches.

It reads its configuration from standard input, opens the folder of its local copy, and reports on standard output. It
ends after a time without requests, when it is on_commit to stop, or when the program that runs the tasks has ended.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time

from penstock.cache import PenstockError, StoreInUse, TurnStore, WriterLock, pack
from penstock.engine.supplied_store import open_partition
from penstock.generations import agree_numbers
from penstock.mapreduce import KeyRanges
from penstock.partitions import STATE_OPERATIONS, LocalCopy, Member, PartitionExchange, StatePartition, StateStart
from penstock.remote import Server, error_data, take_socket

_LOOK = 1.0  # seconds between two looks at whether the process is still needed


class StateServer:
    """The partition that a process serves, and the time of its last request."""

    def __init__(self, start: StateStart, copy: LocalCopy) -> None:
        self._start = start
        self._app = start.app.app()
        self._partition = StatePartition(copy, self._member)
        self._asked = time.monotonic()
        self.stopped = threading.Event()

    @property
    def partition(self) -> StatePartition:
        """Return the partition, for a request that comes now."""
        self._asked = time.monotonic()
        return self._partition

    def _member(self, store: TurnStore) -> Member:
        start = self._start
        exchange = PartitionExchange(start.partition, KeyRanges(start.starts, start.seed), hands_out=True)
        concert, _ = agree_numbers(self._app, [])
        return Member(open_partition(self._app, store, exchange, start.folder, None, start.settings, concert))

    def stop(self) -> None:
        """End the process after this answer."""
        self.stopped.set()

    def wait(self, parent: int) -> None:
        """Wait until the process is needed no longer."""
        while not self.stopped.wait(_LOOK):
            idle = time.monotonic() - self._asked
            if idle >= self._start.idle or (idle >= _LOOK and not _alive(parent)):
                return

    def close(self) -> None:
        """Close the local copy."""
        self._partition.close()


def _alive(process: int) -> bool:
    """Return True if a process is alive; process 0 stands for none to wait for."""
    return not process or os.path.exists(f"/proc/{process}")


def _serve(start: StateStart, say: int) -> None:
    os.makedirs(start.folder, start.settings.mode, exist_ok=True)
    with WriterLock(start.folder, start.settings.mode):
        sock = take_socket(start.folder)
        if sock is None:
            raise PenstockError(f"no socket can be made in {start.folder}; choose another folder for local copies")
        own = StateServer(start, LocalCopy(start.folder, start.state, start.partition, start.files))
        server = Server(own, start.state, sock, start.folder, STATE_OPERATIONS)
        try:
            _answer(say, {"ready": os.getpid()})
            own.wait(start.parent)
        finally:
            server.close()
            own.close()


def _answer(say: int, message: object) -> None:
    """Send the only message to the process that started this one."""
    os.write(say, pack(message))
    os.close(say)


def main() -> int:
    """Run the process of a partition of a state."""
    say = os.dup(1)
    os.dup2(2, 1)  # the output of functions of views is not an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the program that runs the stream
    try:
        start = pickle.load(sys.stdin.buffer)
    except EOFError:
        return 1  # the parent was killed before it sent the configuration
    try:
        _serve(start, say)
    except StoreInUse:
        return 1  # another process has just begun to serve this folder
    except PenstockError as error:
        _answer(say, {"failed": error_data(error)})
        return 1
    return 0
