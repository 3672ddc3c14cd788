"""The calls of an engine about changed definitions and refilled tables: migrate, preview, refill."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from penstock.cache import ArgumentKind, PenstockError, checked
from penstock.engine.calls.protocol import EngineStore
from penstock.generations import Refilled, agrees, preview_of
from penstock.views import App, Migrated, Preview, Progress, check_together

__all__ = ["DefinitionCalls"]


class DefinitionCalls(ABC):
    """The calls about definitions and refills, for a store of any kind."""

    store: EngineStore

    @abstractmethod
    def flush(self) -> None:
        """Wait until all earlier puts are durable."""

    @checked
    def migrate(self, progress: Progress | None = None) -> Migrated:
        """Build the rest of the changed views now. A background thread does the same, but gives way to writers.

        On return readers see all views as the app defines them. The report lists the views built since the store was
        opened, with reasons, and the number of groups with another result. `progress` receives the number of documents
        and rows processed and the total.

        engine.migrate().groups
        """
        self.store.state.must_be_writable()
        self.flush()
        return self.store.building.migrate(progress)

    def migrate_as(self, wanted: dict[str, dict[str, Any]], progress: Progress | None = None) -> Migrated:
        """Migrate for another process with an app of these definitions."""
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
        """Preview the changes if this app opened the store: the views, the reasons and the amount of work.

        The app maps a sample of documents. The preview shows the resulting rows, and the documents that views would
        hold.

        engine.preview(app).changes
        """
        self.store.state.must_be_open()
        if not isinstance(app, App):
            raise ArgumentKind("app", app, "give a ps.App")
        with self.store.snapshot() as snap:
            return preview_of(snap, app)

    def begin_refill(self, tables: Sequence[str], wanted: dict[str, dict[str, Any]]) -> int:
        """Begin to refill some tables, and all views on them, from a store of an app with these definitions.

        Return the seed that the other store must have. An unfinished earlier refill is discarded. Others may write
        meanwhile: records from now on are applied to the copies from the other store.
        """
        self.store.state.must_be_writable(*tables)
        check_together(self.store.state.app.joins(), tables)
        self.flush()
        self.store.building.settle()
        self._must_define(tables, wanted)
        seed = self.store.begin_refill(tables)
        self._build_on()
        return seed

    def refill(
        self, folder: str | os.PathLike[str], progress: Callable[[str, int, int], None] | None = None
    ) -> Refilled:
        """Replace the content of the tables of a refill with that of another store; readers see one switch.

        Records written since the beginning are applied to it. The result has the offsets of sources that the other
        store read. `progress` receives the step, the amount done and the total. If it raises, the refill is discarded.
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
