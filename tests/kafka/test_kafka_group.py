"""The contract of members of a group, over confluent: whose partitions are whose, and where they are read from."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine.handed import spout_batch_data, spout_batch_of
from penstock.kafka.confluent import ConfluentClient, ConfluentReader
from penstock.spout import SPOUTS, KafkaMember, SourceMoved, SourceUnreadable, SpoutBatch, joined
from tests.kafka.reading import names, shop, users
from tests.kafka.server import Row, Server, until


def doc(key: int, name: str = "Sue") -> Row:
    return b"%d" % key, json.dumps({"id": key, "name": name}).encode()


@pytest.fixture(autouse=True)
def dealing(server: Server) -> None:
    """A broker that deals a topic out."""
    server.must_deal()


@contextmanager
def member(
    server: Server, engine: ps.Engine, topic: str, options: str = "", called: str = "this-store"
) -> Iterator[Any]:
    """A member of the topic's group, which looks at the topic whenever it is asked for a batch."""
    uri = f"kafka://{server.servers}/{topic}?client=confluent&group=of-{topic}{server.session}{options}"
    own = joined(SPOUTS.open(uri, "users"), called)
    assert isinstance(own, KafkaMember)
    ticks = itertools.count()
    own._clock = lambda: float(next(ticks))

    def recall(source: str) -> Any:
        with engine.snapshot() as snap:
            return snap.remembered(source)

    own.begin(recall)
    try:
        yield own
    finally:
        own.close()


def give(engine: ps.Engine, own: Any) -> int:
    """Give the store what comes next, a batch at most; one that is refused has the share taken up anew."""
    batch = own.next_batch(10, 0.05)
    if batch is None:
        return 0
    try:
        for _, _counts in engine.load("users", [batch]):
            own.committed(batch)
    except SourceMoved:
        own.begin(own._recall)
    return batch.records.n


def fetched(own: Any) -> SpoutBatch:
    """A batch that the store is not given."""
    kept: list[SpoutBatch] = []

    def found() -> bool:
        batch = own.next_batch(10, 0.05)
        kept.extend([batch] if batch is not None and batch.records.n else [])
        return bool(kept)

    until(found, "it has a batch that the store has not")
    return kept[0]


def all_in(engine: ps.Engine, count: int, *members: Any) -> None:
    """All of them read until the store has so many documents."""

    def found() -> bool:
        for own in members:
            give(engine, own)
        return len(users(engine)) == count

    until(found, f"{count} documents")


def shared(engine: ps.Engine, partitions: int, *members: Any) -> None:
    """All of them read until each has a share, and all partitions are dealt."""

    def found() -> bool:
        for own in members:
            give(engine, own)
        shares = [sorted(own._given) for own in members]
        return all(shares) and sorted(itertools.chain(*shares)) == list(range(partitions))

    until(found, "every partition is dealt")


def test_a_share_is_let_go_of_and_taken_up_at_the_store_s_offset(server: Server) -> None:
    topic = server.topic(4)
    for partition in range(4):
        server.produce(topic, [doc(10 * partition + i) for i in range(5)], partition)
    with ps.open(shop(), None, partitions=2) as engine:
        with member(server, engine, topic) as a:
            all_in(engine, 20, a)
            with member(server, engine, topic) as b:
                shared(engine, 4, a, b)
                for partition in range(4):
                    server.produce(topic, [doc(10 * partition + i) for i in range(5, 8)], partition)
                all_in(engine, 32, a, b)
                assert {a.lag(), b.lag()} == {0}
            shared(engine, 4, a)
            server.produce(topic, [doc(99)], 3)
            all_in(engine, 33, a)
        assert names(engine) == {"Sue": 33}
        assert engine.status()["sources"] == {f"users=kafka:{topic}/{p}": 8 + (p == 3) for p in range(4)}
    assert server.committed(f"of-{topic}") == {0: 8, 1: 8, 2: 8, 3: 9}


def test_what_a_member_had_that_was_stopped_changes_nothing(server: Server) -> None:
    topic = server.topic(2)
    for partition in range(2):
        server.produce(topic, [doc(10 * partition + i, "old") for i in range(6)], partition)
    # A group takes a process that is stopped for dead when its session ends, and one that asks for nothing so soon.
    soon = "&max.poll.interval.ms=" + server.session.partition("&heartbeat")[0].rpartition("=")[2]
    with ps.open(shop(), None, partitions=2) as engine, member(server, engine, topic, soon) as a:
        all_in(engine, 12, a)
        for partition in range(2):
            server.produce(topic, [doc(10 * partition + i, "last") for i in range(6)], partition)
        kept = [fetched(a)]
        with member(server, engine, topic) as b:

            def others_go_on() -> bool:
                give(engine, b)
                return names(engine) == {"last": 12}

            until(others_go_on, "the other one has the topic")
            before = engine.digest()
            for batch in kept:
                (told,) = [counts for _, counts in engine.load("users", [spout_batch_of(spout_batch_data(batch))])]
                assert told.late == batch.records.n
            assert engine.digest() == before
            server.produce(topic, [doc(50)], 0)
            server.produce(topic, [doc(51)], 1)
            all_in(engine, 14, a, b)


def test_where_a_topic_begins_is_said_once_for_all_its_partitions(server: Server) -> None:
    topic = server.topic(3)
    for partition in range(3):
        server.produce(topic, [doc(partition, "before")], partition)
    with ps.open(shop(), None, partitions=2) as engine:
        with (
            member(server, engine, topic, "&from=latest") as a,
            member(server, engine, topic, "&from=latest") as b,
        ):
            shared(engine, 3, a, b)
            stands = {f"users=kafka:{topic}/{p}": 1 for p in range(3)}
            until(lambda: not (give(engine, a) or give(engine, b)) and engine.status()["sources"] == stands, "pins")
            server.widen(topic, 4)
            server.produce(topic, [doc(40, "later")], 3)
            all_in(engine, 1, a, b)
        assert names(engine) == {"later": 1}


def test_a_beginning_of_an_old_share_is_refused(server: Server) -> None:
    """Two members say where a topic begins, and one of them is slow to."""
    topic = server.topic(1)
    with ps.open(shop(), None, partitions=2) as engine, member(server, engine, topic, "&from=latest") as a:
        kept: list[SpoutBatch] = []

        def said() -> bool:
            batch = a.next_batch(10, 0.05)
            kept.extend([] if batch is None else [batch])
            return bool(kept)

        until(said, "it says where the topic begins")
        (old,) = kept
        assert (old.again, old.fenced, old.stood) == (True, True, None)
        a.begin(a._recall)
        all_in(engine, 0, a)
        until(lambda: not give(engine, a) and bool(engine.status()["sources"]), "it is pinned")
        server.produce(topic, [doc(1)])
        all_in(engine, 1, a)
        for given in (old, spout_batch_of(spout_batch_data(old))):
            with pytest.raises(SourceMoved):
                list(engine.load("users", [given]))
        assert engine.status()["sources"] == {f"users=kafka:{topic}/0": 1}


def test_records_of_a_topic_that_had_the_name_before_are_refused(server: Server, store_path: Path) -> None:
    topic = server.topic(1)
    server.produce(topic, [doc(i, "old") for i in range(4)])
    with ps.open(shop(), store_path, partitions=2, processes=False) as engine:
        with member(server, engine, topic, "&lost=earliest") as a:
            all_in(engine, 4, a)
            server.produce(topic, [doc(i, "old") for i in range(4, 8)])
            kept = fetched(a)
            server.delete(topic)
            server.make(topic)
            server.produce(topic, [doc(i, "new") for i in range(100, 104)])
            a.begin(a._recall)
            all_in(engine, 8, a)
            assert names(engine) == {"old": 4, "new": 4}
            with pytest.raises(SourceMoved):
                list(engine.load("users", [kept]))
            assert names(engine) == {"old": 4, "new": 4}
        server.delete(topic)
        server.make(topic)
        with (
            member(server, engine, topic) as b,
            pytest.raises(SourceUnreadable, match="deleted and made again"),
        ):
            until(lambda: bool(give(engine, b)), "it is told")


def test_who_rests_stays_a_member(server: Server) -> None:
    topic = server.topic(2)
    server.produce(topic, [doc(0)], 0)
    with ps.open(shop(), None, partitions=2) as engine, member(server, engine, topic) as a:
        all_in(engine, 1, a)
        server.produce(topic, [doc(1)], 0)
        a.rest(0.05)
        with member(server, engine, topic) as b:

            def found() -> bool:
                a.rest(0.02)
                give(engine, b)
                return len(b._given) == 1

            until(found, "the other one has a share")
            assert len(users(engine)) <= 2
            all_in(engine, 2, a, b)


def test_a_group_is_of_one_store(server: Server) -> None:
    topic = server.topic(2)
    server.produce(topic, [doc(0)], 0)
    with (
        ps.open(shop(), None, partitions=2) as engine,
        ps.open(shop(), None, partitions=2) as second,
        member(server, engine, topic) as a,
    ):
        all_in(engine, 1, a)
        says = rf"group of-{topic} has members that are not of this store \(this-store\); end them, or say"
        own = member(server, second, topic, called="another-store")
        with pytest.raises(SourceUnreadable, match=says):
            own.__enter__()
        server.produce(topic, [doc(1)], 1)
        all_in(engine, 2, a)


class Deaf(ConfluentReader):
    """A member that its group does not have, and that hears nothing of it."""

    def dealt(self) -> list[int] | None:
        return None


def test_who_is_no_member_for_long_joins_anew(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = server.topic(2)
    for partition in range(2):
        server.produce(topic, [doc(10 * partition)], partition)
    with monkeypatch.context() as planted, ps.open(shop(), None, partitions=2) as engine:
        planted.setattr(ConfluentClient, "member", lambda self, address, called, lean=False: Deaf(address, lean))
        with member(server, engine, topic) as own:
            planted.undo()
            before, beats = own._id, itertools.count(int(own._asked), 11)
            own._beats = lambda: float(next(beats))
            until(lambda: give(engine, own) >= 0 and own._id != before, "it joins anew")
            own._beats = time.monotonic
            all_in(engine, 2, own)
            members = own._broker.members(own.group)
            assert members == {own._id: {0, 1}}
