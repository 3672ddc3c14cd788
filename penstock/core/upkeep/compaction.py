"""Giving back what old versions take: all of a store's log gone through, in steps between which others write.

For each table: fold all that the index doesn't name yet; forget the deletions that `tombstones=N` lets go; copy the
living lines to the end, the oldest first; fold again, which releases what was copied. Invariants:

- each step is a transaction of its own, so that it can be stopped, or killed, between any two;
- content stays as it is: the digest of the store is the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.cache import DocLog, forget_step, segments_from
from penstock.core.nodes import moves_noted
from penstock.core.reading.snapshot import Snapshot
from penstock.gateway import TableNode, forgettable

if TYPE_CHECKING:
    from penstock.core.commit import Core

__all__ = ["Compacted", "Progress", "compact"]

Progress = Callable[[int, int], None]
"""Told how much is done, of how much."""
STEP_RECORDS = 1 << 14  # records that one step passes over
_FOLD_STEPS = 8
_FOLD_SHARE = 4  # a fold releases what was copied once that is so much of what lives


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compacting did: bytes that rows took before and take now, those of the file, and what went.

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
        """As plain data."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, int]) -> Compacted:
        """Made of that data."""
        return cls(**data)


def compact(core: Core, lock: AbstractContextManager[Any], progress: Progress | None) -> Compacted:
    """Compact all tables of a store whose writer is behind this lock."""
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
    """One table being compacted; its node is asked for anew in each step, for memory may be dropped in between."""

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
    def _log(self) -> DocLog:
        return self._node.log

    def run(self, tell: Callable[[int], None]) -> tuple[int, int]:
        """How many lines, and how many deletions, went."""
        forgotten = self._forget()
        return (self._move(tell) if self._log.compact_worth() else 0), forgotten

    def _do(self, step: Callable[[], bool]) -> bool:
        """One step behind the lock, with memory as it should be; whether there is another one."""
        with self._lock:
            return self._core.between(step)

    def _fold(self) -> None:
        """Fold all that is not folded now, and release what was copied before."""

        def step() -> bool:
            log = self._log
            with self._core.store.write() as writer:
                done = log.fold_step(writer, _FOLD_STEPS)
            done()
            return log.folding

        for _ in range(1 + self._log.folding):  # one that is under way is of what there was at its beginning
            while self._do(step):
                pass

    def _room(self, start: int) -> None:
        """Make room in memory for the keys of the segments from here on that one step looks at."""
        log = self._log
        with self._core.store.read() as reader:
            first = next(segments_from(reader, self._node.number, start), None)
            need = max(STEP_RECORDS, 0 if first is None else len(first))
        if not log.keys.room(need):
            self._node.forget(need)

    def _forget(self) -> int:
        """Forget the deletions that may be forgotten; how many."""
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
                return False  # another writer has begun one: what is left over is for the next time
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
        """Copy the living lines of all segments there are now to the end; how many others there were."""
        last = self._log.mark.tail
        passed = copied = 0

        def step() -> bool:
            nonlocal passed, copied
            head, tail = self._log.head, self._log.mark.tail
            if head >= last:
                return False
            self._room(head)
            noted = moves_noted(self._core.catalog, self._core.state, self._node.table)
            with self._core.store.write() as writer:
                then = self._log.compact_step(writer, STEP_RECORDS, self._node.carry(noted), asked=True)
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
