"""Kill a repartitioning or a restore before each change of a file or folder, and before some commits.

python -m tests.partitions.copies.crash_repartition STORE TO EVERY

The store gets TO partitions, or is restored from the copy TO if that is a path. Each fork works on a copy STORE-POINT.
It is killed before the point of that number: a commit, or a call that changes a folder. Only every EVERYth commit
counts. The output has a line for each point with its kind. The last fork completes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.engine import repartition, restore_any
from tests.core.crash.crash_points import unsynced

CHANGES = ("mkdir", "rename", "replace", "unlink", "rmdir")


@contextmanager
def counted(every: int, at: Callable[[int, str], None]) -> Iterator[None]:
    """Count points within this context: call `at` before each, with its number and kind."""
    points = commits = 0

    def point(kind: str) -> None:
        nonlocal points, commits
        commits += kind == "commit"
        if kind != "commit" or commits % every == 0:
            at(points, kind)
            points += 1

    def before(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            point(kind)
            return real(*args, **options)

        return called

    with ExitStack() as stack:
        for name in CHANGES:
            stack.enter_context(mock.patch.object(os, name, before(name, getattr(os, name))))
        stack.enter_context(mock.patch.object(LmdbWriter, "_commit", before("commit", LmdbWriter._commit)))
        yield


def killed(store: str, to: str, every: int, where: int) -> None:
    """Repartition or restore, and kill this process before this point."""

    def at(point: int, kind: str) -> None:
        if point == where:
            print(point, kind, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    with unsynced(), counted(every, at):
        if to.isdigit():
            repartition(store, int(to))
        else:
            restore_any(to, store, force=True)


def main(store: str, to: str, every: int) -> None:
    """Kill a fork at each point in turn."""
    where, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        copy = f"{store}-{where}"
        shutil.copytree(store, copy)
        child = os.fork()
        if not child:
            killed(copy, to, every, where)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        where += 1
    assert code == 0, f"the last one ended with {code}"
    print(where - 1, "end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
