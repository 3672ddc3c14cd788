"""Samples of a store, one per second while pages are open, for rates and plots.

A page draws from the last sample and shows its age, so a holder that does not answer delays no page.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.cache import PenstockError
from penstock.remote import METERS
from penstock.serve.store.store_reading import StoreReading

__all__ = ["StoreSample", "StoreSamples"]

_EVERY = 1.0
_KEPT = 300  # samples
_IDLE = 300.0  # seconds after the last page until the sampling ends
_SPAN = 60  # samples of a percentile
_PLOTTED = 60


@dataclass(frozen=True, slots=True)
class StoreSample:
    """The store and its holder at one moment; `meters` is None without an answer of the holder."""

    at: float
    position: int
    used: int
    readers: int
    memory: int
    meters: dict[str, Any] | None

    def records(self, table: str | None = None) -> int | None:
        """Return the number of records that the holder has taken, of one table or of all."""
        if self.meters is None:
            return None
        tables = self.meters["tables"]
        chosen = tables.values() if table is None else [tables[table]] if table in tables else []
        return sum(int(own[name]) for own in chosen for name in ("applied", "equal", "late", "held", "rejected"))


class StoreSamples:
    """The last samples of one front."""

    def __init__(self, store: StoreReading, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._samples: deque[StoreSample] = deque(maxlen=_KEPT)
        self._asked = 0.0
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "penstock-sample")  # it may wait for the holder

    def ask(self) -> None:
        """Note that a page is open, and begin to sample."""
        self._asked = self._clock()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def take(self) -> StoreSample:
        """Take one sample. It blocks until the holder answers."""
        status = self._store.reader.status()
        position = status["position"]
        try:
            meters = self._store.access.call(METERS)
        except (PenstockError, OSError):
            meters = None
        sample = StoreSample(
            self._clock(),
            position if isinstance(position, int) else sum(position),
            status["store"]["used"],
            status["store"]["readers"],
            status["memory"],
            meters,
        )
        self._samples.append(sample)
        return sample

    def close(self) -> None:
        """End the sampling."""
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def age(self) -> float | None:
        """Seconds since the last answer of the holder; None without one."""
        last = next((own for own in reversed(self._samples) if own.meters is not None), None)
        return None if last is None else self._clock() - last.at

    def rate(self, table: str | None = None) -> float | None:
        """Return the records per second between the last two samples."""
        found = self._rates(lambda own: own.records(table), 1)
        return found[-1] if found else None

    def p99(self) -> float | None:
        """Return the 99th percentile of the seconds of a commit in the last minute: the bound of its bucket."""
        metered = [own.meters["commit_ns"] for own in self._window() if own.meters is not None]
        if not metered:
            return None
        first, last = (metered[0] if len(metered) > 1 else None), metered[-1]
        counts = [
            max(now - (first["counts"][i] if first is not None else 0), 0) for i, now in enumerate(last["counts"])
        ]
        counts = counts if sum(counts) else list(last["counts"])
        wanted, seen = 0.99 * sum(counts), 0
        for i, count in enumerate(counts):
            seen += count
            if count and seen >= wanted:
                bounds = last["bounds"]
                return float(bounds[min(i, len(bounds) - 1)]) / 1e9
        return None

    def plots(self) -> dict[str, list[float]]:
        """Return the values of each plot, the last one at the end."""
        return {
            "records": self._rates(StoreSample.records),
            "commits": self._rates(lambda own: None if own.meters is None else own.meters["commits"]),
            "used": [own.used for own in self._window()],
            "readers": [own.readers for own in self._window()],
        }

    def _window(self) -> list[StoreSample]:
        return list(self._samples)[-_SPAN:]

    def _rates(self, count: Callable[[StoreSample], int | None], last: int = _PLOTTED) -> list[float]:
        """Return the rise per second between neighbors. A holder that began again begins at 0."""
        out = list[float]()
        for before, after in pairwise(list(self._samples)[-last - 1 :]):
            then, now = count(before), count(after)
            if then is not None and now is not None and after.at > before.at:
                out.append(max(now - then, 0) / (after.at - before.at))
        return out

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._clock() - self._asked < _IDLE:
            await loop.run_in_executor(self._thread, self._taken)
            await asyncio.sleep(_EVERY)

    def _taken(self) -> None:
        try:
            self.take()
        except PenstockError:  # the store is closed or replaced; pages say so themselves
            return
