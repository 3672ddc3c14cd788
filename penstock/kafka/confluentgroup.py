"""A member of a group on confluent-kafka, whose callbacks run in the thread that asks for records.

What it is dealt is answered with no partition at all, so that the group's own offset is never asked for; `assign` says
what is read, and from where.
"""

from __future__ import annotations

from typing import Any

from penstock.kafka.address import Address
from penstock.kafka.confluent import ConfluentReader
from penstock.kafka.protocols import SESSION, Chunk


class ConfluentMember(ConfluentReader):
    """A reader on a Consumer that subscribes."""

    def __init__(self, address: Address, called: str, lean: bool) -> None:
        super().__init__(address, lean, {"session.timeout.ms": SESSION, "client.id": called})
        self._dealt: list[int] | None = None
        self._turned = False  # whether what came may be of a share before this one
        self._consumer.subscribe(
            [address.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def dealt(self) -> list[int] | None:
        """What was heard since."""
        found, self._dealt = self._dealt, None
        return found

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self._turned = True
        self._dealt = sorted(one.partition for one in partitions)
        consumer.assign([])

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        self._turned = True
        self._dealt = []
        consumer.unassign()

    def take(self, most: int, wait: float) -> list[Chunk]:
        """What is there, or comes."""
        self._turned = False
        found = super().take(most, wait)
        return [] if self._turned else found
