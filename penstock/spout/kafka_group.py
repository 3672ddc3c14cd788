"""The spout of a process's share of a topic, whose other partitions are read into the same store by other processes.

The members that live deal it among themselves: of n the one at place i reads the partitions p with p % n == i. Each
looks for itself who lives, so that they may be wrong about each other for a while: one that was stopped wakes with
records that another has given since. Where a partition is read from, and what counts, only the store says. Invariants:

- what is given is committed before a look at who lives, so that a share is let go of with nothing under way; what was
  fetched and not given is dropped;
- a share is read from the store's offsets at the time when it is taken up, and is taken up anew where the store does
  not stand where this member has come to: others have read on;
- every batch is fenced: what a member says that is wrong about its share changes nothing;
- while the store doesn't know the topic, a member says for all its partitions where they begin.
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

_EVERY = 0.5  # seconds between two looks who lives
_NONE = "standing by: no partition is dealt to this one"


class Members(Protocol):
    """Those that read one source into one store, this process among them."""

    def place(self) -> tuple[int, int]:
        """The place of this one among those that live, from 0, and how many these are."""
        ...


class KafkaMember(KafkaSpout):
    """What a topic's spout is where it shares the topic with others; `begin` may be called again."""

    _members: Members
    _recall: Recall
    _place = (0, 0)  # of how many; nobody is dealt anything among none
    _asked = -math.inf
    _due = False  # whether its share is to be taken up

    @classmethod
    def of(cls, spout: KafkaSpout, members: Members) -> KafkaMember:
        """A member in the place of a spout that has not begun."""
        table = spout.source.partition("=")[0]
        own = cls(spout._address, table, spout._client, spout._reading, spout._clock)
        own._members = members
        return own

    def begin(self, recall: Recall) -> None:
        """Go on with what is dealt to it, where the store stands now."""
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
        """Now and then: whether it has another share, or others have read this one."""
        now = self._clock()
        if now - self._asked < _EVERY:
            return
        self._asked = now
        place, before = self._members.place(), self._place
        self._place = place
        if place != before or self._moved():
            self._let_go()

    def _moved(self) -> bool:
        """Whether the store does not stand where it was left: all that was given is in."""
        stands = ((self._recall(self._named(partition)), offset) for partition, offset in self._given.items())
        return any(own is None or own.offset != offset for own, offset in stands)

    def _let_go(self) -> None:
        """Another share, or the same one, from where the store stands: what was fetched is dropped."""
        assert self._reader is not None, "it has begun"
        self._due = True
        self._forget()
        self._standing.clear()
        self._reader.assign({})

    def _take_up(self, place: int, many: int) -> None:
        """Read a share from the store's offsets."""
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
        """What stands before any record says where the store stood; partition 0 is the last."""
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
        """It is so now."""
        if not self._given:
            self.trouble = self.trouble or _NONE
        if topic is None:
            self._gone()
        elif (topic.id, topic.partitions) != (self._topic.id, self._topic.partitions) or lost:
            self._let_go()  # and what is there instead is seen when it is taken up

    def committed(self, batch: SpoutBatch) -> None:
        """The group is told of what is dealt to this member."""
        if _partition(batch) in self._given:
            super().committed(batch)


def joined(spout: Spout, members: Members) -> Spout:
    """The spout of a topic as one of its members; any other as it is."""
    if isinstance(spout, Enveloped):
        return Enveloped(joined(spout.inner, members))
    return KafkaMember.of(spout, members) if isinstance(spout, KafkaSpout) else spout


def _partition(batch: SpoutBatch) -> int:
    assert batch.source is not None, "a topic has a name"
    return int(batch.source.rpartition("/")[2])
