"""A writer that is killed during a build. It continues with batches and build, and prints its offset.

    python -m tests.generations.crash.crash_build PATH DOCUMENTS      fills a store with one app
    python -m tests.generations.crash.crash_build PATH DOCUMENTS on   opens it with another, until the views are built

With `on`, the build thread may take one step after each batch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import penstock as ps
from penstock.engine.calls.store_building import StoreBuilding
from penstock.generations.build_thread import Turn

BATCH = 50
KEPT = 1 << 20  # steps after the build, which empty the former generations
STEP = 128  # documents or rows that each step may build after a batch
SOURCE = "numbers"


def document(number: int, keys: int) -> dict[str, Any]:
    """Return the document at an offset of the source."""
    return {"id": number * 7 % keys, "name": f"name{number % 97}", "n": number % 11, "ts": number}


def app(later: bool) -> ps.App:
    """Return the app that fills the store, or the later one."""
    shop = ps.App("shop")
    users = shop.table("users", key="id", ts="ts")
    kept = users.view("kept", key="n", reduce=ps.count())
    width = 5 if later else 3

    @users.view(reduce={"n": ps.count(), "s": ps.sum()})
    def names(user: Any) -> Iterator[Any]:
        yield user["name"][:width], user["n"]

    names.view("sizes", key="value.n", reduce=ps.count())
    kept.view("over", key="value", reduce=ps.max("key") if later else ps.count())
    if later:
        users.view("greatest", key="name", reduce=ps.max("n"))
    return shop


def records(start: int, stop: int, keys: int) -> list[ps.Record]:
    """Return the records of the source between two offsets."""
    docs = [(number, document(number, keys)) for number in range(start, stop)]
    return [ps.Record("users", doc["id"], doc, offset=number) for number, doc in docs]


class Steps:
    """The steps of a build. The build thread may take one after each batch.

    So the number of batches before the end of the build does not depend on the scheduling of threads.
    """

    def __init__(self) -> None:
        self._allowed = threading.Semaphore(0)
        self._step = StoreBuilding.build_once

    def build_once(self, engine: StoreBuilding, limit: int) -> Turn:
        """Wait for a batch, then take a step."""
        self._allowed.acquire()
        return self._step(engine, min(limit, STEP))

    def allow(self, steps: int = 1) -> None:
        """Let the thread take this number of further steps."""
        self._allowed.release(steps)


def put(engine: ps.Engine, start: int, stop: int, keys: int) -> None:
    """Put the records between two offsets, and print the end once they are durable."""
    engine.ingest(records(start, stop, keys), source=SOURCE, resume=stop)
    print(stop, flush=True)


def main(path: Path, keys: int, later: bool) -> None:
    """Fill a store, or continue until its views are built."""
    steps = Steps()
    limited = mock.patch.object(StoreBuilding, "build_once", lambda engine, limit: steps.build_once(engine, limit))
    with limited, ps.open(app(later), path, listen=False) as engine:
        with engine.snapshot() as snap:
            done = snap.sources.get(SOURCE, 0)
        if not later:
            for start in range(done, keys, 1_000):
                put(engine, start, start + 1_000, keys)
            return
        while engine.status()["building"] is not None:
            put(engine, done, done + BATCH, keys)
            done += BATCH
            steps.allow()
        steps.allow(KEPT)
    print("built", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3)
