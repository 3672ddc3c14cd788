"""Carries what a partition owes another one to the process that has it, and back the word that it is there.

One thread for each way between two partitions: it asks what is owed, sends all of that, up to a bound, as one message,
and waits for the answer, which comes after the commit over there. So what is under way is bounded, what waits is on the
disk, and one that is slow slows those down who send to it and nobody else. What is told early goes the same way, after
all that was owed before. Invariant: whatever breaks in between, what is owed is sent again, from what the other one has
on; that nothing is taken twice is the receiver's affair.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, TypeVar

from penstock.cache import PenstockError
from penstock.partitions.member import Member
from penstock.partitions.partition_operations import HEAR, RECEIVE
from penstock.recovery import EarlySet
from penstock.remote import HolderLost, HolderSilent, Operation, RemoteWriter, WireClosed

A = TypeVar("A")
_AGAIN = 0.05  # seconds before somebody who isn't there is asked again
_SOON = 0.005  # seconds without anything to send after which a receiver hears that its early set is saved
_IDLE = 0.05  # seconds without anything to send after which what has arrived is deleted
_log = logging.getLogger("penstock.engine")


class EarlyDelivery:
    """Something that is told early, on its way."""

    def __init__(self, early: EarlySet) -> None:
        self.early = early
        self.there = False
        self.over = threading.Event()  # it is there, or won't be


class DeliveryThread(threading.Thread):
    """One way, from its making until `end`."""

    def __init__(self, member: Member, other: int, folder: str, patience: float) -> None:
        super().__init__(name=f"penstock-courier-{other}", daemon=True)
        self._member = member
        self.other = other
        self._folder = folder
        self._patience = patience
        self._news = threading.Event()
        self._told: EarlyDelivery | None = None
        self._ended = False
        self._there: RemoteWriter | None = None
        self.start()

    def wake(self) -> None:
        """There may be something to send."""
        self._news.set()

    def tell(self, early: EarlySet) -> EarlyDelivery:
        """Tell this early, in place of what is not told yet."""
        told = self._told = EarlyDelivery(early)
        self._news.set()
        return told

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
                if self._carried() or self._news.wait(_SOON):
                    continue
                self._send_sets()
                if not self._news.wait(_IDLE):
                    self._member.clear()
                    self._news.wait()
            except (WireClosed, HolderLost, HolderSilent):
                self._drop()  # it has ended, and begins again: elsewhere, perhaps
                self._wait()
            except PenstockError as error:
                if (told := self._told) is not None:
                    told.over.set()  # it is owed what it can't take
                _log.error("partition %d takes nothing of partition %d: %s", self.other, self._member.here, error)
                self._drop()
                self._wait()
        self._drop()
        if (told := self._told) is not None:
            told.over.set()

    def _carried(self) -> bool:
        """Carry what is first; whether there was anything."""
        if self._member.urgent(self.other):
            self._send_sets()
        owed, told = self._member.owed(self.other), self._told
        if owed is not None:
            self._member.arrived(self.other, self._asked(RECEIVE, production=owed))
            return True
        if told is None or told.over.is_set():
            return False
        self._asked(HEAR, early=told.early)
        told.there = True
        told.over.set()
        return True

    def _send_sets(self) -> None:
        news = self._member.news(self.other)
        if news is not None:
            self._asked(HEAR, early=news)
            self._member.knows(self.other, news)

    def _wait(self) -> None:
        threading.Event().wait(_AGAIN)

    def _asked(self, operation: Operation[A], **arguments: Any) -> A:
        if self._there is None:
            self._there = RemoteWriter.reach(self._folder, f"partition {self.other}", self._patience)
        return self._there.call(operation, **arguments)

    def _drop(self) -> None:
        if self._there is not None:
            self._there.close()
            self._there = None
