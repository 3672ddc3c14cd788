"""The store as routes use it: snapshots on the event loop, long reads and writes in threads.

Invariant: only single reads of a snapshot run on the event loop. Nothing there waits for another process.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from penstock.cache import PenstockError
from penstock.engine import Engine, Snapshot
from penstock.remote import Operation
from penstock.serve.store.call_meters import FrontMeter
from penstock.serve.store.snapshot_pool import SnapshotPool
from penstock.serve.store.store_access import StoreAccess
from penstock.views import App

__all__ = ["CallTimeout", "StoreReading", "WriteQueueFull"]

A = TypeVar("A")
_WRITERS = 8  # connections to the holder
_READERS = 4
_QUEUE = 256  # writes under way and waiting
_OF_MEAN = 16  # calls over which the mean of seconds moves


class WriteQueueFull(PenstockError):
    """Too many writes wait for the holder.

    >>> print(WriteQueueFull(256))
    256 writes wait already, so this one could not end in time; repeat it in a moment
    """

    def __init__(self, queued: int) -> None:
        super().__init__(queued)
        self.queued = queued

    def __str__(self) -> str:
        return f"{self.queued} writes wait already, so this one could not end in time; repeat it in a moment"


class CallTimeout(PenstockError):
    """No answer came before the deadline of a call.

    >>> print(CallTimeout(10))
    no answer within 10 s; the write may be done or not: repeat it with the same session number
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"no answer within {self.seconds:g} s; the write may be done or not: repeat it with the same session number"
        )


class StoreReading:
    """The store of one front."""

    def __init__(self, app: App, access: StoreAccess, meter: FrontMeter) -> None:
        self.app = app
        self.access = access
        self.meter = meter
        self.snapshots = SnapshotPool(access.reader.snapshot)
        self._turn = threading.Lock()
        self._queued = 0
        self._mean = 0.0  # seconds of a write
        self._writers = ThreadPoolExecutor(_WRITERS, "penstock-write")
        self._readers = ThreadPoolExecutor(_READERS, "penstock-read")

    @property
    def reader(self) -> Engine:
        """The engine that makes snapshots."""
        return self.access.reader

    def snapshot(self, eventual: bool = False) -> AbstractContextManager[Snapshot]:
        """Return a context with a snapshot that shows every answered write, or nearly so if it is `eventual`."""
        return self.snapshots.use(eventual)

    async def write(self, operation: Operation[A], **arguments: Any) -> A:
        """Have the holder perform an operation, in a thread."""
        loop = asyncio.get_running_loop()
        asked = loop.time()

        def call() -> A:
            self.meter.waited(loop.time() - asked)
            return self.access.call(operation, **arguments)

        return await loop.run_in_executor(self._writers, call)

    def write_within(self, seconds: float, operation: Operation[A], **arguments: Any) -> A:
        """Have the holder perform an operation, and wait so many seconds for its answer.

        WriteQueueFull refuses a call that would wait longer. CallTimeout means that the write may be done or not.
        """
        asked = time.monotonic()
        with self._turn:
            if self._queued >= _QUEUE or self._queued / _WRITERS * self._mean > seconds:
                raise WriteQueueFull(self._queued)
            self._queued += 1

        def call() -> A:
            began = time.monotonic()
            self.meter.waited(began - asked)
            try:
                return self.access.call(operation, **arguments)
            finally:
                with self._turn:
                    self._queued -= 1
                    self._mean += (time.monotonic() - began - self._mean) / _OF_MEAN

        task = self._writers.submit(call)
        try:
            return task.result(seconds)
        except TimeoutError:
            if task.cancel():
                with self._turn:
                    self._queued -= 1
            raise CallTimeout(seconds) from None

    async def read(self, work: Callable[[], A]) -> A:
        """Do a long read in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def trouble(self) -> str | None:
        """Return why no write is possible at present."""
        return await self.read(self.access.trouble)

    def close(self) -> None:
        """Wait for the threads, and release the store."""
        self._writers.shutdown()
        self._readers.shutdown()
        self.snapshots.close()
        self.access.close()
