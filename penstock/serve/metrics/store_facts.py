"""Facts of the store that a scrape reads beside its status: feed, productions, sources, snapshots, disk.

LMDB lists open snapshots without their age. So the age counts from the first scrape that saw a snapshot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.cache import open_lmdb
from penstock.core import read_layout
from penstock.engine import Engine
from penstock.recovery import numbers_of
from penstock.remote import claims

__all__ = ["FactReader", "StoreFacts"]

_SnapshotId = tuple[str, int, str, int]  # folder, process, thread, transaction


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The facts at one scrape. `pending` counts productions by the partition that they are for."""

    oldest: Sequence[int]
    """The oldest position of the feed of each partition."""
    fed: int
    """The changes that the feed ever had."""
    pending: Sequence[int]
    sources: Sequence[dict[str, Any]]
    """The last reports of processes that read sources into the store."""
    snapshot_age: float
    """Seconds since a scrape first saw the oldest snapshot that is open."""
    disk_free: int | None


class FactReader:
    """Reads the facts of one store."""

    def __init__(self, reader: Callable[[], Engine], clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._seen: dict[_SnapshotId, float] = {}

    def read(self) -> StoreFacts:
        """Return the facts at present."""
        engine = self._reader()
        with engine.snapshot() as snap:
            states = [part.state for part in snap.parts]
            oldest = snap.followed
        pending = [0] * len(states)
        for _, to, sent, taken in numbers_of(states):
            pending[to] += max(0, sent - taken)
        path = engine.store.state.path
        return StoreFacts(
            [oldest] if isinstance(oldest, int) else list(oldest),
            sum(state.fed for state in states),
            pending if len(states) > 1 else [],
            [] if path is None else claims(path),
            self._age(path),
            _free(path),
        )

    def _age(self, path: str | None) -> float:
        """Return the age of the oldest snapshot, and forget those that have ended."""
        now, layout = self._clock(), None if path is None else read_layout(path)
        folders = [] if path is None else [path] if layout is None else layout.folders(path)
        found = {(folder, *own): now for folder in folders for own in _snapshots(folder)}
        self._seen = {own: self._seen.get(own, first) for own, first in found.items()}
        return max((now - first for first in self._seen.values()), default=0.0)


def _snapshots(folder: str) -> Sequence[tuple[int, str, int]]:
    store = open_lmdb(folder, readonly=True)
    try:
        return store.snapshots()
    finally:
        store.close()


def _free(path: str | None) -> int | None:
    """Return the bytes that are free on the disk of a store."""
    if path is not None:
        with suppress(OSError):
            about = os.statvfs(path)
            return about.f_bavail * about.f_frsize
    return None
