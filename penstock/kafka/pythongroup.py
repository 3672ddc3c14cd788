"""A member of a group on kafka-python.

The client calls back while it is polled, in a thread of its own in which nothing may be asked of a broker: what was
dealt is paused there, at an offset that means nothing, so that the group's own is never asked for. `assign` says where
it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.kafka.address import Address
from penstock.kafka.protocols import SESSION, Chunk
from penstock.kafka.python import PythonReader, _called, kafka


class PythonMember(PythonReader):
    """A reader on a KafkaConsumer that subscribes."""

    def __init__(self, address: Address, called: str, lean: bool) -> None:
        super().__init__(address, lean, {"session_timeout_ms": SESSION, "client_id": called})
        self._dealt: list[int] | None = None
        self._turned = False  # whether what a poll has given may be of a share before this one
        # Who leads a group before it has heard of the topic deals out nothing, and may never look again.
        _called(address, lambda: self._consumer.partitions_for_topic(address.topic))
        self._consumer.subscribe([address.topic], listener=_Listener(self))

    def dealt(self) -> list[int] | None:
        """What was heard since."""
        found, self._dealt = self._dealt, None
        return found

    def hear(self, partitions: Iterable[Any]) -> None:
        """From now on these."""
        own = sorted(partitions)
        for partition in own:
            self._consumer.seek(partition, 0)
        if own:
            self._consumer.pause(*own)
        self._turned = True
        self._dealt = [partition.partition for partition in own]

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these, and no other of its share."""
        self._places = []
        for partition in sorted(self._consumer.assignment()):
            offset = places.get(partition.partition)
            if offset is None:
                self._consumer.pause(partition)
                continue
            self._consumer.seek(partition, offset)
            self._consumer.resume(partition)
            self._places.append(partition)

    def take(self, most: int, wait: float) -> list[Chunk]:
        """What the next poll gives."""
        self._turned = False
        found = super().take(most, wait)
        return [] if self._turned else found


@kafka.ConsumerRebalanceListener.register
class _Listener:
    """What the client calls."""

    def __init__(self, member: PythonMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """A share."""
        self._member.hear(assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """The share before it."""
        self._member.hear(())

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """Others have it already."""
        self._member.hear(())
