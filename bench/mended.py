"""The waiting time of puts while a store of two partitions is repaired, and the time that its documents took to be put.

    python -m bench.mended

A partition of a store in memory loses one group's row, and the view is restated. The view is compared while others may
write, and compared again and repaired while they wait. The command prints the CPU seconds of both parts for each view.
It does so too for a check of a correct store, in which puts only wait for the settling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from time import process_time
from typing import Any
from unittest import mock

import penstock as ps
from bench.workload import TABLE, Workload, app, cut
from penstock.engine import PartitionedStore
from penstock.mapreduce import rows_db

KEYS = 100_000


@contextmanager
def waiting(seconds: list[float]) -> Iterator[None]:
    """Add up the time in which the partitions are blocked."""
    real: Callable[..., Any] = PartitionedStore.still

    @contextmanager
    def still(self: PartitionedStore, settled: bool = True) -> Iterator[None]:
        began = process_time()
        with real(self, settled):
            yield
        seconds.append(process_time() - began)

    with mock.patch.object(PartitionedStore, "still", still):
        yield


def lose_a_row(engine: Any, view: str) -> None:
    """Remove the first row of a view from the first partition."""
    core = engine.store.handles[0].engine.core
    db = rows_db(core.views[view].number)
    with core.store.write() as writer:
        writer.delete_many(db, [key for key, _ in islice(writer.scan(db), 1)])
    core.forget()


def measure(what: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of some work, and the seconds in which puts wait."""
    held: list[float] = []
    began = process_time()
    with waiting(held):
        what()
    return process_time() - began, sum(held)


def main() -> None:
    """Print the figures."""
    shop, work = app(), Workload(KEYS)
    with ps.open(shop, None, partitions=2) as engine:
        assert isinstance(engine.store, PartitionedStore)
        began = process_time()
        for part in cut(work.upserts(KEYS), 10_000):
            engine.put_many(TABLE, part)
        print(f"{KEYS:,} documents put: {process_time() - began:.2f} s")
        for view in shop.views():
            lose_a_row(engine, view.name)
            whole, held = measure(partial(engine.restate, view.name))
            print(f"restate({view.name!r}), one row lost: {whole:.2f} s, of which puts wait {held:.2f} s")
        whole, held = measure(engine.check)
        print(f"check of what is right: {whole:.2f} s, of which puts wait {held:.2f} s")


if __name__ == "__main__":
    main()
