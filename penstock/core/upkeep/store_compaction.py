"""Compaction of a whole store: it releases old versions from the logs, in steps between writes.

For each table it folds all keys into the index, and forgets the tombstones that `tombstones=N` allows to forget. Then
it copies the live lines to the end, the oldest first. A second index fold releases the copied segments. Invariants:

- each step is a transaction, so compaction can be stopped or killed between two steps;
- content does not change: the digest of the store is the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.cache import DocumentLog, forget_step, segments_from
from penstock.core.catalog_nodes import numbers_moved_lines
from penstock.core.reading.store_snapshot import Snapshot
from penstock.gateway import TableNode, forgettable

if TYPE_CHECKING:
    from penstock.core.commit import Core

__all__ = ["Compacted", "Progress", "compact"]

Progress = Callable[[int, int], None]
"""A callback that receives the work done and its total."""
STEP_RECORDS = 1 << 14  # records that one step passes over
_FOLD_STEPS = 8
_FOLD_SHARE = 4  # a fold releases copied lines once they exceed one in so many live ones


@dataclass(frozen=True, slots=True)
class Compacted:
    """The outcome of a compaction: bytes of rows before and after, bytes of the file, and removed lines.

    >>> Compacted(before=300, after=100, file=400, records=20, tombstones=2).freed
    200
    """

    before: int
    after: int
    file: int
    records: int
    tombstones: int

    @property
    def freed(self) -> int:
        """Bytes that rows no longer take."""
        return self.before - self.after

    def data(self) -> dict[str, int]:
        """Return the outcome as plain data."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, int]) -> Compacted:
        """Build the outcome from plain data."""
        return cls(**data)


def compact(core: Core, lock: AbstractContextManager[Any], progress: Progress | None) -> Compacted:
    """Compact all tables of a store whose writer uses this lock."""
    before = core.store.info()["used"]
    lines = tombstones = 0
    tables = [_Table(core, lock, name) for name in core.tables]
    done, total = 0, sum(table.extent for table in tables)
    for table in tables:
        start = done

        def tell(passed: int, start: int = start) -> None:
            if progress is not None:
                progress(min(start + passed, total), total)

        records, old = table.run(tell)
        done += table.extent
        lines, tombstones = lines + records, tombstones + old
    if progress is not None:
        progress(total, total)
    with lock:
        core.store.trim()
    info = core.store.info()
    return Compacted(before, info["used"], info["bytes"], lines, tombstones)


class _Table:
    """The compaction of one table. Each step asks for its node again, because caches may be dropped in between."""

    def __init__(self, core: Core, lock: AbstractContextManager[Any], name: str) -> None:
        self._core = core
        self._lock = lock
        self._name = name
        with lock:
            core.ready()
            self.extent = self._log.mark.tail - self._log.head

    @property
    def _node(self) -> TableNode:
        return self._core.tables[self._name]

    @property
    def _log(self) -> DocumentLog:
        return self._node.log

    def run(self, tell: Callable[[int], None]) -> tuple[int, int]:
        """Return the number of removed lines, and of forgotten tombstones."""
        forgotten = self._forget()
        return (self._move(tell) if self._log.compact_worth() else 0), forgotten

    def _do(self, step: Callable[[], bool]) -> bool:
        """Run one step under the lock, with current caches. Return True if another is left."""
        with self._lock:
            return self._core.between(step)

    def _fold(self) -> None:
        """Fold all keys, and release the segments copied before."""

        def step() -> bool:
            log = self._log
            with self._core.store.write() as writer:
                done = log.fold_step(writer, _FOLD_STEPS)
            done()
            return log.folding

        for _ in range(1 + self._log.folding):  # a fold in progress covers only the keys of its start
            while self._do(step):
                pass

    def _room(self, start: int) -> None:
        """Make room in the cache for the keys of the next step's segments."""
        log = self._log
        with self._core.store.read() as reader:
            first = next(segments_from(reader, self._node.number, start), None)
            need = max(STEP_RECORDS, 0 if first is None else len(first))
        if not log.keys.room(need):
            self._node.forget(need)

    def _forget(self) -> int:
        """Forget the tombstones that may be forgotten. Return their number."""
        with Snapshot(self._core) as snap:
            kind = snap.state.ts.get(self._name)
            is_old = forgettable([snap.reader()], self._node.table, self._node.number, kind)
        if is_old is None:
            return 0
        self._fold()
        at, gone = self._log.head, 0

        def step() -> bool:
            nonlocal at, gone
            if self._log.folding or self._log.mark.doubling:
                return False  # another writer has begun a fold: the rest is left for the next compaction
            start = max(at, self._log.head)
            self._room(start)
            with self._core.store.write() as writer:
                at, n, then = forget_step(self._log, writer, start, STEP_RECORDS, is_old)
            then()
            gone += n
            return at > start

        while self._do(step):
            pass
        return gone

    def _move(self, tell: Callable[[int], None]) -> int:
        """Copy the live lines of all current segments to the end. Return the number of other lines."""
        last = self._log.mark.tail
        passed = copied = 0

        def step() -> bool:
            nonlocal passed, copied
            head, tail = self._log.head, self._log.mark.tail
            if head >= last:
                return False
            self._room(head)
            numbered = numbers_moved_lines(self._core.catalog, self._core.state, self._node.table)
            with self._core.store.write() as writer:
                then = self._log.compact_step(writer, STEP_RECORDS, self._node.carry(numbered), asked=True)
            assert then is not None, "there is a segment, and room for its keys"
            then()
            passed, copied = passed + self._log.head - head, copied + self._log.mark.tail - tail
            return True

        while self._do(step):
            tell(passed)
            if self._log.keys.dirty_count * _FOLD_SHARE > self._living():
                self._fold()
        self._fold()
        return passed - copied

    def _living(self) -> int:
        mark = self._log.mark
        return max(mark.present + mark.tombstones, self._log.limits.fold_least)
