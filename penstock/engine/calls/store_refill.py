"""The refill of tables in a store that is not partitioned, in steps between the batches of writers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from penstock.cache import Tell, open_lmdb
from penstock.core import Core, OpenState
from penstock.generations import Progressed, Refilled, Refilling, begin

__all__ = ["REST", "StoreRefill"]

REST = 0.01  # seconds that writers have for themselves between two steps


class StoreRefill:
    """The refill of some tables of one core."""

    def __init__(self, core: Core, state: OpenState) -> None:
        self._core = core
        self._state = state

    def begin(self, tables: Sequence[str]) -> int:
        """Begin to refill these tables. Return the seed that the other store must have."""
        with self._state.lock.next():
            return self._core.between(lambda: begin(self._core, tables))

    def run(self, path: str, progress: Tell | None) -> Refilled:
        """Take over the content of the store at a path. If `progress` raises, the refill is discarded."""
        rest = threading.Event()
        fresh = open_lmdb(path, readonly=True)
        try:
            with fresh.read() as reader:
                refilling = Refilling(self._core, path, reader)
                try:
                    for done in self._steps(refilling):
                        if progress is not None:
                            progress(*done)
                        rest.wait(REST)
                except BaseException:
                    with self._state.lock.next():
                        self._core.between(refilling.give_up)
                    raise
        finally:
            fresh.close()
        assert refilling.done is not None, "its last step is the switch"
        return refilling.done

    def _steps(self, refilling: Refilling) -> Iterator[Progressed]:
        """Do its steps, each behind the lock."""
        steps = refilling.steps()
        while True:
            with self._state.lock.next():
                self._state.must_be_open()
                done: Progressed | None = self._core.between(lambda: next(steps, None))
            if done is None:
                return
            yield done
