"""The contract of the Kafka spout over both clients: the documents from a topic, and the offsets where it continues."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.spout import SPOUTS, SourceMissing, SourceUnreadable
from tests.kafka.reading import names, read, shop, spout, stamped, users
from tests.kafka.server import PASSWORD, Row, Server, until
from tests.waiting import PATIENCE


def doc(key: int, name: str, **more: Any) -> Row:
    return b"%d" % key, json.dumps({"id": key, "name": name, **more}).encode()


def test_documents_and_deletions_continue_at_the_stored_offset(server: Server, client: str, store_path: Path) -> None:
    topic = server.topic(2)
    server.produce(topic, [doc(i, "Sue") for i in range(20)], 0)
    server.produce(topic, [doc(i, "Joe") for i in range(20, 30)], 1)
    with ps.open(shop(), store_path) as engine, spout(server, engine, topic, client) as own:
        assert own.contract.exact or server.mock is not None, "a mock does not tell whether a topic is compacted"
        assert read(engine, own, 30, limit=7).applied == 30
        assert engine.status()["sources"] == {f"users=kafka:{topic}/0": 20, f"users=kafka:{topic}/1": 10}
    server.produce(topic, [doc(1, "Joe"), (b"2", None), (b"29", None)], 0)
    with ps.open(shop(), store_path) as engine, spout(server, engine, topic, client) as own:
        assert read(engine, own, 3).applied == 3
        assert names(engine) == {"Sue": 18, "Joe": 10}
        assert own.lag() == 0


def test_uncommitted_records_come_again(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [doc(i, "Sue") for i in range(9)])
    with ps.open(shop(), None) as engine:
        with spout(server, engine, topic, client) as own:
            assert read(engine, own, 4, limit=4).applied == 4
            lost = next(b for b in iter(lambda: own.next_batch(2, 1.0), 0) if b is not None)
            assert (lost.start, lost.resume) == (4, 6)
        with spout(server, engine, topic, client) as own:
            assert read(engine, own, 5).applied == 5
        assert names(engine) == {"Sue": 9}


def test_the_brokers_timestamp_orders_versions_of_its_tables(server: Server, client: str) -> None:
    topic = server.topic(retention_ms="-1")
    moment = 1_700_000_000_000
    for row, ts in ((doc(1, "late"), moment + 5), (doc(1, "early"), moment), ((b"1", None), moment + 3)):
        server.produce(topic, [row], time_ms=ts)
    server.produce(topic, [doc(2, "gone")], time_ms=moment)
    server.produce(topic, [(b"2", None)], time_ms=moment + 1)
    with ps.open(stamped(), None) as engine, spout(server, engine, topic, client) as own:
        assert read(engine, own, 5).late == 2
        assert users(engine) == {1: {"id": 1, "name": "late"}}


def test_poison_is_kept_with_its_place_and_bytes(server: Server, client: str) -> None:
    topic = server.topic()
    poison = [b"no", b"", b"  ", b"[1]", b'{"id": null}', b'{"id": 1', b"\x81\xa2id\xc1", b"\xff"]
    rows: list[Row] = [doc(1, "Sue"), *((b"k", value) for value in poison), (None, None), doc(2, "Joe")]
    server.produce(topic, rows)
    with ps.open(shop(), None) as engine:
        with spout(server, engine, topic, client) as own:
            counts = read(engine, own, len(rows))
        assert (counts.applied, counts.rejected) == (2, 9)
        entries = list(engine.quarantine())
        assert [(one.source, one.offset) for one in entries] == [(f"users=kafka:{topic}/0", at) for at in range(1, 10)]
        assert [one.data for one in entries[:8]] == poison
        assert entries[0].place == f"{topic}-0, offset 1"
        assert "deletes nothing" in entries[8].reason


def test_keys_of_records(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [(b"007", b'{"name": "Bond"}'), (b"8", b'{"name": "Bill", "id": "old"}'), (b"8", None)])
    with ps.open(shop(), None) as engine, spout(server, engine, topic, client, "&key=id&keys=text") as own:
        assert read(engine, own, 3).applied == 3
        assert users(engine) == {"007": {"name": "Bond", "id": "007"}}


def test_from_selects_the_first_offset(server: Server, client: str) -> None:
    topic = server.topic(retention_ms="-1")
    for i in range(6):
        server.produce(topic, [doc(i, "Sue")], time_ms=1_700_000_000_000 + i * 1000)
    expected = {"earliest": 0, "1700000002500": 3, "2023-11-14T22:13:24Z": 4, "latest": 6, "1800000000000": 6}
    for start, first in expected.items():
        with ps.open(shop(), None) as engine:
            with spout(server, engine, topic, client, f"&from={start}") as own:
                read(engine, own, 0)
            assert engine.status()["sources"] == {f"users=kafka:{topic}/0": first}, "it is pinned before any record"
            with spout(server, engine, topic, client, "&from=earliest") as own:
                read(engine, own, 6 - first)
            assert sorted(users(engine)) == list(range(first, 6))


def test_the_groups_offset_is_late_and_has_no_effect(server: Server, client: str) -> None:
    topic, group = server.topic(), f"group-{client}"
    server.produce(topic, [doc(i, "Sue") for i in range(5)])
    with ps.open(shop(), None) as engine, spout(server, engine, topic, client, f"&group={group}") as own:
        own._clock = lambda: 0.5
        read(engine, own, 5)
        own._clock = lambda: 2.0
        until(lambda: own.next_batch(1, 0.05) is None and server.committed(group) == {0: 5}, "it is told a while after")
    with ps.open(shop(), None) as engine, spout(server, engine, topic, client, f"&group={group}") as own:
        assert read(engine, own, 5).applied == 5


def test_only_committed_records_are_read(server: Server, client: str) -> None:
    topic = server.topic()
    server.transaction(topic, [doc(1, "in")], commit=True)
    server.transaction(topic, [doc(2, "out"), doc(3, "out")], commit=False)
    server.produce(topic, [doc(4, "in")])
    waiting = server.open_transaction(topic, [doc(5, "in")])
    server.produce(topic, [doc(6, "in")])
    with ps.open(shop(), None) as engine:
        with spout(server, engine, topic, client) as own:
            assert read(engine, own, 2).applied == 2
            assert own.next_batch(10, 0.2) is None
            waiting.commit_transaction(PATIENCE)
            assert read(engine, own, 2).applied == 2
        assert sorted(users(engine)) == [1, 4, 5, 6]
        with spout(server, engine, topic, client) as own:
            assert own.next_batch(10, 0.2) is None


def test_a_compacted_topic_is_reported(server: Server, client: str) -> None:
    topic = server.topic(cleanup_policy="compact")
    with ps.open(shop(), None) as engine, spout(server, engine, topic, client) as own:
        assert not own.contract.exact
        assert "compacted" in own.contract.says


# -- lost records


def test_records_that_expired_unread_are_reported(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [doc(i, "Sue") for i in range(10)])
    with ps.open(shop(), None) as engine:
        with spout(server, engine, topic, client) as own:
            read(engine, own, 3, limit=3)
        server.expire(topic, 8)
        says = r"begins at 8: 5 records have expired unread; say with lost=earliest"
        with pytest.raises(SourceUnreadable, match=says), spout(server, engine, topic, client):
            pass
        with spout(server, engine, topic, client, "&lost=earliest") as own:
            assert read(engine, own, 2).applied == 2
        assert sorted(users(engine)) == [0, 1, 2, 8, 9]


def test_records_that_expire_under_a_reader_are_reported(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [doc(0, "Sue")])
    with ps.open(shop(), None) as engine:
        with spout(server, engine, topic, client) as own:
            read(engine, own, 1)
        with spout(server, engine, topic, client) as own:
            server.produce(topic, [doc(i, "Sue") for i in range(1, 9)])
            server.expire(topic, 9)
            server.produce(topic, [doc(9, "Sue")])
            own._reader.assign({0: 1})  # as if no record had been fetched yet
            with pytest.raises(SourceUnreadable, match=r"begins at 9: 8 records have expired unread"):
                read(engine, own, 1)


@pytest.mark.parametrize("longer", [False, True])
def test_a_recreated_topic_is_another_topic(server: Server, client: str, longer: bool) -> None:
    topic = server.topic()
    server.produce(topic, [doc(i, "old") for i in range(5)])
    with ps.open(shop(), None) as engine:
        with spout(server, engine, topic, client) as own:
            read(engine, own, 5)
        server.delete(topic)
        server.make(topic)
        server.produce(topic, [doc(i, "new") for i in range(100, 110 if longer else 102)])
        says = r"the topic was deleted and made again since: .* offset 5 of part"
        with pytest.raises(SourceUnreadable, match=says), spout(server, engine, topic, client):
            pass
        count = 10 if longer else 2
        for lost, left in (("latest", 0), ("earliest", 0)):
            with spout(server, engine, topic, client, f"&lost={lost}") as own:
                read(engine, own, left)
        assert names(engine) == {"old": 5}
        server.produce(topic, [doc(200, "new")])
        with spout(server, engine, topic, client) as own:
            read(engine, own, 1)
        assert engine.status()["sources"] == {f"users=kafka:{topic}/0": count + 1}


def test_a_topic_is_recreated_under_a_reader(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [doc(i, "old") for i in range(5)])
    with ps.open(shop(), None) as engine, spout(server, engine, topic, client, "&lost=earliest") as own:
        read(engine, own, 5)
        server.delete(topic)
        assert own.next_batch(10, 0.1) is None
        assert "waited for" in own.trouble
        server.make(topic, 2)
        server.produce(topic, [doc(i, "new") for i in range(100, 110)], 0)
        server.produce(topic, [doc(i, "new") for i in range(110, 115)], 1)
        read(engine, own, 15)
        assert names(engine) == {"old": 5, "new": 15}


def test_a_topic_deleted_under_a_reader_is_reported(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [doc(1, "old")])
    with ps.open(shop(), None) as engine, spout(server, engine, topic, client) as own:
        read(engine, own, 1)
        server.delete(topic)
        with pytest.raises(SourceUnreadable, match="the topic was deleted; say with lost="):
            read(engine, own, 1)


def test_added_partitions_are_read_completely(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [doc(0, "Sue")])
    with ps.open(shop(), None) as engine:
        with spout(server, engine, topic, client, "&from=latest") as own:
            read(engine, own, 0)
            server.widen(topic, 2)
            server.produce(topic, [doc(1, "Sue")], 1)
            read(engine, own, 1)
        server.widen(topic, 3)
        server.produce(topic, [doc(2, "Sue")], 2)
        with spout(server, engine, topic, client, "&from=latest") as own:
            read(engine, own, 1)
        assert sorted(users(engine)) == [1, 2]


# -- faults at the start


def test_a_missing_topic_is_reported(server: Server, client: str) -> None:
    says = "there is no topic 'nowhere'; create it, or check its name"
    with ps.open(shop(), None) as engine:
        own = spout(server, engine, "nowhere", client)
        with pytest.raises(SourceMissing, match=says):
            own.__enter__()


def test_tls_and_a_password(server: Server, client: str, tmp_path: Path) -> None:
    """Options pass from the URI, and secrets from a file."""
    broker = server.must_be_own()
    topic = server.topic()
    server.produce(topic, [doc(1, "Sue")])
    path = tmp_path / "client.properties"
    path.write_text(f"sasl.username=me\nsasl.password={PASSWORD}\nssl.ca.location={broker.certificate}\n")
    options = f"client={client}&security.protocol=SASL_SSL&sasl.mechanism=PLAIN&config={path}"
    uri = f"kafka://{broker.secure}/{topic}?{options}"
    with ps.open(shop(), None) as engine:
        own = SPOUTS.open(uri, "users")
        own.begin(lambda source: None)
        assert read(engine, own, 1).applied == 1
        own.close()


NO_BROKER = """
import sys
import penstock.kafka.kafka_python, penstock.kafka.confluent_kafka, penstock.kafka.retry
from penstock.spout import SPOUTS

penstock.kafka.retry.PATIENCE = 0.0
penstock.kafka.kafka_python._PATIENCE, penstock.kafka.confluent_kafka._PATIENCE = 300, 0.3
own = SPOUTS.open(f"kafka://127.0.0.1:1/users?client={sys.argv[1]}", "users")
try:
    own.begin(lambda source: None)
except Exception as error:
    print(error)
own.close()
"""


def test_a_missing_broker_is_reported(client: str) -> None:
    """Run in another process, because kafka-python leaves sockets of refused connections to the garbage collector."""
    done = subprocess.run(
        [sys.executable, "-c", NO_BROKER, client], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert re.search(r"no broker answers .*; see whether it runs, and whether this is its address", done.stdout)
    assert done.stderr == ""
