"""The building of changed views in a store that is not partitioned, in steps between the batches of writers."""

from __future__ import annotations

import time

from penstock.core import Core, OpenState, Snapshot, StoreThread, built_of, differing
from penstock.generations import STEP, BuildingEngine, Turn, start_build
from penstock.views import Migrated, Progress

__all__ = ["StoreBuilding"]


class StoreBuilding:
    """The views of one core that are being built."""

    def __init__(self, core: Core, state: OpenState) -> None:
        self._core = core
        self._state = state
        self.sweeper: StoreThread[BuildingEngine] | None = None
        self._seen = 0  # how often the lock had been taken at the last step

    def begin(self) -> None:
        """Start a thread that builds the rest, if there is any."""
        self._state.must_be_open()
        if self._core.build is not None or self._core.catalog.trash:
            self.sweeper = start_build(self)

    def stop(self) -> None:
        """End the thread after its step."""
        if self.sweeper is not None:
            self.sweeper.close()

    def settle(self) -> None:
        """Build all views that are being built, so that the next call concerns one generation only."""
        if self._core.build is not None:
            self._finish(None)

    def migrate(self, progress: Progress | None) -> Migrated:
        """Build the rest now, and report the views that were built since the store was opened."""
        self._finish(progress)
        core = self._core
        if core.switched is None:
            return Migrated(core.changed, 0, 0)
        groups = None
        if core.feed.on:
            with Snapshot(core) as snap:
                names = snap.schema.followed()
                groups = sum(1 for _ in differing(snap.reader(), snap.schema, names, core.switched))
        return Migrated(core.changed, core.told, groups)

    def build_once(self, limit: int) -> Turn:
        """Do one step."""
        asked = time.perf_counter()
        with self._state.lock.next():
            self._state.must_be_open()
            began = time.perf_counter()
            more = self._core.build_step(limit)
            took = time.perf_counter() - began
            busy, self._seen = self._state.lock.taken != self._seen, self._state.lock.taken
            if self._core.behind:
                busy = False  # writers make rows as fast as steps process them: they get every other turn at most
                more = self._catch_up()
        return Turn(more, took, began - asked, busy)

    def build_failure(self, why: str | None) -> None:
        """Note why the last step of the thread failed; None if it succeeded."""
        self._core.trouble = why

    def _catch_up(self) -> bool:
        """Process as many rows as came since the last step, so each turn leaves fewer. Return True if any are left."""
        more = True
        while behind := self._core.behind:
            more = self._core.build_step(min(behind, STEP))
        return more

    def _finish(self, progress: Progress | None) -> None:
        more = True
        while more:
            with self._state.lock.next():
                self._state.must_be_open()
                more = self._core.build_step(STEP)
                if self._core.behind:
                    more = self._catch_up()
            if progress is not None and self._core.build is not None:
                with Snapshot(self._core) as snap:
                    progress(*built_of(snap.reader(), snap.schema.catalog))
