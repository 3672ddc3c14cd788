"""A source connector that sends numbered changes to another store, and kills of it at any write to its log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import penstock as ps
from penstock.sink import WallarooSourceSink
from penstock.views import ABSENT
from tests.spout.wallaroo_worker import COOKIE, Killed, Store

VIEW = "by name"
GROUPS = 5
NO_KEY = None
"""A group that the other table rejects. The count of rejections shows each message that came twice."""


def changes_at(position: int) -> list[ps.Change]:
    """Return the changes of a position: up to three, of which the last one may be rejected by the other table."""
    own = [ps.Change(VIEW, (position + i) % GROUPS, None, {"n": position}, position) for i in range(position % 3)]
    if own and position % 7 == 0:
        own[-1] = ps.Change(VIEW, own[-1].group, None, ABSENT, position)
    if position % 4 == 3:
        own.append(ps.Change(VIEW, NO_KEY, None, {"n": position}, position))
    return own


def expected(end: int) -> tuple[dict[int, Any], int]:
    """Return the rows at a position, and the number of rejected messages up to there."""
    rows: dict[int, Any] = {}
    refused = 0
    for position in range(1, end + 1):
        for one in changes_at(position):
            rows.pop(one.group, None)
            if one.group is NO_KEY:
                refused += 1
            elif one.new is not ABSENT:
                rows[one.group] = one.new
    return rows, refused


def received(store: Store) -> tuple[dict[int, Any], int]:
    """Return the rows in the other store, and the number of rejected messages."""
    with store.engine.snapshot() as snap:
        found = {key: snap.table("orders").get(key) for key in range(GROUPS)}
    rows = {key: doc["value"] for key, doc in found.items() if doc is not None}
    return rows, store.engine.status()["tables"]["orders"]["rejected"]


def mirror() -> ps.App:
    app = ps.App("mirror")
    app.table("orders", key="key")
    return app


def target(path: Path, port: int = 0) -> Store:
    """Open a store that source connectors feed."""
    return Store(path, None, port, "&envelope=view", mirror(), "wallaroo+source")


def opened(folder: Path, address: tuple[str, int], name: str = "c1", cookie: str = COOKIE) -> WallarooSourceSink:
    sink = WallarooSourceSink("wallaroo+source://there", address, cookie, name, VIEW, "value", json.dumps)
    sink.folder = str(folder)
    return sink


def give(sink: WallarooSourceSink, after: int, end: int) -> None:
    """Give the changes of all positions after one."""
    for position in range(after + 1, end + 1):
        sink.write(changes_at(position))
        sink.holds(position)


class Disk:
    """The log's writes. A kill comes at a counted one, after some of its bytes; a power loss drops unsynced bytes."""

    def __init__(self, write: int | None, part: float) -> None:
        self._numbers, self._write, self._part = count(1), write, part
        self._synced: dict[int, int] = {}
        self._pwrite, self._fdatasync, self._fsync = os.pwrite, os.fdatasync, os.fsync

    @contextmanager
    def kills(self) -> Iterator[None]:
        with (
            mock.patch.object(os, "pwrite", self._write_some),
            mock.patch.object(os, "fdatasync", self._sync(self._fdatasync)),
            mock.patch.object(os, "fsync", self._sync(self._fsync)),
        ):
            yield

    def lose(self, folder: Path) -> None:
        """Lose all bytes that were not synced."""
        for path in (folder / "connector").glob("*"):
            found = path.stat()
            os.truncate(path, min(found.st_size, self._synced.get(found.st_ino, found.st_size)))

    def _write_some(self, file: int, data: bytes, offset: int) -> int:
        self._synced.setdefault(os.fstat(file).st_ino, os.fstat(file).st_size)
        if next(self._numbers) == self._write:
            self._pwrite(file, data[: int(len(data) * self._part)], offset)
            raise Killed
        return self._pwrite(file, data, offset)

    def _sync(self, real: Any) -> Any:
        def synced(file: int) -> None:
            real(file)
            found = os.fstat(file)
            self._synced[found.st_ino] = found.st_size

        return synced
