"""Measure the time and memory of a check of a large store, beside a writer.

    python -m tests.recovery.check.check_memory FOLDER DOCUMENTS [fix]

The command fills a store in the folder, unless the store has the documents already. It prints the anonymous memory of
this process before the check and the maximum during the check. Pages of the map belong to the system and do not count.
The writer runs in the same process, so its memory is included.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import penstock as ps

_BATCH, _PAUSE = 100, 0.02


def shop() -> ps.App:
    """Return an app with one group per ten documents, one group for all, and every kind of view."""
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    counted = users.view("counted", key="name", reduce={"n": ps.count(), "total": ps.sum("amount")})
    counted.view("sizes", key="value.n", reduce=ps.count())
    users.view("most", key="city", value="amount", reduce=ps.max())
    users.view("listed", key="name", value="amount", reduce=None)
    users.view("total", key=(), reduce={"n": ps.count(), "sum": ps.sum("amount"), "top": ps.top(3, "amount")})

    @users.view(reduce=ps.sum())
    def yielded(user: dict[str, Any]) -> Iterator[Any]:
        yield user["city"], user["amount"]

    return app


def document(i: int, ts: int) -> bytes:
    """Return a user as a JSON line."""
    name, city, amount = f"name{i * 7919 % 100_003}", f"c{i % 1000}", (i * 31 + ts) % 997
    return json.dumps({"id": i, "name": name, "city": city, "amount": amount, "ts": ts}).encode()


def fill(path: Path, documents: int) -> None:
    """Put the documents, unless the store has them already."""
    with ps.open(shop(), path) as engine:
        if engine.status()["tables"]["users"]["documents"] < documents:
            for a in range(0, documents, 50_000):
                engine.put_many("users", [document(i, 1) for i in range(a, min(a + 50_000, documents))])


def megabytes() -> int:
    """Return the anonymous memory of this process, in megabytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) // 1024


def main(folder: str, documents: str, *fix: str) -> None:
    """Fill the store, check it and print the measurements."""
    path, n = Path(folder), int(documents)
    fill(path, n)
    with ps.open(shop(), path) as engine:
        engine.digest()
        before = most = megabytes()
        done, written = threading.Event(), 0

        def write() -> None:
            nonlocal most, written
            choose = Random(3)
            while not done.wait(_PAUSE):
                some = [document(choose.randrange(n + 1000), 2 + written) for _ in range(_BATCH)]
                written += len(some)
                engine.put_many("users", some)
                most = max(most, megabytes())

        writer = threading.Thread(target=write)
        writer.start()
        begun = time.monotonic()
        try:
            report = engine.check(fix=bool(fix))
        finally:
            done.set()
            writer.join()
        print(report)
        print(f"{time.monotonic() - begun:.0f} s; {before} MB before, {most} MB at most; {written:,} records were put")


if __name__ == "__main__":
    main(*sys.argv[1:])
