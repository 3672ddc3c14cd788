"""Threads read while another one closes the engine or their snapshot. It is a program, because a signal may end it.

`python -m tests.engine.reads_beside_close FOLDER PARTITIONS ROUNDS` prints how many threads ended with Closed, by call.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count

import penstock as ps
from tests.waiting import PATIENCE

_CALLS: dict[str, Callable[[ps.Snapshot, int], object]] = {
    "get": lambda snap, n: snap.view("by_name").get(str(n % 20)),
    "items": lambda snap, n: list(snap.view("by_name").items()),
    "range": lambda snap, n: list(snap.view("by_name").items(start="1", stop="3")),
    "document": lambda snap, n: snap.table("users").get(n % 60),
    "documents": lambda snap, n: sum(1 for _ in snap.table("users").items()),
}


def app() -> ps.App:
    shop = ps.App("shop")
    users = shop.table("users", key="id")
    users.view("by_name", key="name", reduce=ps.count())
    return shop


def fill(folder: str, partitions: int) -> None:
    """Make the store that all rounds read."""
    own = partitions if partitions > 1 else None
    with ps.open(app(), folder, partitions=own, processes=False, listen=False) as engine:
        engine.put_many("users", [{"id": n, "name": str(n % 20), "pad": "x" * 200} for n in range(60)])


def reads(snap: ps.Snapshot, call: str, together: threading.Barrier, ends: Counter[str]) -> None:
    """Read once. Then read together with the other threads until Closed."""
    _CALLS[call](snap, 0)
    together.wait(PATIENCE)
    try:
        for n in count():
            _CALLS[call](snap, n)
    except ps.Closed:
        ends[call] += 1


def one_round(engine: ps.Engine, shared: bool, ends: Counter[str]) -> None:
    """One thread for each call. Close the shared snapshot, or else the engine."""
    snaps = [engine.snapshot()] if shared else [engine.snapshot() for _ in _CALLS]
    together = threading.Barrier(len(_CALLS) + 1)
    threads = [
        threading.Thread(target=reads, args=(snaps[i % len(snaps)], call, together, ends), daemon=True)
        for i, call in enumerate(_CALLS)
    ]
    for thread in threads:
        thread.start()
    together.wait(PATIENCE)
    (snaps[0] if shared else engine).close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread reads on after the end"
    engine.close()


def main() -> None:
    folder, partitions, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    faulthandler.enable()
    sys.setswitchinterval(1e-5)  # the end then comes in the middle of a read
    fill(folder, partitions)
    ends: Counter[str] = Counter()
    shop = app()
    for n in range(rounds):
        readonly = bool(n % 2)
        engine = ps.open(shop, folder, readonly=readonly, processes=False, listen=False)
        one_round(engine, n % 4 > 1, ends)
    print(sorted(ends.items()))


if __name__ == "__main__":
    main()
