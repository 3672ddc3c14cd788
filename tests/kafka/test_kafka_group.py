"""The contract of group members: each partition belongs to one member, and is read from the store's offset.

Real claims determine the live members, and their clock simulates a long silence. The same stories find planted bugs.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.remote import SESSION, MemberClaim
from penstock.remote.wire_messages import spout_batch_data, spout_batch_of
from penstock.spout import (
    SPOUTS,
    KafkaMember,
    KafkaSpout,
    Remembered,
    SourceMoved,
    SourceUnreadable,
    SpoutBatch,
    joined,
)
from tests.harness.planting import Bug
from tests.kafka import server as serving
from tests.kafka.reading import names, shop, users
from tests.kafka.server import Row, Server, until
from tests.waiting import PATIENCE


def doc(key: int, name: str = "Sue") -> Row:
    return b"%d" % key, json.dumps({"id": key, "name": name}).encode()


class Group:
    """A topic, a store of two partitions, and the members that read the topic into it."""

    def __init__(self, server: Server, client: str, folder: Path, engine: ps.Engine, partitions: int) -> None:
        self.server, self.engine = server, engine
        self.topic = server.topic(partitions)
        self.name = f"of-{self.topic}"
        self.now = 0.0
        self._client, self._folder = client, folder

    @contextmanager
    def member(self, options: str = "") -> Iterator[Any]:
        """Yield another member, which looks at the topic and at the live members before each batch."""
        uri = f"kafka://{self.server.servers}/{self.topic}?client={self._client}&group={self.name}{options}"
        spout = SPOUTS.open(uri, "users")
        assert isinstance(spout, KafkaSpout)
        claim = MemberClaim(str(self._folder), spout.source, self.name, lambda: self.now)
        assert claim.take() is None
        own: Any = joined(spout, claim)
        assert isinstance(own, KafkaMember)
        ticks = itertools.count()
        own._clock = lambda: float(next(ticks))
        own.claim = claim
        own.begin(self.recall)
        try:
            yield own
        finally:
            own.close()
            claim.release()

    def recall(self, source: str) -> Remembered | None:
        with self.engine.snapshot() as snap:
            return snap.remembered(source)

    def produce(self, partition: int, *rows: Row) -> None:
        self.server.produce(self.topic, rows, partition)

    def give(self, own: Any) -> SpoutBatch | None:
        """Load at most one next batch of a member into the store.

        If it is refused, the member takes its share again.
        """
        own.claim.say(own.trouble or "reading", own.lag(), 0)
        batch: SpoutBatch | None = own.next_batch(10, 0.05)
        if batch is None:
            return None
        try:
            for _, _counts in self.engine.load("users", [batch]):
                own.committed(batch)
        except SourceMoved:
            own.begin(self.recall)
        return batch

    def all_in(self, count: int, *members: Any) -> None:
        """Read with all members until the store has so many documents."""

        def found() -> bool:
            for own in members:
                self.give(own)
            return len(users(self.engine)) == count

        until(found, f"{count} documents")

    def shared(self, partitions: int, *members: Any) -> None:
        """Read with all members until each has a share, and each partition belongs to one member."""

        def found() -> bool:
            for own in members:
                self.give(own)
            shares = [sorted(own._given) for own in members]
            return all(shares) and sorted(itertools.chain(*shares)) == list(range(partitions))

        until(found, "every partition is dealt")

    def stands(self) -> dict[int, int]:
        """Return the store's offset of each partition of the topic."""
        return {int(name.rpartition("/")[2]): at for name, at in self.engine.status()["sources"].items()}


Made = Callable[[int], Group]


@pytest.fixture
def made(server: Server, client: str, tmp_path: Path) -> Iterator[Made]:
    """A function that creates a group for a topic with a number of partitions."""
    with ps.open(shop(), None, partitions=2) as engine:
        yield lambda partitions: Group(server, client, tmp_path, engine, partitions)


def fetched(own: Any) -> SpoutBatch:
    """Return a batch that is not loaded into the store."""
    kept: list[SpoutBatch] = []

    def found() -> bool:
        batch = own.next_batch(3, 0.05)
        kept.extend([batch] if batch is not None and batch.records.n else [])
        return bool(kept)

    until(found, "it has a batch that the store has not")
    return kept[0]


def shares_are_given_up_and_taken(group: Group) -> None:
    for partition in range(4):
        group.produce(partition, *(doc(10 * partition + i) for i in range(5)))
    with group.member() as a:
        group.all_in(20, a)
        with group.member() as b:
            group.shared(4, a, b)
            for partition in range(4):
                group.produce(partition, *(doc(10 * partition + i) for i in range(5, 8)))
            group.all_in(32, a, b)
            assert {a.lag(), b.lag()} == {0}
            with group.member() as c:
                group.shared(4, a, b, c)
        group.shared(4, a)
        group.produce(3, doc(99))
        group.all_in(33, a)
    assert names(group.engine) == {"Sue": 33}
    assert group.stands() == {p: 8 + (p == 3) for p in range(4)}


def a_silent_member_gets_a_share_when_it_speaks(group: Group) -> None:
    for partition in range(2):
        group.produce(partition, *(doc(10 * partition + i, "old") for i in range(6)))
    with group.member() as a, group.member() as b:
        group.all_in(12, a, b)
        group.shared(2, a, b)
        for partition in range(2):
            group.produce(partition, *(doc(10 * partition + i, "last") for i in range(6)))
        kept = fetched(a)
        group.now += SESSION

        def others_go_on() -> bool:
            group.give(b)
            return names(group.engine) == {"last": 12}

        until(others_go_on, "the other one has the topic")
        before = group.engine.digest()
        (told,) = [counts for _, counts in group.engine.load("users", [spout_batch_of(spout_batch_data(kept))])]
        assert told.late == kept.records.n
        assert group.engine.digest() == before
        for partition in range(2):
            group.produce(partition, doc(50 + partition))
        given: list[SpoutBatch] = []

        def both_go_on() -> bool:
            given.extend(batch for own in (a, b) if (batch := group.give(own)) is not None and batch.records.n)
            return len(users(group.engine)) == 14

        until(both_go_on, "who was silent reads its share again")
        group.shared(2, a, b)
        assert [batch.start for batch in given] == [12, 12], "nothing was given that is in"


def first_offsets_are_stored_once(group: Group) -> None:
    for partition in range(3):
        group.produce(partition, doc(partition, "before"))
    with group.member("&from=latest") as a, group.member("&from=latest") as b:
        b.claim.say("reading", None, 0)  # it is live but slow
        until(lambda: group.give(a) is None and bool(group.stands()), "one says where the topic begins")
        assert a._place == (0, 2)
        assert group.stands() == dict.fromkeys(range(3), 1)
        group.shared(3, a, b)
        for partition in range(3):
            group.produce(partition, doc(10 + partition, "after"))
        group.all_in(3, a, b)
    assert names(group.engine) == {"after": 3}


def the_groups_offset_has_no_effect(group: Group) -> None:
    def all_come(own: Any, docs: int) -> set[int]:
        """Return the first offsets of the batches until all documents are in the store."""
        given: list[SpoutBatch] = []

        def found() -> bool:
            given.extend(batch for batch in [group.give(own)] if batch is not None and batch.records.n)
            return len(users(group.engine)) == docs

        until(found, "all that the store has not")
        return {batch.start for batch in given}

    for partition in range(2):
        group.produce(partition, *(doc(10 * partition + i) for i in range(6)))
    group.server.commit(group.name, group.topic, {0: 4, 1: 4})
    with group.member() as own:
        assert all_come(own, 12) == {0}
    group.server.commit(group.name, group.topic, {0: 1, 1: 1})
    for partition in range(2):
        group.produce(partition, doc(50 + partition))
    with group.member() as own:
        assert all_come(own, 14) == {6}


STORIES = {
    shares_are_given_up_and_taken: 4,
    a_silent_member_gets_a_share_when_it_speaks: 2,
    first_offsets_are_stored_once: 3,
    the_groups_offset_has_no_effect: 2,
}
_MEMBER = "spout.kafka_group:KafkaMember."
_DEALT = "in vain: every partition is dealt"
BUGS = [
    (
        shares_are_given_up_and_taken,
        Bug(
            "who has a share keeps it when others come", _MEMBER + "_hear", "place != before or self._moved()", "False"
        ),
        _DEALT,
    ),
    (
        shares_are_given_up_and_taken,
        Bug("each reads all", _MEMBER + "_take_up", "range(place, topic.partitions, many)", "range(topic.partitions)"),
        _DEALT,
    ),
    (
        a_silent_member_gets_a_share_when_it_speaks,
        Bug("who was stopped gives what it had", _MEMBER + "_hear", " or self._moved()", ""),
        "nothing was given that is in",
    ),
    (
        first_offsets_are_stored_once,
        Bug(
            "each says for its own share where it begins",
            _MEMBER + "_take_up",
            "share if self._begun else range(topic.partitions)",
            "share",
        ),
        "0: 1",
    ),
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_members(story: Callable[[Group], None], made: Made) -> None:
    story(made(STORIES[story]))


ONE = pytest.mark.parametrize("client", ["kafka-python"], indirect=True)  # these tests do not depend on the client


def shorten(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Shorten the waits with this reason. Other waits keep their time, because a busy machine needs it."""
    monkeypatch.setattr(serving, "patience_of", lambda reason: 3.0 if where in reason else PATIENCE)


@ONE
@pytest.mark.parametrize(("story", "bug", "where"), BUGS, ids=[bug.name for _, bug, _ in BUGS])
def test_a_planted_bug_is_found(
    story: Callable[[Group], None], bug: Bug, where: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = made(STORIES[story])
    bug.plant(monkeypatch)
    shorten(monkeypatch, where)
    with pytest.raises(AssertionError, match=where):
        story(group)


@ONE
def test_a_share_that_is_read_from_the_group_s_offset_is_found(
    server: Server, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = KafkaSpout._decided

    def planted(self: Any, topic: Any, known: dict[int, Remembered | None]) -> Any:
        told = server.committed(self.group)
        note = next((own.note for own in known.values() if own is not None), b"")
        return sound(self, topic, {p: Remembered(told[p], note) if p in told else own for p, own in known.items()})

    group = made(2)
    monkeypatch.setattr(KafkaSpout, "_decided", planted)
    shorten(monkeypatch, "all that the store has not")
    with pytest.raises(AssertionError, match="all that the store has not"):
        the_groups_offset_has_no_effect(group)


def test_added_partitions_are_shared_and_read_completely(server: Server, made: Made) -> None:
    group = made(1)
    group.produce(0, doc(0, "before"))
    with group.member("&from=latest") as a, group.member("&from=latest") as b:
        until(lambda: not (group.give(a) or group.give(b)) and group.stands() == {0: 1}, "it is pinned")
        assert (a.trouble, b.trouble) == (None, "standing by: no partition is dealt to this one")
        server.widen(group.topic, 3)
        for partition in range(1, 3):
            group.produce(partition, doc(partition, "later"))
        group.all_in(2, a, b)
        group.shared(3, a, b)
        assert (a.trouble, b.trouble) == (None, None)
    assert names(group.engine) == {"later": 2}


def test_a_first_offset_from_an_old_share_is_refused(made: Made) -> None:
    """Two members report the first offsets of a topic, and one of them is slow."""
    group = made(1)
    with group.member("&from=latest") as a:
        kept: list[SpoutBatch] = []

        def said() -> bool:
            batch = a.next_batch(10, 0.05)
            kept.extend([] if batch is None else [batch])
            return bool(kept)

        until(said, "it says where the topic begins")
        (old,) = kept
        assert (old.again, old.fenced, old.stood) == (True, True, None)
        a.begin(group.recall)
        until(lambda: not group.give(a) and group.stands() == {0: 0}, "it is pinned")
        group.produce(0, doc(1))
        group.all_in(1, a)
        for given in (old, spout_batch_of(spout_batch_data(old))):
            with pytest.raises(SourceMoved):
                list(group.engine.load("users", [given]))
        assert group.stands() == {0: 1}


def test_records_of_a_former_topic_of_that_name_are_refused(server: Server, made: Made) -> None:
    group = made(1)
    group.produce(0, *(doc(i, "old") for i in range(4)))
    with group.member("&lost=earliest") as a:
        group.all_in(4, a)
        group.produce(0, *(doc(i, "old") for i in range(4, 8)))
        kept = fetched(a)
        server.delete(group.topic)
        server.make(group.topic)
        group.produce(0, *(doc(i, "new") for i in range(100, 104)))
        a.begin(group.recall)
        group.all_in(8, a)
        assert names(group.engine) == {"old": 4, "new": 4}
        with pytest.raises(SourceMoved):
            list(group.engine.load("users", [kept]))
        assert names(group.engine) == {"old": 4, "new": 4}
    server.delete(group.topic)
    server.make(group.topic)
    with group.member() as b, pytest.raises(SourceUnreadable, match="deleted and made again"):
        until(lambda: bool(group.give(b)), "it is told")


def test_a_group_with_another_subscriber_gets_no_offsets(server: Server, made: Made) -> None:
    group = made(2)
    group.produce(0, doc(0))
    with server.subscribed(group.name, group.topic) as other, group.member() as own:
        says = f"group {group.name} takes no offsets for its monitors: somebody else is subscribed in it; end that one"

        def told() -> bool:
            other.poll(0)
            group.give(own)
            return (own.trouble or "").startswith(says)

        until(told, "it is said")
        group.produce(1, doc(1))
        group.all_in(2, own)
        other.close()
        until(lambda: not group.give(own) and own.trouble is None, "it is told again")
    assert server.committed(group.name) == {0: 1, 1: 1}
