"""A build from one app to another that counts its commits. At each it leaves an image, or it is killed there.

    python -m tests.generations.crash.build_crash_points BASE PATH 7 18 …

It copies the store BASE for each of these commits, and is killed on both sides of it.

The work is the same each time. The process opens the store with the second app. Batches and steps of the build take
turns, until the build is complete and the former generations are empty.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from penstock.cache import open_lmdb
from penstock.engine import open_on
from penstock.spout import Record
from tests.core.crash.crash_points import AFTER, BEFORE, FILE, Counted, killed_at, unsynced
from tests.generations.app_pair import SEED, first, second, take
from tests.harness.worlds import TINY

BEGUN = 12  # batches before the change of the app
STEP = 3  # documents or rows per step


def batches() -> list[list[Record]]:
    """Return all batches: some come before the change of the app, some between two steps."""
    choose = Random(3)
    out: list[list[Record]] = []
    for ts in range(26):
        batch: list[Record] = []
        for _ in range(choose.randrange(1, 5)):
            table, key = choose.choice(["users", "orders", "plain", "few"]), choose.randrange(9)
            doc = {"id": key, "g": choose.choice(["Sue", "Joe", None]), "h": choose.choice([1, 2]), "v": ts}
            own = {"ts": ts} if table in ("users", "few") else {}
            gone = choose.random() < 0.15
            batch.append(Record(table, key, None if gone else doc | own | {"tags": ["a", "b"]}, own.get("ts")))
        out.append(batch)
    return out


def begin(path: Path) -> None:
    """Fill the store as it is before the change of the app."""
    with unsynced():
        engine, _ = open_on(first(), open_lmdb(path), TINY, SEED)
        for part in batches()[:BEGUN]:
            take(engine, part)
        engine.close()


def go_on(path: Path, at: Callable[[int, str, str], None]) -> Iterator[int]:
    """Do all the later work. Yield the number of each stored batch, and call `at` on both sides of each commit."""
    with unsynced(), Counted(at).counting():
        engine, core = open_on(second(), open_lmdb(path), TINY, SEED)
        for number, part in enumerate(batches()[BEGUN:], BEGUN + 1):
            core.build_step(STEP)
            take(engine, part)
            yield number
        while core.build_step(STEP):
            pass
        engine.close()


def main(base: Path, path: Path, points: list[int]) -> None:
    """Kill a fork of this process at each of these points."""
    for where in [(point, side) for point in points for side in (BEFORE, AFTER)]:

        def kill(point: int, side: str, _: str, where: tuple[int, str] = where) -> None:
            if (point, side) == where:
                os.kill(os.getpid(), signal.SIGKILL)

        store = killed_at(path, *where)
        store.mkdir()
        shutil.copyfile(base / FILE, store / FILE)
        child = os.fork()
        if not child:
            for _ in go_on(store, kill):
                pass
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"commit {where} never came"
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(point) for point in sys.argv[3:]])
