"""The building of changed views in a store that is not partitioned, in steps between the batches of writers."""

from __future__ import annotations

from penstock.core import Core, OpenState, Snapshot, StoreThread, built_of
from penstock.generations import STEP, BuildingEngine, BuildTurns, Turn, catch_up, migrated_of, start_build
from penstock.views import Migrated, Progress

__all__ = ["StoreBuilding"]


class StoreBuilding:
    """The views of one core that are being built."""

    def __init__(self, core: Core, state: OpenState) -> None:
        self._core = core
        self._state = state
        self.sweeper: StoreThread[BuildingEngine] | None = None
        self._turns = BuildTurns(state)

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
        return migrated_of(core.changed, core.built_records, [core.switched], core.feed.on, lambda: Snapshot(core))

    def build_once(self, limit: int) -> Turn:
        """Do one step."""
        return self._turns.take(lambda: self._core.build_step(limit), lambda: catch_up(self._core))

    def build_failure(self, reason: str | None) -> None:
        """Note why the last step of the thread failed; None if it succeeded."""
        self._core.trouble = reason

    def _finish(self, progress: Progress | None) -> None:
        more = True
        while more:
            more = self.build_once(STEP).more
            if progress is not None and self._core.build is not None:
                with Snapshot(self._core) as snap:
                    progress(*built_of(snap.reader(), snap.schema.catalog))
