"""A refill of a store of several partitions: each takes over its part, and all of them switch together.

    the other store is split by the ranges of this one ─▶ each partition copies its part ─▶ records since are applied ─▶
    held, with nothing in flight: the rest is applied ─▶ all are ready ─▶ each switches ─▶ the former tables go

Puts take turns with the steps before the partitions are held, and wait from then on. Invariants:

- all partitions give tables and views the same numbers, by which contributions cross to views of the refill;
- no partition is ready before all of them have applied every record, and nothing is in flight;
- no partition commits content after all are ready, and before all have switched: the first switch decides.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from penstock.cache import PenstockError, StoreMissing, Tell, open_lmdb
from penstock.core import StoreLayout, is_store, read_catalog, read_layout
from penstock.engine.calls.store_refill import REST
from penstock.engine.partitioned_writing import PartitionedWriting
from penstock.generations import Progressed, Refilled, not_meant
from penstock.partitions import PartitionedBuilding, PartitionHandle, ServedStore, repartition

__all__ = ["PartitionedRefill"]

_STEP_LINES = 1 << 12


class RefilledStore(ServedStore, Protocol):
    """A store of several partitions, as a refill of its tables needs it."""

    building: PartitionedBuilding
    layout: StoreLayout
    handles: list[PartitionHandle]
    writing: PartitionedWriting

    def carry(self) -> list[str]:
        """Wait until nothing is in flight, or only refused productions are. Return the partitions and reasons."""
        ...


class PartitionedRefill:
    """The refill of tables at all partitions of a store."""

    def __init__(self, store: RefilledStore) -> None:
        self._store = store
        self._state = store.state
        self._building = store.building

    def begin(self, tables: Sequence[str]) -> int:
        """Begin to refill these tables everywhere; the seed that the other store must have."""
        with self._state.lock.next():
            self._state.must_be_open()
            self._building.finish_switch_first()
            self._each("begin", list(tables))
        return self._store.layout.seed

    def run(self, path: str, progress: Tell | None) -> Refilled:
        """Take over the content of the store at a path. If `progress` raises, the refill is discarded.

        The other store becomes one of as many partitions.
        """
        rest, first = threading.Event(), 0
        tell = progress or _nobody
        folders = self._split(path, tell)
        try:
            with self._state.lock.next():
                self._state.must_be_open()
                self._building.finish_switch_first()
                first = 1 + max(self._each("highest"))
                for handle, own in zip(self._store.handles, folders, strict=True):
                    handle.repair("refill", "open", own, first)
            for done in self._filled():
                tell(*done)
                rest.wait(REST)
            with self._state.lock.next():
                out = self._switched(first)
            tell("switching", 1, 1)
        except BaseException:
            self._give_up(first)
            raise
        finally:
            for handle in self._store.handles:
                with suppress(PenstockError):
                    handle.repair("refill", "end")
        return out

    def _split(self, path: str, tell: Callable[[str, int, int], None]) -> list[str]:
        """Make the other store one of as many partitions as this one; their folders."""
        layout = read_layout(path)
        if layout is None:
            if not is_store(path):
                raise StoreMissing(path)
            fresh = open_lmdb(path, readonly=True)
            try:
                with fresh.read() as reader:
                    catalog = read_catalog(reader, path)
            finally:
                fresh.close()
            seed = None if catalog is None else catalog.seed
        else:
            seed = layout.seed
        with self._store.snapshot() as snap:
            begun = all(partition.schema.catalog.refill is not None for partition in snap.parts)
        if not begun or seed != self._store.layout.seed:
            raise not_meant(path)
        repartition(path, len(self._store.handles), tell)
        layout = read_layout(path)
        return [os.path.abspath(own) for own in ([path] if layout is None else layout.folders(path))]

    def _filled(self) -> Iterator[Progressed]:
        """Copy the other store, and apply most of the records that came since, in steps between batches."""
        copied, more = [(0, 0)] * len(self._store.handles), True
        while more:
            with self._state.lock.next():
                now = self._step_each("copy")
            copied = [before if own is None else own for before, own in zip(copied, now, strict=True)]
            more = any(own is not None for own in now)
            if more:
                yield "copying", sum(done for done, _ in copied), sum(total for _, total in copied)
        with self._state.lock.next():
            self._step_each("wake")
        passed = left = 0
        while (behind := self._behind_by()) > _STEP_LINES:
            limit = max(_STEP_LINES, 2 * max(0, behind - left))  # more than writers add, so that it comes to an end
            with self._state.lock.next():
                passed += sum(self._step_each("carry", limit))
                with suppress(PenstockError):  # a partition that can't take contributions fails the switch
                    self._store.push()
            left = self._behind_by()
            yield "carrying over", passed, passed + left

    def _behind_by(self) -> int:
        with self._state.lock.next():
            return sum(self._step_each("behind"))

    def _switched(self, first: int) -> Refilled:
        """Apply the rest while no other thread writes, and switch."""
        self._state.must_be_open()
        with self._store.still():
            self._step_each("carry", None)
            self._arrive()
            self._step_each("repeat")
            self._arrive()
            answers = self._step_each("ready", first)
            self._building.refilled = first
            self._building.switching = True
            self._store.writing.stands.sure = False
            self._building.finish_switch()
        position = tuple(self._each("switch", first))
        self._store.writing.learn()
        sources = {name: min(own[name] for own, _ in answers) for name in sorted(answers[0][0])}
        return Refilled(position, sources, tuple(sorted({name for _, back in answers for name in back})))

    def _arrive(self) -> None:
        """Wait until nothing is in flight; PenstockError if a partition refuses a production."""
        for why in self._store.carry():
            raise PenstockError(f"{why}; run penstock check --fix, then the backfill again")

    def _give_up(self, first: int) -> None:
        """Discard the refill, unless a partition may have switched: then the next batch completes the switch."""
        if self._building.switching:
            return
        with self._state.lock.next():
            for handle in self._store.handles:
                with suppress(PenstockError):  # the next opening discards it there
                    handle.repair("refill", "give_up", first)

    def _step_each(self, do: str, *what: Any) -> list[Any]:
        """Take a step at each partition, unless the store was closed meanwhile."""
        self._state.must_be_open()
        return self._each(do, *what)

    def _each(self, do: str, *what: Any) -> list[Any]:
        return self._store.at_each(lambda handle: handle.repair("refill", do, *what))


def _nobody(what: str, done: int, total: int) -> None:
    """Ignore the progress."""
