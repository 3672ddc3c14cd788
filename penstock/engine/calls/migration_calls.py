"""The part of the engine that people use of changed definitions: building the rest now, seeing what would change."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.cache import ArgumentKind, PenstockError, checked
from penstock.core import Turns, built_of, differing
from penstock.generations import STEP, Sweeper, Turn, agrees, preview_of
from penstock.views import App, Migrated, Preview, Progress

if TYPE_CHECKING:
    from penstock.core import Core, Snapshot

__all__ = ["Migrating"]


class Migrating(ABC):
    """The views of an engine that are being built; its writer is behind its lock."""

    _core: Core
    _lock: Turns
    _path: str | None

    def __init__(self) -> None:
        self._sweeper: Sweeper | None = None
        self._seen = 0  # how often the lock had been taken at the last step

    @property
    def core(self) -> Core:
        """The writer of the store, for the rooms of this package."""
        return self._core

    @property
    def lock(self) -> Turns:
        """The lock before the writer, for the rooms of this package."""
        return self._lock

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _writable(self, *tables: str) -> None: ...

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was put before is durable."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """All views and tables at one position."""

    @checked
    def migrate(self, progress: Progress | None = None) -> Migrated:
        """Build what is left of views that changed, now; a thread does the same, leaving most of the time to writers.

        When it returns readers see all views as the app defines them. The report says which views were built since the
        store was opened and why, and in how many groups readers find another result. `progress` is told how many
        documents and rows views were told of, of how many.

        engine.migrate().groups
        """
        self._writable()
        self.flush()
        self._finish(progress)
        core = self._core
        if core.switched is None:
            return Migrated(core.changed, 0, 0)
        groups = None
        if core.feed.on:
            with self.snapshot() as snap:
                names = snap.schema.followed()
                groups = sum(1 for _ in differing(snap.reader(), snap.schema, names, core.switched))
        return Migrated(core.changed, core.told, groups)

    def migrate_as(self, wanted: dict[str, dict[str, Any]], progress: Progress | None = None) -> Migrated:
        """The same for another process, which has an app with these definitions."""
        self._writable()
        if not agrees(self._core.catalog, wanted):
            raise PenstockError(
                "the process that holds the store was started with other definitions of its views; end it and run "
                "`penstock migrate`, or start it again with this app"
            )
        return self.migrate(progress)

    def preview(self, app: App) -> Preview:
        """What opening the store with this app would change, before anything is: which views, why, and how much work.

        A sample of documents goes through the app, so that it shows rows as they would be, and documents that views
        could not take.

        engine.preview(app).changes
        """
        self._open()
        if not isinstance(app, App):
            raise ArgumentKind("app", app, "give a ps.App")
        with self.snapshot() as snap:
            return preview_of(snap, app)

    def begin_sweeping(self) -> None:
        """Have a thread build what is left, if there is anything."""
        self._open()
        if self._core.sweep is not None or self._core.catalog.trash:
            self._sweeper = Sweeper(self)

    def sweep_once(self, limit: int) -> Turn:
        """One step."""
        asked = time.perf_counter()
        with self._lock.next():
            self._open()
            began = time.perf_counter()
            more = self._step(limit)
            took = time.perf_counter() - began
            busy, self._seen = self._lock.taken != self._seen, self._lock.taken
            if self._behind:
                busy = False  # writers make rows as quickly as they are told: they get no more than every other turn
                more = self._catch_up()
        return Turn(more, took, began - asked, busy)

    def _step(self, limit: int) -> bool:
        """Do it; whether there is another."""
        return self._core.sweep_step(limit)

    @property
    def _behind(self) -> int:
        """How many rows came since the last step, which writers wait for."""
        return self._core.behind

    def _catch_up(self) -> bool:
        """Tell as many rows as came since the last step: each turn leaves fewer then. Whether there is more to do."""
        more = True
        while behind := self._core.behind:
            more = self._core.sweep_step(min(behind, STEP))
        return more

    def sweep_failed(self, why: str | None) -> None:
        """The last step of the thread failed, and why; None: it didn't."""
        self._core.trouble = why

    def _settle(self) -> None:
        """Have all views built that are being built: what comes now has to do with one generation only."""
        if self._core.sweep is not None:
            self._finish(None)

    def _finish(self, progress: Progress | None) -> None:
        more = True
        while more:
            with self._lock.next():
                self._open()
                more = self._core.sweep_step(STEP)
                if self._core.behind:
                    more = self._catch_up()
            if progress is not None and self._core.sweep is not None:
                with self.snapshot() as snap:
                    progress(*built_of(snap.reader(), snap.schema.catalog))

    def _stop_sweeping(self) -> None:
        if self._sweeper is not None:
            self._sweeper.close()
