"""The calls of an engine about changed definitions and refilled tables: migrate, preview, refill."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from penstock.cache import ArgumentKind, PenstockError, checked
from penstock.engine.calls.protocol import EngineStore
from penstock.generations import Refilled, agrees, preview_of
from penstock.views import App, Migrated, Preview, Progress

__all__ = ["DefinitionCalls"]


class DefinitionCalls(ABC):
    """These calls, for a store of any kind."""

    store: EngineStore

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was put before is durable."""

    @checked
    def migrate(self, progress: Progress | None = None) -> Migrated:
        """Build what is left of views that changed, now; a thread does the same, leaving most of the time to writers.

        When it returns readers see all views as the app defines them. The report says which views were built since the
        store was opened and why, and in how many groups readers find another result. `progress` is told how many
        documents and rows views were told of, of how many.

        engine.migrate().groups
        """
        self.store.state.must_be_writable()
        self.flush()
        return self.store.building.migrate(progress)

    def migrate_as(self, wanted: dict[str, dict[str, Any]], progress: Progress | None = None) -> Migrated:
        """The same for another process, which has an app with these definitions."""
        self.store.state.must_be_writable()
        with self.store.snapshot() as snap:
            agreed = agrees(snap.schema.catalog, wanted)
        if not agreed:
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
        self.store.state.must_be_open()
        if not isinstance(app, App):
            raise ArgumentKind("app", app, "give a ps.App")
        with self.store.snapshot() as snap:
            return preview_of(snap, app)

    def begin_refill(self, tables: Sequence[str], wanted: dict[str, dict[str, Any]]) -> int:
        """Begin to refill some tables, and all views on them, from a store of an app with these definitions.

        The answer is the seed that the other store must have. A refill that was begun before is discarded. Others may
        write meanwhile: records from now on are applied to the copies from the other store.
        """
        self.store.state.must_be_writable(*tables)
        self.flush()
        self.store.building.settle()
        self._must_define(tables, wanted)
        seed = self.store.begin_refill(tables)
        self._build_on()
        return seed

    def refill(
        self, folder: str | os.PathLike[str], progress: Callable[[str, int, int], None] | None = None
    ) -> Refilled:
        """Take over what another store has of the tables for which a refill was begun: all at once, as readers see it.

        What was written since the beginning is laid over it. Sources that were read there go on where the answer says.
        `progress` is told what is done, how much of it, and of how much; what it raises gives up the refill.
        """
        self.store.state.must_be_writable()
        self.flush()
        self.store.building.settle()
        try:
            return self.store.refill(os.fspath(folder), progress)
        finally:
            self._build_on()

    def _must_define(self, tables: Sequence[str], wanted: dict[str, dict[str, Any]]) -> None:
        """PenstockError is raised if the store does not have these definitions, or a table of it has another one."""
        with self.store.snapshot() as snap:
            catalog = snap.schema.catalog
        if not agrees(catalog, wanted) or any(catalog.entries[name].definition != wanted[name] for name in tables):
            raise PenstockError(
                "the store has other definitions than this app; run `penstock migrate`, then this again, or start the "
                "process that holds the store with this app"
            )

    def _build_on(self) -> None:
        """Have a thread empty the tables and views that no reader needs any more."""
        self.store.building.stop()
        self.store.building.begin()
