"""One broker for all tests of this folder, and each of its tests over both clients.

It is a real one, which Maven fetches; where that can't be, the one that KAFKA_BOOTSTRAP names; where there is none, the
mock that confluent-kafka brings, which knows neither transactions nor ids of topics. The last lines of a run say which.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import closing
from tests.kafka.server import Server, serve

_SAYS = {
    "real": "kafka: a real broker (Apache Kafka 4.1.1, one JVM, started and ended by these tests)",
    "named": "KAFKA: THE BROKER THAT KAFKA_BOOTSTRAP NAMES, for none could be started here",
    "mock": "KAFKA: ONLY THE MOCK OF confluent-kafka, for there is no Maven here and KAFKA_BOOTSTRAP names no broker; "
    "what it can't show fails",
}


@pytest.fixture(scope="package")
def server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """The broker."""
    own = serve()
    closing.lines(pytestconfig).append(_SAYS[own.kind])
    print(_SAYS[own.kind])
    yield own
    own.close()


@pytest.fixture(params=["kafka-python", "confluent"])
def client(request: pytest.FixtureRequest) -> str:
    """Each of the clients."""
    name: str = request.param
    return name
