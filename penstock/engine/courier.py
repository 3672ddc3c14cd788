"""Carries what a partition owes another one to the process that has it, and back the word that it is there.

One thread for each way between two partitions: it asks what is owed, sends all of that, up to a bound, as one message,
and waits for the answer, which comes after the commit over there. So what is under way is bounded, what waits is on the
disk, and one that is slow slows those down who send to it and nobody else. Invariant: whatever breaks in between, what
is owed is sent again, from what the other one has on; that nothing is taken twice is the receiver's affair.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from penstock.cache import PenstockError
from penstock.engine.handed import production_data
from penstock.engine.member import Member
from penstock.engine.there import There
from penstock.engine.wire import Gone
from penstock.engine.writing import HolderLost, HolderSilent
from penstock.recovery import Production

_AGAIN = 0.05  # seconds before somebody who isn't there is asked again
_IDLE = 0.05  # seconds without anything to send after which what has arrived is deleted
_log = logging.getLogger("penstock.engine")


class Courier(threading.Thread):
    """One way, from its making until `end`."""

    def __init__(self, member: Member, other: int, folder: str, patience: float) -> None:
        super().__init__(name=f"penstock-courier-{other}", daemon=True)
        self._member = member
        self._other = other
        self._folder = folder
        self._patience = patience
        self._news = threading.Event()
        self._ended = False
        self._there: There | None = None
        self.start()

    def wake(self) -> None:
        """There may be something to send."""
        self._news.set()

    def end(self) -> None:
        """Carry nothing more."""
        self._ended = True
        self._news.set()
        self.join()

    def run(self) -> None:
        """Carry, until it is ended."""
        while not self._ended:
            self._news.clear()
            try:
                owed = self._member.owed(self._other)
                if owed is not None:
                    self._member.arrived(self._other, self._sent(owed))
                elif not self._news.wait(_IDLE):
                    self._member.clear()
                    self._news.wait()
            except (Gone, HolderLost, HolderSilent):
                self._drop()  # it has ended, and begins again: elsewhere, perhaps
                self._wait()
            except PenstockError as error:
                _log.error("partition %d takes nothing of partition %d: %s", self._other, self._member.here, error)
                self._drop()
                self._wait()
        self._drop()

    def _wait(self) -> None:
        threading.Event().wait(_AGAIN)

    def _sent(self, production: Production) -> int:
        if self._there is None:
            self._there = There.reach(self._folder, f"partition {self._other}", self._patience)
        number: Any = self._there.ask("receive", production=production_data(production))
        return int(number)

    def _drop(self) -> None:
        if self._there is not None:
            self._there.close()
            self._there = None
