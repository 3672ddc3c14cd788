"""The spout of a topic's partitions that a group has dealt to this member; the others are read by other processes.

The group says who reads a partition, and the store alone from where. Members may be wrong for a while about what is
their own: one that was stopped wakes with records that another has given since. Invariants:

- what is given is committed before the group is heard again, so that a share is let go of with nothing under way; what
  was fetched and not given is dropped;
- a partition that was dealt is read from the store's offset at that time;
- every batch is fenced: what a member says that has not heard of the next share changes nothing;
- nobody else is in the group, or their shares would be missing here;
- who is not among the group's members for long joins anew, whatever the client believes, and so does everybody where
  some partition is dealt to nobody: a client that missed that it was expelled, or one that dealt too little, would
  wait for ever;
- while the store doesn't know the topic, a member says for all its partitions where they begin.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence

from penstock.gateway import TableBatch
from penstock.kafka import SESSION, BrokerAway, GroupBroker, GroupClient, GroupReader, Topic
from penstock.spout.envelope import Enveloped
from penstock.spout.errors import SourceUnreadable
from penstock.spout.kafka import FIRST, KafkaSpout
from penstock.spout.protocols import Recall, Remembered, Spout, SpoutBatch

_OWN = "/"  # between what members of a store call themselves, and what each adds
_EVERY = SESSION / 4_000  # seconds between two looks whether it is a member still
_LONG = 4 * _EVERY  # in which a group deals, and a client that was expelled joins anew by itself
_NONE = "standing by: no partition is dealt to this one"


class KafkaMember(KafkaSpout):
    """What a topic's spout is where it shares the topic with others; `begin` may be called again."""

    _called = ""  # what all members of this store call themselves, before what each adds
    _id = ""
    _seen = _asked = -math.inf  # when it was among the members last, and when that was asked
    _beats: Callable[[], float]
    _member: GroupReader | None = None
    _recall: Recall
    _due: Sequence[int] | None = None  # a share that was dealt, and is not read yet
    _share: Sequence[int] = ()
    _resting = False

    @classmethod
    def of(cls, spout: KafkaSpout, called: str) -> KafkaMember:
        """A member in the place of a spout that has not begun."""
        table = spout.source.partition("=")[0]
        own = cls(spout._address, table, spout._client, spout._reading, spout._clock)
        own._beats = time.monotonic
        own._called = spout._address.config.get("client.id", called)
        return own

    def begin(self, recall: Recall) -> None:
        """Join the group, or go on with what it has dealt, where the store stands now."""
        self._recall = recall
        if self._member is None:
            self._connected()
            self._check_group()
            self._join()
            return
        self._let_go(self._share)

    def _join(self) -> None:
        assert isinstance(self._client, GroupClient), "joined saw to it"
        self._id = f"{self._called}{_OWN}{uuid.uuid4().hex[:12]}"
        self._reader = self._member = self._client.member(self._address, self._id, self._lean)
        self._seen = self._asked = self._beats()
        self.trouble = _NONE

    def _check_group(self) -> None:
        """Partitions that are dealt to who reads for somebody else would never come into this store."""
        assert isinstance(self._broker, GroupBroker), "it has begun"
        assert self.group is not None, "it is a member of one"
        others = {own.rpartition(_OWN)[0] or own for own in self._broker.members(self.group)} - {self._called}
        if others:
            raise SourceUnreadable(
                self.name,
                f"group {self.group} has members that are not of this store ({', '.join(sorted(others))})",
                "end them, or say with group= another name: each store has a group of its own",
            )

    def rest(self, wait: float) -> None:
        """Stay in the group for a while, and read nothing."""
        assert self._member is not None, "it has begun"
        if not self._resting:
            self._resting = True
            self._member.assign({})
        self._member.take(1, wait)
        self._hear()

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """The next records of one partition of its share."""
        if self._resting and not self.ended:
            self._resting = False
            self._let_go(self._share)
        return super().next_batch(limit, wait)

    # -- the share

    def _look(self) -> None:
        self._hear()
        if self._due is not None:
            try:
                self._take_up(self._due)
            except BrokerAway as error:
                self.trouble = error.reason
        else:
            super()._look()

    def _hear(self) -> None:
        """Whether another share was dealt."""
        assert self._member is not None, "it has begun"
        if self._beats() - self._asked >= _EVERY:
            self._see_to_it()
        dealt = self._member.dealt()
        if dealt is not None:
            self._let_go(dealt)

    def _see_to_it(self) -> None:
        """Look whether it is a member still, and all is dealt; where that is not so for long it joins anew."""
        assert isinstance(self._broker, GroupBroker), "it has begun"
        assert self.group is not None, "it is a member of one"
        assert self._member is not None, "it has begun"
        self._asked = self._beats()
        if self.trouble not in (None, _NONE):
            return  # a broker that is away can't tell
        members = self._broker.members(self.group)
        dealt = set[int]().union(*members.values())
        if self._id in members and dealt.issuperset(range(self._topic.partitions)):
            self._seen = self._asked
        elif self._asked - self._seen >= _LONG:
            self._member.close()
            self._let_go(())
            self._join()

    def _let_go(self, dealt: Sequence[int]) -> None:
        """Another share, or the same one, from where the store stands: what was fetched is dropped."""
        self._share = self._due = dealt
        self._durable = {}
        self._forget()
        self._standing.clear()

    def _take_up(self, share: Sequence[int]) -> None:
        """Read a share from the store's offsets."""
        assert self._broker is not None, "it has begun"
        topic = self._broker.look()
        if topic is None:
            self._gone()
            return
        self._topic = topic
        self._check_group()
        first = self._recall(self._named(FIRST))
        self._begun = first is not None
        wanted = [partition for partition in share if partition < topic.partitions]
        every = wanted if self._begun else range(topic.partitions)
        known = {partition: self._recall(self._named(partition)) for partition in every}
        places = self._decided(topic, known)
        self._due, self._looked = None, self._clock()
        self.trouble = None if wanted else _NONE
        self._read_from([place for place in places if place.partition in wanted])
        for place in places:
            if place.partition not in wanted:
                self._stand(place.partition, place.before, place.offset)
        self._order(known)
        self._durable = {place.partition: place.offset for place in places if place.partition in wanted}
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
        """It is so now; that a topic has more partitions is for the group to see."""
        self.trouble = None if self._given else _NONE
        if topic is None:
            self._gone()
        elif topic.id != self._topic.id or lost:
            self._let_go(self._share)  # and what is there instead is seen when it is taken up

    def committed(self, batch: SpoutBatch) -> None:
        """Now and then the group is told, of what is dealt to this member."""
        if _partition(batch) in self._given:
            super().committed(batch)


def joined(spout: Spout, called: str) -> Spout:
    """The spout of a topic with a group as a member of that, where its client can be one; any other as it is.

    `called` is of one store alone.
    """
    if isinstance(spout, Enveloped):
        return Enveloped(joined(spout.inner, called))
    if isinstance(spout, KafkaSpout) and spout.group is not None and isinstance(spout._client, GroupClient):
        return KafkaMember.of(spout, called)
    return spout


def _partition(batch: SpoutBatch) -> int:
    assert batch.source is not None, "a topic has a name"
    return int(batch.source.rpartition("/")[2])
