"""A partition without a leader is a transient answer of brokers: a spout and a sink ask again, and continue.

A mock broker removes the leader. A real broker has none when it starts, and when its machine is busy. No reader fetches
from the mock's partition meanwhile, because the mock would crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.cli.running.sink_thread import SINKS
from penstock.kafka import BrokerAway, retry
from penstock.sink import KafkaSink
from penstock.spout import SPOUTS, Spout
from tests.kafka.mock import Mock
from tests.kafka.reading import read, shop, spout, users
from tests.kafka.server import Server

DOC = b'{"id": %d, "name": "Sue", "n": 1}'


@pytest.fixture
def mocked() -> Iterator[Server]:
    """A broker that can remove the leader of a partition."""
    mock = Mock()
    server = Server("mock", mock.servers, mock=mock)
    yield server
    server.close()


@pytest.fixture(params=["kafka-python", "confluent"])
def own_client(request: pytest.FixtureRequest, mocked: Server) -> str:
    """The client of the test, by its name in a URI."""
    name: str = request.param
    return name + mocked.options(name)


class Pauses:
    """The pauses between two attempts. The leader comes back in the second one."""

    def __init__(self, server: Server, topic: str) -> None:
        self._server, self._topic = server, topic
        self.seen = 0

    def __call__(self, seconds: float) -> None:
        self.seen += 1
        if self.seen == 2:
            _lead(self._server, self._topic, True)


def _lead(server: Server, topic: str, has_leader: bool) -> None:
    assert server.mock is not None, "these tests mock the broker"
    server.mock.lead(topic, has_leader)


def _pausing(pauses: Pauses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.kafka.retry.until_ready.__defaults__", (pauses,))


def test_a_spout_waits_for_a_leader(mocked: Server, own_client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = mocked.topic()
    mocked.produce(topic, [(b"%d" % i, DOC % i) for i in range(3)])
    _lead(mocked, topic, False)
    pauses = Pauses(mocked, topic)
    _pausing(pauses, monkeypatch)
    with ps.open(shop(), None) as engine, spout(mocked, engine, topic, own_client) as own:
        assert pauses.seen >= 2
        assert read(engine, own, 3).applied == 3
        assert sorted(users(engine)) == [0, 1, 2]


def test_a_sink_waits_for_a_leader(mocked: Server, own_client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = mocked.topic()
    _lead(mocked, topic, False)
    pauses = Pauses(mocked, topic)
    _pausing(pauses, monkeypatch)
    sink: Any = SINKS.open(f"kafka://{mocked.servers}/{topic}?client={own_client}", "names")
    assert isinstance(sink, KafkaSink)
    try:
        assert sink.begin() is None
        assert pauses.seen >= 2
    finally:
        sink.close()


def test_a_leader_that_never_comes_is_an_error(
    mocked: Server, own_client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "PATIENCE", 0.0)
    topic = mocked.topic()
    _lead(mocked, topic, False)
    own: Spout = SPOUTS.open(f"kafka://{mocked.servers}/{topic}?client={own_client}", "users")
    with pytest.raises(BrokerAway, match="has no leader yet"):
        own.begin(lambda source: None)
    own.close()
