"""The part of the engine that takes over what was made of some tables elsewhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.cache import PenstockError, open_lmdb
from penstock.core import Catalog
from penstock.engine.calls.migration_calls import Migrating
from penstock.generations import Progressed, Refilled, Refilling, agrees, begin

__all__ = ["REST", "Refills", "must_define"]

REST = 0.01  # seconds that writers have for themselves between two steps


def must_define(catalog: Catalog, tables: Sequence[str], wanted: dict[str, dict[str, Any]]) -> None:
    """PenstockError is raised if the store does not have these definitions, or a table of it has another one."""
    if not agrees(catalog, wanted) or any(catalog.entries[name].definition != wanted[name] for name in tables):
        raise PenstockError(
            "the store has other definitions than this app; run `penstock migrate`, then this again, or start the "
            "process that holds the store with this app"
        )


class Refills(Migrating):
    """The refills of an engine; its writer is behind its lock."""

    def begin_refill(self, tables: Sequence[str], wanted: dict[str, dict[str, Any]]) -> int:
        """Begin to refill some tables, and all views on them, from a store of an app with these definitions.

        The answer is the seed that the other store must have. A refill that was begun before is discarded. Others may
        write meanwhile: records from now on are applied to the copies from the other store.
        """
        for name in tables:
            self._writable(name)
        self.flush()
        self._settle()
        must_define(self._core.catalog, tables, wanted)
        with self._lock.next():
            seed = self._core.between(lambda: begin(self._core, tables))
        self._sweep_on()
        return seed

    def refill(
        self, folder: str | os.PathLike[str], progress: Callable[[str, int, int], None] | None = None
    ) -> Refilled:
        """Take over what another store has of the tables for which a refill was begun: all at once, as readers see it.

        What was written since the beginning is laid over it. Sources that were read there go on where the answer says.
        `progress` is told what is done, how much of it, and of how much; what it raises gives up the refill.
        """
        self._writable()
        self.flush()
        self._settle()
        path, rest = os.fspath(folder), threading.Event()
        fresh = open_lmdb(path, readonly=True)
        try:
            with fresh.read() as reader:
                run = Refilling(self._core, path, reader)
                try:
                    for done in self._steps(run):
                        if progress is not None:
                            progress(*done)
                        rest.wait(REST)
                except BaseException:
                    with self._lock.next():
                        self._core.between(run.give_up)
                    raise
        finally:
            fresh.close()
            self._sweep_on()
        assert run.done is not None, "its last step is the switch"
        return run.done

    def _steps(self, run: Refilling) -> Iterator[Progressed]:
        """Its steps, each behind the lock."""
        steps = run.steps()
        while True:
            with self._lock.next():
                self._open()
                done: Progressed | None = self._core.between(lambda: next(steps, None))
            if done is None:
                return
            yield done

    def _sweep_on(self) -> None:
        """Have what nobody reads any more emptied."""
        self._stop_sweeping()
        self.begin_sweeping()
