"""One measurement: write lines in memory to a store, durably, with all work of the engine.

Only calls of the engine are timed. While the clock is stopped, it still counts the CPU time of other threads of this
process. So no work is hidden while input is made. The time includes the close, which ends work in the background.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec

import penstock as ps
from bench import limits, machine
from bench.workload import TABLE, Workload, app, cut

P = ParamSpec("P")


class Clock:
    """The seconds of a timed block, and of other threads' work outside of it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls: list[float] = []
        self._others = _other_threads()

    def time(self, call: Callable[P, object], *args: P.args, **named: P.kwargs) -> None:
        self.seconds += max(0.0, _other_threads() - self._others)
        began = time.perf_counter()
        call(*args, **named)
        self.calls.append(time.perf_counter() - began)
        self._others = _other_threads()
        self.seconds += self.calls[-1]


def _other_threads() -> float:
    return time.process_time() - time.thread_time()


def load(
    folder: str,
    keys: int,
    docs: int,
    batch: int,
    passes: int = 1,
    functions: bool = False,
    iterable: bool = False,
) -> dict[str, Any]:
    """Measure passes of upserts into an empty store.

    The result has the seconds of each pass, decode-only before and after it, and the size after it. It also has the
    limits of syncing for the last lines. All passes of an iterable are one.
    """
    work = Workload(keys)
    store = fresh(folder) / "store"
    clock, decode, sizes, sync = Clock(), 0.0, [], dict[str, float]()
    engine = ps.open(app(functions), store)
    for number in range(1 if iterable else passes):
        lines = [line for _ in range(passes if iterable else 1) for line in work.upserts(docs)]
        before = limits.decode_only(lines)
        if iterable:
            clock.time(engine.put_many, TABLE, iter(lines))
        else:
            for part in cut(lines, batch):
                clock.time(engine.put_many, TABLE, part, batch=batch)
        decode += (before + limits.decode_only(lines)) / 2
        if iterable or number == passes - 1:
            work.check(engine)
            clock.time(engine.close)
            sync = limits.synced(cut(lines, batch), store.parent)
        sizes.append(machine.on_disk(store))
    shutil.rmtree(store.parent)
    return {"docs": docs * passes, "seconds": clock.seconds, "decode": decode, "sizes": sizes, **sync}


def fill(store: Path, keys: int, batch: int, text: bool = False) -> tuple[ps.Engine, Workload]:
    """Return an engine with a document for each key."""
    work = Workload(keys, text=text)
    engine = ps.open(app(), store)
    for a in range(0, keys, batch):
        engine.put_many(TABLE, work.every_key(min(batch, keys - a)), batch=batch)
    return engine, work


def fresh(folder: str) -> Path:
    """Return the folder, emptied."""
    path = Path(folder)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path
