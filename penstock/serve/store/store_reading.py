"""The store as routes use it: snapshots on the event loop, long reads and writes in threads.

Invariant: only single reads of a snapshot run on the event loop. Nothing there waits for another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from penstock.engine import Engine, Snapshot
from penstock.remote import Operation
from penstock.serve.store.call_meters import FrontMeter
from penstock.serve.store.snapshot_pool import SnapshotPool
from penstock.serve.store.store_access import StoreAccess
from penstock.views import App

__all__ = ["StoreReading"]

A = TypeVar("A")
_WRITERS = 8  # connections to the holder
_READERS = 4


class StoreReading:
    """The store of one front."""

    def __init__(self, app: App, access: StoreAccess, meter: FrontMeter) -> None:
        self.app = app
        self.access = access
        self.meter = meter
        self.snapshots = SnapshotPool(access.reader.snapshot)
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
