"""The contract of the Kafka sink over both clients: the values that a consumer keeps as the latest per key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.cli.json_values import dumps
from penstock.cli.running.feed_steps import FeedSteps
from penstock.cli.running.sink_thread import SINKS
from penstock.kafka import MARK, KafkaFault
from penstock.sink import KafkaSink, SinkBusy, SinkTaken
from penstock.sink.position_order import has_all
from penstock.views import Change, Position
from tests.kafka.reading import names, shop
from tests.kafka.server import Server


def latest(server: Server, topic: str) -> dict[Any, Any]:
    """Return the latest value of each key, as a consumer keeps it."""
    out: dict[Any, Any] = {}
    for _, key, value in server.rows(topic):
        assert key is not None
        out[key] = None if value is None else json.loads(value)
    return {json.loads(key): value for key, value in out.items() if value is not None}


def values(server: Server, topic: str) -> dict[Any, Any]:
    return {key: own["value"] for key, own in latest(server, topic).items()}


def opened(server: Server, topic: str, client: str, more: str = "") -> KafkaSink:
    own = SINKS.open(f"kafka://{server.servers}/{topic}?client={client}{more}", "names")
    assert isinstance(own, KafkaSink)
    _opened.append(own)
    return own


_opened: list[KafkaSink] = []


@pytest.fixture(autouse=True)
def no_producer_is_left() -> Iterator[None]:
    """Close producers that were left open, as after a kill, before the broker ends."""
    yield
    while _opened:
        _opened.pop()._producer.close()


@pytest.fixture(params=[1, 3])
def engine(request: pytest.FixtureRequest) -> Iterator[ps.Engine]:
    """A store with one partition, and one with several."""
    with ps.open(shop(), None, partitions=request.param) as own:
        yield own


def deliver(engine: ps.Engine, sink: KafkaSink, since: Position | None) -> Position:
    """Write all changes since a position. Return the position after them."""
    engine.settle()
    steps = FeedSteps(engine, ["names"], since)
    for changes, position in steps.step():
        sink.write(changes)
        if position is not None:
            sink.holds(position)
    return steps.position


def put(engine: ps.Engine, **named: str) -> None:
    engine.put_many("users", [{"id": key, "name": name} for key, name in named.items()])


def test_the_latest_values_are_the_view(server: Server, client: str, engine: ps.Engine) -> None:
    topic = server.topic(3)
    put(engine, a="Sue", b="Joe", c="Joe")
    sink = opened(server, topic, client)
    assert sink.begin() is None
    since = deliver(engine, sink, None)
    put(engine, a="Ann", b="Ann")
    since = deliver(engine, sink, since)
    sink.close()
    assert values(server, topic) == names(engine) == {"Joe": 1, "Ann": 2}
    assert [value for _, key, value in server.rows(topic) if key == b'"Sue"'][-1] is None


def test_the_sink_continues_at_the_position_of_the_topic(server: Server, client: str, engine: ps.Engine) -> None:
    """After any end: repeated changes are equal, and none is missing."""
    topic = server.topic(2)
    for n in range(6):
        put(engine, **{f"k{i}": f"{(i + n) % 4}" for i in range(8)}, **{f"only{n}": f"o{n}"})
        sink = opened(server, topic, client)
        began = sink.begin()
        with engine.snapshot() as snap:
            assert began is None or has_all(snap.position, began)
        deliver(engine, sink, began)
        if n % 2:
            sink.close()
        else:
            sink._producer.flush()  # and then it is killed, before a header names these as held
            sink._producer.close()
        assert values(server, topic) == names(engine)
    assert opened(server, topic, client).begin() is not None


def test_only_arrived_records_are_held(server: Server, client: str) -> None:
    topic = server.topic()
    with ps.open(shop(), None) as engine:
        put(engine, a="Sue")
        sink = opened(server, topic, client)
        sink._clock = lambda: 0.0  # so that no time passes
        assert sink.begin() is None
        since = deliver(engine, sink, None)
        put(engine, a="Joe")
        deliver(engine, sink, since)
        sink._producer.flush()
        assert opened(server, topic, client).begin() == since, "no record says that more is held"
        sink._clock = lambda: float("inf")
        sink.holds(2)
        sink.write([Change("names", "x", None, 1, 3)])
        sink.close()
        assert opened(server, topic, client).begin() == 2


def test_an_incomplete_topic_gets_all_rows_and_keeps_no_others(server: Server, client: str, engine: ps.Engine) -> None:
    topic = server.topic(2)
    put(engine, **{f"k{i}": f"n{i}" for i in range(9)})
    sink = opened(server, topic, client)
    assert sink.begin() is None
    for changes, _ in FeedSteps(engine, ["names"], None).step():
        sink.write(changes)
    sink._producer.flush()  # and then it is killed, before a header says that these are all
    sink._producer.close()
    put(engine, **{f"k{i}": "same" for i in range(4)})
    sink = opened(server, topic, client)
    assert sink.begin() is None
    deliver(engine, sink, None)
    sink.close()
    assert values(server, topic) == names(engine)
    assert "n0" not in values(server, topic)


def test_no_value_goes_back_after_a_kill(server: Server, client: str, engine: ps.Engine) -> None:
    """A consumer that keeps the latest value never gets an earlier one."""
    topic = server.topic()
    put(engine, a="Sue")
    sink = opened(server, topic, client)
    first = since = deliver(engine, sink, sink.begin())
    sink._clock = lambda: 0.0  # no header names a later position as held
    sink._flushed = 0.0
    for n in range(8):
        put(engine, **{f"k{n}": "Sue", f"only{n}": f"o{n}"})
        since = deliver(engine, sink, since)
    sink._producer.flush()
    sink._producer.close()
    put(engine, k8="Sue")
    engine.delete("users", "only3")
    sink = opened(server, topic, client)
    began = sink.begin()
    assert began == first
    deliver(engine, sink, began)
    sink.close()
    counted = [json.loads(value)["value"] for _, key, value in server.rows(topic) if key == b'"Sue"' and value]
    assert counted == sorted(counted)
    assert counted[-1] == 10
    assert values(server, topic) == names(engine)


def test_changes_with_old_and_new(server: Server, client: str) -> None:
    topic = server.topic()
    with ps.open(shop(), None) as engine:
        put(engine, a="Sue")
        sink = opened(server, topic, client, "&envelope=change")
        since = deliver(engine, sink, sink.begin())
        put(engine, b="Sue")
        since = deliver(engine, sink, since)
        engine.delete("users", "a")
        engine.delete("users", "b")
        deliver(engine, sink, since)
        sink.close()
    rows = [None if value is None else json.loads(value) for _, key, value in server.rows(topic) if key != MARK]
    assert rows == [
        {"group": "Sue", "new": 1, "position": 1},
        {"group": "Sue", "old": 1, "new": 2, "position": 2},
        {"group": "Sue", "old": 2, "new": 1, "position": 3},
        {"group": "Sue", "old": 1, "position": 4},
        None,
    ]


def test_a_foreign_topic_is_not_written(server: Server, client: str) -> None:
    topic = server.topic()
    server.produce(topic, [(b"a", b"b")])
    with pytest.raises(SinkTaken, match="its last record is no change of view 'names'; name another topic"):
        opened(server, topic, client).begin()
    with pytest.raises(KafkaFault, match="there is no topic 'nowhere'; create it, with cleanup"):
        opened(server, "nowhere", client).begin()


def test_a_topic_has_one_writer_per_store(server: Server, client: str) -> None:
    """A topic is identified by its id, at any address."""
    topic, asked = server.topic(), list[str]()
    for more in ("", "&envelope=change"):
        own = opened(server, topic, client, more)
        own.claim = lambda what: asked.append(what) or "process 4711"
        with pytest.raises(SinkBusy, match=f"/{topic}.*: process 4711 writes it; wait until that one lets go"):
            own.begin()
    assert asked[0] == asked[1]
    assert opened(server, topic, client).begin() is None


def test_a_topic_of_another_number_of_partitions_is_refused(server: Server, client: str) -> None:
    topic = server.topic(8)
    for n, position in enumerate((3, (4, 4))):
        sink = opened(server, topic, client)
        sink._hold(position)
        sink.write([Change("names", f"g{n}", None, 1, position)])
        sink._flush()
    with pytest.raises(SinkTaken, match="its records are of stores of different numbers of partitions; name another"):
        opened(server, topic, client).begin()


def test_the_last_record_is_found_behind_markers(server: Server, client: str) -> None:
    topic = server.topic()
    sink = opened(server, topic, client)
    sink.begin()
    sink._hold(7)
    sink.write([Change("names", "x", None, 1, 8)])
    sink.close()
    for _ in range(3):
        server.transaction(topic, [(b"k", b"v")], commit=False)
    assert opened(server, topic, client).begin() == 7


def test_every_kind_of_value_is_json(server: Server, client: str) -> None:
    topic = server.topic()
    sink = opened(server, topic, client)
    sink.begin()
    groups = [None, True, 7, 2**70, 0.5, float("nan"), "Å", b"\0", ("a", 1)]
    sink.write([Change("names", group, None, {"n": group}, 1) for group in groups])
    sink.write([Change("names", group, None, group, 1) for group in groups])
    sink.close()
    rows = server.rows(topic)
    assert [key for _, key, _ in rows] == [dumps(group).encode() for group in groups] * 2 or all(
        json.loads(key or b"") == json.loads(dumps(group)) for (_, key, _), group in zip(rows, groups * 2, strict=True)
    )
    for (_, _, value), group in zip(rows[len(groups) :], groups, strict=True):
        assert json.loads(value or b"")["value"] == json.loads(dumps(group))


def test_a_spout_reads_the_view_from_the_topic(server: Server, client: str) -> None:
    from tests.kafka.reading import read, spout

    topic = server.topic(2)
    back = ps.App("back")
    back.table("users", key="group").view("names", key="group", value="value", reduce=ps.sum())
    with ps.open(shop(), None) as engine, ps.open(back, None) as other:
        sink = opened(server, topic, client)
        since = sink.begin()
        for n in range(3):
            put(engine, **{f"k{i}": f"{(i * n) % 4}" for i in range(8)})
            since = deliver(engine, sink, since)
        sink.close()
        with spout(server, other, topic, client) as own:
            read(other, own, sum(key != MARK for _, key, _ in server.rows(topic)))
        assert names(other) == names(engine)


def test_changes_in_flight_are_bounded(server: Server, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sink.kafka_sink._PENDING", 3)
    topic = server.topic()
    sink = opened(server, topic, client)
    sink._clock = lambda: 0.0
    sink.begin()
    sink._flushed = 0.0
    seen = []
    for n in range(1, 9):
        sink.write([Change("names", f"g{n}", None, n, n)])
        sink.holds(n)
        seen.append(sink._held)
    assert seen == [1, 1, 1, 4, 4, 4, 7, 7]
    sink.close()
