"""Send the productions of one partition to the process of another, and note its acks.

One thread serves each ordered pair of partitions. It sends the productions that wait as one message of limited size.
Then it waits for the answer, which comes after the receiver's commit. So the data in flight is limited, and the backlog
is on disk. A slow receiver slows down only its senders. Early sets go the same way, after all earlier productions.
Invariant: after any failure, productions without an ack are sent again. The receiver skips those that it has applied.
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
_AGAIN = 0.05  # seconds before an unreachable receiver is tried again
_SOON = 0.005  # seconds without anything to send after which a receiver hears that its early set is saved
_IDLE = 0.05  # seconds without anything to send after which acknowledged productions are deleted
_log = logging.getLogger("penstock.engine")


class EarlyDelivery:
    """An early set on its way to one receiver."""

    def __init__(self, early: EarlySet) -> None:
        self.early = early
        self.answered = False
        self.over = threading.Event()  # it has arrived, or failed


class DeliveryThread(threading.Thread):
    """The sender thread of one ordered pair of partitions. It runs until `end`."""

    def __init__(self, member: Member, other: int, folder: str, patience: float) -> None:
        super().__init__(name=f"penstock-courier-{other}", daemon=True)
        self._member = member
        self.other = other
        self._folder = folder
        self._patience = patience
        self._news = threading.Event()
        self._delivery: EarlyDelivery | None = None
        self._ended = False
        self._receiver: RemoteWriter | None = None
        self.start()

    def wake(self) -> None:
        """Note that there may be something to send."""
        self._news.set()

    def tell(self, early: EarlySet) -> EarlyDelivery:
        """Send this early set, in place of one not sent yet."""
        delivery = self._delivery = EarlyDelivery(early)
        self._news.set()
        return delivery

    def end(self) -> None:
        """Stop the thread."""
        self._ended = True
        self._news.set()
        self.join()

    def run(self) -> None:
        """Send messages until `end` is called."""
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
                self._drop()  # the receiver ended, and may start again elsewhere
                self._wait()
            except PenstockError as error:
                if (delivery := self._delivery) is not None:
                    delivery.over.set()  # the receiver refused it and gets a production later
                _log.error("partition %d takes nothing of partition %d: %s", self.other, self._member.partition, error)
                self._drop()
                self._wait()
        self._drop()
        if (delivery := self._delivery) is not None:
            delivery.over.set()

    def _carried(self) -> bool:
        """Send the first message that waits; return True if there was one."""
        if self._member.urgent(self.other):
            self._send_sets()
        owed, delivery = self._member.owed(self.other), self._delivery
        if owed is not None:
            self._member.arrived(self.other, self._asked(RECEIVE, production=owed))
            return True
        if delivery is None or delivery.over.is_set():
            return False
        self._asked(HEAR, early=delivery.early)
        delivery.answered = True
        delivery.over.set()
        return True

    def _send_sets(self) -> None:
        news = self._member.news(self.other)
        if news is not None:
            self._asked(HEAR, early=news)
            self._member.knows(self.other, news)

    def _wait(self) -> None:
        threading.Event().wait(_AGAIN)

    def _asked(self, operation: Operation[A], **arguments: Any) -> A:
        if self._receiver is None:
            self._receiver = RemoteWriter.reach(self._folder, f"partition {self.other}", self._patience)
        return self._receiver.call(operation, **arguments)

    def _drop(self) -> None:
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None
