"""Repost old values in a topic, with `?envelope=topic` and ts 0, into a store of several partitions."""

from __future__ import annotations

import json

import pytest

import penstock as ps
from tests.kafka.reading import read, spout
from tests.kafka.server import Row, Server
from tests.partitions.stores import placed
from tests.partitions.union.test_union_repairs import document, like_one, owner, shop
from tests.recovery.damage import tell


def wire(i: int, ts: int, **fields: object) -> Row:
    return None, json.dumps({"topic": "users(id)", **document(i, **fields), "ts": ts}).encode()


@pytest.mark.parametrize("partitions", [1, 2])
def test_reposted_old_values_are_removed(server: Server, client: str, partitions: int) -> None:
    """A group may be in any partition. The other records of the topic are applied, each once."""
    topic = server.topic(partitions)
    server.produce(topic, [wire(3, 0, g="Sam"), wire(3, 2, g="g1"), wire(4, 0, g="Sam")], 0)
    server.produce(topic, [wire(5, 0, g="Sam"), wire(80, 1), wire(5, 0, g="Kim")], partitions - 1)
    with placed(), ps.open(shop(), None, partitions=3) as partitioned:
        partitioned.put_many("users", [document(i) for i in range(60)])
        for i, group in ((3, "Sam"), (4, "Sam"), (5, "Sam"), (5, "Kim")):
            tell(owner(partitioned, group), "yielded", [(i, group, 90)], [])
            tell(owner(partitioned, group), "kept", [(i, group, 90)], [])
        partitioned.settle()
        with partitioned.snapshot() as snap:
            assert snap.view("kept")["Sam"]["max"] == snap.view("kept")["Kim"]["max"] == 90
        with spout(server, partitioned, topic, client, "&envelope=topic", timed=False) as own:
            counts = read(partitioned, own, 6)
        assert (counts.applied, counts.equal, counts.late, counts.rejected) == (2, 4, 0, 0)
        with partitioned.snapshot(consistency="position") as snap:
            assert snap.view("kept").get("Sam") is None
            assert snap.view("yielded").get("Kim") is None
            assert snap.table("users")[3]["g"] == "g1"
            assert snap.table("users")[80] == document(80)
        like_one(partitioned)
        with spout(server, partitioned, topic, client, "&envelope=topic", timed=False) as own:
            assert own.next_batch(10, 0.05) is None, "it goes on where the store stands"
