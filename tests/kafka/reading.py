"""Helpers to read a topic into a store."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import penstock as ps
from penstock.spout import SPOUTS, Spout, SpoutBatch
from tests.kafka.server import Server
from tests.waiting import PATIENCE


def shop() -> ps.App:
    """Return an app with users by id, of which the last to arrive wins, and a view that counts names."""
    app = ps.App("shop")
    users = app.table("users", key="id")
    users.view("names", key="name", reduce=ps.count())
    users.view("total", key=(), value="n", reduce=ps.sum())
    return app


def stamped() -> ps.App:
    """Return the same app, with versions ordered by the broker's timestamps."""
    app = ps.App("shop")
    app.table("users", key="id", ts="@kafka").view("names", key="name", reduce=ps.count())
    return app


@contextmanager
def spout(
    server: Server, engine: ps.Engine, topic: str, client: str, options: str = "", timed: bool | None = None
) -> Iterator[Any]:
    """Yield the spout of a topic, begun at the store's offset. It looks at the topic before each batch.

    It keeps the timestamps of records if the table uses them, unless `timed` is given.
    """
    uri = f"kafka://{server.servers}/{topic}?client={client}{options}"
    own: Spout = SPOUTS.open(uri, "users")
    inner: Any = getattr(own, "_spout", own)
    ticks = itertools.count()
    inner._clock = lambda: float(next(ticks))
    inner.timed = engine.store.core.app.table_of("users").broker_ts if timed is None else timed
    try:
        with engine.snapshot() as snap:
            own.begin(snap.remembered)
        yield own
    finally:
        own.close()


def batches(own: Spout, records: int, limit: int = 1_000) -> Iterator[SpoutBatch]:
    """Yield batches until so many records came."""
    end, seen = time.monotonic() + PATIENCE, 0
    while seen < records:
        assert time.monotonic() < end, f"{seen} records came, and not {records}"
        batch = own.next_batch(limit, 0.05)
        if batch is not None:
            seen += batch.records.n + batch.records.refused
            yield batch


def standing(own: Spout) -> Iterator[SpoutBatch]:
    """Return the batches without records that come first."""
    inner: Any = getattr(own, "_spout", own)
    while inner._standing:
        batch = own.next_batch(1)
        assert batch is not None
        yield batch


def read(engine: ps.Engine, own: Spout, records: int, limit: int = 1_000) -> ps.Counts:
    """Return so many records."""
    total = ps.Counts()
    for given in (standing(own), batches(own, records, limit)):
        for batch, counts in engine.load("users", given):
            own.committed(batch)
            total += counts
    return total


def names(engine: ps.Engine) -> dict[Any, Any]:
    with engine.snapshot() as snap:
        return dict(snap.view("names").items())


def users(engine: ps.Engine) -> dict[Any, Any]:
    with engine.snapshot() as snap:
        return dict(snap.table("users").items())
