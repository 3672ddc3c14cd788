"""The meters of calls, in memory that the processes of one server share.

The first process makes the memory before it forks. Each front writes its own part, and any process reads all parts.
Invariants:

- a part has one process that writes it, so counting takes no lock between processes;
- a front that is begun again goes on with its part, so no number falls while the server runs.
"""

from __future__ import annotations

import mmap
import threading
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["BOUNDS", "RPC", "STATUSES", "CallMeters", "FrontMeter"]

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds of the buckets of calls; the last bucket has no bound."""
RPC = "rpc"
"""The method under which calls of gRPC are counted."""
STATUSES = (*range(17), 200, 304, 400, 401, 404, 405, 408, 409, 410, 413, 415, 421, 429, 500, 503, 504)
_OTHER = len(STATUSES)
_NANOSECONDS = 1_000_000_000


class CallMeters:
    """The meters of all fronts; `routes` are the methods and paths of the API.

    >>> meters = CallMeters([("GET", "/v1/status")], fronts=2)
    >>> meters.front(0).count(("GET", "/v1/status"), 200, 0.003)
    >>> meters.front(1).count(("GET", "/other"), 404, 0.003)
    >>> counts, seconds = meters.calls()[("GET", "/v1/status"), 200]
    >>> sum(counts), round(seconds, 3)
    (1, 0.003)
    """

    def __init__(self, routes: Sequence[tuple[str, str]], fronts: int) -> None:
        self.routes = [*routes, ("other", "other")]
        rows = len(self.routes) * (_OTHER + 1) + 2  # one of waits, one of watchers
        shape = (fronts, rows, len(BOUNDS) + 2)
        self._memory = mmap.mmap(-1, int(np.prod(shape)) * 8)
        self._cells: NDArray[np.int64] = np.frombuffer(self._memory, np.int64).reshape(shape)

    def front(self, number: int) -> FrontMeter:
        """Return the part of one front."""
        return FrontMeter(self._cells[number], {route: i for i, route in enumerate(self.routes)})

    def calls(self) -> dict[tuple[tuple[str, str], int], tuple[list[int], float]]:
        """Return the counts by bucket and the seconds of each route and status that occurred."""
        total = self._cells.sum(axis=0)
        out = {}
        for i, route in enumerate(self.routes):
            for j, status in enumerate((*STATUSES, -1)):
                row = total[i * (_OTHER + 1) + j].tolist()
                if any(row):
                    out[route, status] = (row[:-1], row[-1] / _NANOSECONDS)
        return out

    def waits(self) -> tuple[list[int], float]:
        """Return the counts by bucket and the seconds of writes that waited for a connection."""
        row = self._cells[:, -2].sum(axis=0).tolist()
        return row[:-1], row[-1] / _NANOSECONDS

    def watchers(self) -> int:
        """Return the number of open streams."""
        return int(self._cells[:, -1, 0].sum())


class FrontMeter:
    """The part of one front."""

    def __init__(self, cells: NDArray[np.int64], routes: dict[tuple[str, str], int]) -> None:
        self._cells = cells
        self._turn = threading.Lock()
        self._routes = routes
        self._statuses = {status: i for i, status in enumerate(STATUSES)}
        cells[-1] = 0  # the streams of an earlier front have ended

    def count(self, route: tuple[str, str], status: int, seconds: float) -> None:
        """Count one call. An unknown route counts as "other", so the number of labels is bounded."""
        row = self._routes.get(route, len(self._routes) - 1)
        self._add(row * (_OTHER + 1) + self._statuses.get(status, _OTHER), seconds)

    def waited(self, seconds: float) -> None:
        """Count the wait of one write."""
        self._add(-2, seconds)

    def watching(self, watchers: int) -> None:
        """Set the number of open streams."""
        self._cells[-1, 0] = watchers

    def _add(self, row: int, seconds: float) -> None:
        cells = self._cells[row]
        with self._turn:  # gRPC counts in threads
            cells[bisect_left(BOUNDS, seconds)] += 1
            cells[-1] += int(seconds * _NANOSECONDS)
