"""Read one process's share of a topic. Other processes read the other partitions into the same store.

The live members share the partitions: of n members the one at place i reads each partition p with p % n == i. Each
member determines alone which members are live, so they may disagree for a while. For example, a member that was stopped
may wake with records that another member has delivered since. Only the store decides about offsets and records.
Invariants:

- returned records are committed before the next look at the members, so no record is in flight when a share is given
  up. Fetched records that were not returned are dropped;
- a share is read from the store's offsets of the moment when it is taken. It is taken again if the store's offsets
  differ from this member's, because then another member has read it;
- every batch is fenced: a member with an outdated share changes nothing;
- while the store does not know the topic, a member reports the first offsets of all partitions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from penstock.gateway import TableBatch
from penstock.kafka import BrokerAway, Topic, until_ready
from penstock.spout.envelope import Enveloped
from penstock.spout.kafka_spout import FIRST, KafkaSpout
from penstock.spout.protocol import Recall, Remembered, Spout, SpoutBatch

_EVERY = 0.5  # seconds between two looks at the members
_NONE = "standing by: no partition is dealt to this one"


class Members(Protocol):
    """The processes that read one topic into one store, with this one among them."""

    def place(self) -> tuple[int, int]:
        """Return the place of this process among the live ones, from 0, and their number."""
        ...


class KafkaMember(KafkaSpout):
    """The spout of a topic that is shared with other processes. `begin` may be called again."""

    _members: Members
    _recall: Recall
    _place = (0, 0)  # place and number of members; without members there is no share
    _asked = -math.inf
    _due = False  # whether the share has to be taken

    @classmethod
    def of(cls, spout: KafkaSpout, members: Members) -> KafkaMember:
        """Create a member from a spout that has not begun."""
        table = spout.source.partition("=")[0]
        own = cls(spout._address, table, spout._client, spout._reading, spout._clock)
        own._members = members
        return own

    def begin(self, recall: Recall) -> None:
        """Continue with this member's share at the store's offsets."""
        self._recall = recall
        if self._reader is None:
            until_ready(self._connected)
            self._reader = self._opened()
            self.trouble = _NONE
        self._let_go()

    # -- the share

    def _look(self) -> None:
        self._hear()
        if self._due:
            try:
                self._take_up(*self._place)
            except BrokerAway as error:
                self.trouble = error.reason
        else:
            super()._look()

    def _hear(self) -> None:
        """From time to time, check whether the share changed, or whether another member has read it."""
        now = self._clock()
        if now - self._asked < _EVERY:
            return
        self._asked = now
        place, before = self._members.place(), self._place
        self._place = place
        if place != before or self._moved():
            self._let_go()

    def _moved(self) -> bool:
        """Return whether the store's offsets differ from this member's.

        All returned records are committed at this point.
        """
        stands = ((self._recall(self._named(partition)), offset) for partition, offset in self._given.items())
        return any(own is None or own.offset != offset for own, offset in stands)

    def _let_go(self) -> None:
        """Give up the share, and drop fetched records. It is taken again at the store's offsets."""
        assert self._reader is not None, "it has begun"
        self._due = True
        self._forget()
        self._standing.clear()
        self._reader.assign({})

    def _take_up(self, place: int, many: int) -> None:
        """Take a share, and read it from the store's offsets."""
        assert self._broker is not None, "it has begun"
        topic = self._broker.look()
        if topic is None:
            self._gone()
            return
        self._topic = topic
        share = range(place, topic.partitions, many)
        self._begun = self._recall(self._named(FIRST)) is not None
        known = {p: self._recall(self._named(p)) for p in (share if self._begun else range(topic.partitions))}
        places = self._decided(topic, known)
        self._due, self._looked = False, self._clock()
        self.trouble = None if share else _NONE
        self._read_from([place for place in places if place.partition in share])
        for own in places:
            if own.partition not in share:
                self._stand(own.partition, own.before, own.offset)
        self._order(known)
        self._durable = {own.partition: own.offset for own in places if own.partition in share}
        self._tell()

    def _stand(self, partition: int, before: int, offset: int) -> None:
        batch = self._batch(partition, before, offset, TableBatch([]))
        batch.again = True
        self._standing.append(batch)

    def _order(self, known: dict[int, Remembered | None]) -> None:
        """Sort the batches without records, which report offsets: partition 0 comes last.

        Add the store's former offset to each.
        """
        by_partition = {_partition(batch): batch for batch in self._standing}
        for partition, batch in by_partition.items():
            batch.stood = known[partition]
        self._standing = deque(by_partition[partition] for partition in sorted(by_partition, reverse=True))

    def _batch(
        self, partition: int, start: int, resume: int, records: TableBatch, offsets: Sequence[int] = ()
    ) -> SpoutBatch:
        batch = super()._batch(partition, start, resume, records, offsets)
        batch.fenced = True
        return batch

    def _found(self, topic: Topic | None, lost: bool) -> None:
        """Compare the topic's current state with the former one."""
        if not self._given:
            self.trouble = self.trouble or _NONE
        if topic is None:
            self._gone()
        elif (topic.id, topic.partitions) != (self._topic.id, self._topic.partitions) or lost:
            self._let_go()  # the topic that exists now is seen when the share is taken

    def committed(self, batch: SpoutBatch) -> None:
        """Report only the offsets of this member's share to the group."""
        if _partition(batch) in self._given:
            super().committed(batch)


def joined(spout: Spout, members: Members) -> Spout:
    """Turn the spout of a topic into a member. Any other spout stays unchanged."""
    if isinstance(spout, Enveloped):
        return Enveloped(joined(spout.inner, members))
    return KafkaMember.of(spout, members) if isinstance(spout, KafkaSpout) else spout


def _partition(batch: SpoutBatch) -> int:
    assert batch.source is not None, "a topic has a name"
    return int(batch.source.rpartition("/")[2])
