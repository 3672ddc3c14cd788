"""The process whose commits are counted: at each it leaves an image of its store, or it is killed there.

    python -m tests.core.crash.crash_points PATH BATCHES SIZE          writes; says of each commit what an image says
    python -m tests.core.crash.crash_points PATH BATCHES SIZE 7 180 …  writes anew for each of these, killed there twice

It puts the batches of `crash_writer` into an empty store. Points are the commits of the store, counted from 1: that of
the catalog, of the epoch, of a batch, of a step of folding or compacting. What a process that is killed leaves is what
the kernel has of its files, so an image, a copy of the file at that moment, is what a kill would leave; that they are
the same to the byte is what the second form is for. Both run with one seed for the store, and without syncing, which is
for the death of the machine, not of a process.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import lmdb

import penstock as ps
from penstock.cache import DocumentLog, Limits
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from tests.core.crash import crash_writer as writer
from tests.harness.histories import small_buckets
from tests.harness.worlds import SHOP, TINY

BEFORE, AFTER = "before", "after"
FILE = "data.mdb"


class Counted:
    """Counts commits, and calls `at` with the number, the side and the kind of each."""

    def __init__(self, at: Callable[[int, str, str], None]) -> None:
        self.at = at
        self.points = 0
        self.kind = ""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """While commits are counted."""
        with ExitStack() as stack:
            for owner, name in ((DocumentLog, "fold_step"), (DocumentLog, "compact_step")):
                stack.enter_context(mock.patch.object(owner, name, self._named(getattr(owner, name), name)))
            stack.enter_context(mock.patch.object(LmdbWriter, "_commit", self._counted(LmdbWriter._commit)))
            yield

    def _named(self, step: Callable[..., Any], name: str) -> Callable[..., Any]:
        def named(*args: Any, **options: Any) -> Any:
            self.kind = name
            return step(*args, **options)

        return named

    def _counted(self, commit: Callable[[LmdbWriter], None]) -> Callable[[LmdbWriter], None]:
        def counted(own: LmdbWriter) -> None:
            kind, self.kind = self.kind or sys._getframe(2).f_code.co_name, ""
            self.points += 1
            self.at(self.points, BEFORE, kind)
            commit(own)
            self.at(self.points, AFTER, kind)

        return counted


@contextmanager
def unsynced() -> Iterator[None]:
    """LMDB without syncing: a process that dies takes nothing with it that the kernel has."""
    real = lmdb.open

    def opened(*args: Any, **options: Any) -> Any:
        return real(*args, **{**options, "sync": False, "metasync": False})

    with mock.patch.object(lmdb, "open", opened), small_buckets():
        yield


@dataclass(frozen=True)
class Writing:
    """What is written: the app, its batches from one number to another, and what holds while they are."""

    app: Callable[[], ps.App]
    write: Callable[[Any, int, int, int], Iterator[int]]
    limits: Limits
    under: Callable[[], AbstractContextManager[None]] = nullcontext


SHOPPING = Writing(SHOP.app, writer.write, TINY)


def run(
    path: Path, batches: int, size: int, at: Callable[[int, str, str], None], what: Writing = SHOPPING
) -> Iterator[int]:
    """Write from an empty store on; gives the number of each batch that is acknowledged."""
    with (
        what.under(),
        unsynced(),
        mock.patch.object(secrets, "randbits", return_value=7),
        Counted(at).counting(),
        ps.open(what.app(), path, limits=what.limits) as engine,
    ):
        yield from what.write(engine, 0, batches, size)


def with_images(path: Path, batches: int, size: int, what: Writing) -> None:
    """Write to the end; each image that differs from the last is left beside it, named by its first point."""
    done, last, name = 0, b"", ""

    def image(point: int, side: str, kind: str) -> None:
        nonlocal last, name
        file = path / FILE
        now = file.read_bytes() if file.exists() else b""
        if now != last:
            last, name = now, f"{path.name}-{point}-{side}"
            (path.parent / name).write_bytes(now)
        print(json.dumps({"point": point, "side": side, "kind": kind, "done": done, "image": name}))

    for number in run(path, batches, size, image, what):
        done = number


def with_kill(path: Path, batches: int, size: int, where: tuple[int, str], what: Writing) -> None:
    """Write until this point, and be killed there."""

    def kill(point: int, side: str, _: str) -> None:
        if (point, side) == where:
            os.kill(os.getpid(), signal.SIGKILL)

    for _ in run(path, batches, size, kill, what):
        pass


def killed_at(path: Path, point: int, side: str) -> Path:
    """The store of the process that is killed there."""
    return path.with_name(f"{path.name}-killed-{point}-{side}")


def main(path: Path, batches: int, size: int, points: list[int], what: Writing = SHOPPING) -> None:
    """Leave images, or be killed at points, each time in a fork."""
    if not points:
        with_images(path, batches, size, what)
    for where in [(point, side) for point in points for side in (BEFORE, AFTER)]:
        child = os.fork()
        if not child:
            with_kill(killed_at(path, *where), batches, size, where, what)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"commit {where} never came"
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), [int(point) for point in sys.argv[4:]])
