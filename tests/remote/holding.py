"""A holder of a store, and the accidents that end it while it serves a client.

    python -m tests.remote.holding STORE [BEFALLS]

It prints "ready", and ends when its standard input ends. The name of a user, or BEFALLS, selects its accident:

    a document with the name "Stop" is mapped: it is stopped; with "Kill": it is killed

    lost OPERATION   the first time this operation is done: it is killed before it answers
    told OPERATION   the first time the operation reports its progress: it is killed then
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.core.upkeep import store_compaction
from penstock.gateway import TableBatch
from penstock.remote.operations import OPERATIONS
from penstock.spout import SpoutBatch
from tests.cache.processes import heard

DOCS = [{"id": i, "name": ("Sue", "Joe", "Sam")[i % 3], "ts": i} for i in range(60)]


def shop() -> ps.App:
    """Return an app of users by name. Some names stop or kill the process that maps them."""
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts", tombstones=10)

    @users.view(reduce=ps.count())
    def names(user: dict[str, Any]) -> Iterator[Any]:
        if user["name"] == "Stop" and user["by"] != os.getpid():
            os.kill(os.getpid(), signal.SIGSTOP)
        if user["name"] == "Kill" and user["by"] != os.getpid():
            os.kill(os.getpid(), signal.SIGKILL)
        yield user["name"]

    users.view("namecount", key="name", reduce=ps.count())
    users.view("latest", key=(), value="ts", reduce={"last": ps.max(), "times": ps.distinct()})
    app.table("marks", key="id", ts="@kafka")
    return app


def lines_of(docs: list[dict[str, Any]], start: int) -> SpoutBatch:
    """Return these documents as a batch of a spout, with an offset each."""
    lines = [json.dumps(doc).encode() for doc in docs]
    return SpoutBatch(TableBatch(lines), "a", start, start + len(docs), note=b"n", unit="a, line")


@contextmanager
def held(store: Path, *befalls: str) -> Iterator[subprocess.Popen[str]]:
    """Start another process that holds the store."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.remote.holding", str(store), *befalls],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert heard(child) == "ready"
            yield child
        finally:
            child.kill()


def befall(when: str, operation: str) -> None:
    """Kill this process in the operation of this name."""
    done = OPERATIONS[operation]

    def killed(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fatal(target: Any, /, **arguments: Any) -> Any:
        done.perform(target, **(arguments | {"progress": killed} if when == "told" else arguments))
        killed()

    OPERATIONS[operation] = replace(done, perform=fatal)


def main(store: str, *befalls: str) -> None:
    """Hold the store until the input ends."""
    store_compaction.STEP_RECORDS = 10
    if befalls:
        befall(*befalls)
    with ps.open(shop(), store):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
