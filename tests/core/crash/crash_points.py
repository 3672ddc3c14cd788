"""A process that counts its commits. At each it copies its store as an image, or it is killed there.

    python -m tests.core.crash.crash_points PATH BATCHES SIZE          writes; prints a line for each side of a commit
    python -m tests.core.crash.crash_points PATH BATCHES SIZE 7 180 …  writes again for each commit, killed on each side

It puts the batches of `crash_writer` into an empty store. Points are the commits of the store, counted from 1. They
store the catalog, the epoch, a batch, or a step of an index fold or of compaction. A killed process leaves the bytes
that the kernel has of its files. So an image, a copy of the file at that moment, is the result of a kill. The second
form proves that both are equal to the byte. Both forms run with one seed for the store. They run without syncs, because
a sync protects from the death of the machine, not of a process.
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
    """Count commits, and call `at` with the number, the side and the kind of each."""

    def __init__(self, at: Callable[[int, str, str], None]) -> None:
        self.at = at
        self.points = 0
        self.kind = ""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count commits in this context."""
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
    """Open LMDB without syncs. A process that dies loses no bytes that the kernel has."""
    real = lmdb.open

    def opened(*args: Any, **options: Any) -> Any:
        return real(*args, **{**options, "sync": False, "metasync": False})

    with mock.patch.object(lmdb, "open", opened), small_buckets():
        yield


@dataclass(frozen=True)
class Writing:
    """A workload: its app, a function that writes a range of batches, its limits, and the context for the run."""

    app: Callable[[], ps.App]
    write: Callable[[Any, int, int, int], Iterator[int]]
    limits: Limits
    under: Callable[[], AbstractContextManager[None]] = nullcontext


SHOPPING = Writing(SHOP.app, writer.write, TINY)


def run(
    path: Path, batches: int, size: int, at: Callable[[int, str, str], None], what: Writing = SHOPPING
) -> Iterator[int]:
    """Write from an empty store. Yield the number of each acknowledged batch."""
    with (
        what.under(),
        unsynced(),
        mock.patch.object(secrets, "randbits", return_value=7),
        Counted(at).counting(),
        ps.open(what.app(), path, limits=what.limits) as engine,
    ):
        yield from what.write(engine, 0, batches, size)


def with_images(path: Path, batches: int, size: int, what: Writing) -> None:
    """Write to the end. Copy each image that differs from the last one, and name it by its first point."""
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
    """Write until this point, and kill the process there."""

    def kill(point: int, side: str, _: str) -> None:
        if (point, side) == where:
            os.kill(os.getpid(), signal.SIGKILL)

    for _ in run(path, batches, size, kill, what):
        pass


def killed_at(path: Path, point: int, side: str) -> Path:
    """Return the path of the store whose process is killed at this point."""
    return path.with_name(f"{path.name}-killed-{point}-{side}")


def main(path: Path, batches: int, size: int, points: list[int], what: Writing = SHOPPING) -> None:
    """Write images, or kill a fork of this process at each point."""
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
