"""Start one broker for all tests of this folder, and run them over both clients.

The broker is a real one that Maven fetches. If that fails, it is the one that KAFKA_BOOTSTRAP names, or the mock of
confluent-kafka. The last lines of a run say which one it was, which features it lacks, and which tests need them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import closing
from tests.kafka.server import Server, serve

_SAYS = {
    "real": "kafka: a real broker (Apache Kafka 4.1.1, one JVM, started and ended by these tests)",
    "named": "KAFKA: THE BROKER THAT KAFKA_BOOTSTRAP NAMES, for none could be started here",
    "mock": "KAFKA: ONLY THE MOCK OF confluent-kafka, for there is no Maven here and KAFKA_BOOTSTRAP names no broker",
}


@pytest.fixture(scope="package")
def server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """The broker."""
    own = serve()
    lines = closing.lines(pytestconfig)
    lines.append(_SAYS[own.kind])
    print(_SAYS[own.kind])
    yield own
    own.close()
    tests = sum(map(len, own.lacking.values()))
    if tests:
        lines.append(f"KAFKA: {tests} TESTS WERE PASSED OVER, for it can't show what they are of:")
    lines.extend(f"  {what}: {', '.join(names)}" for what, names in sorted(own.lacking.items()))


@pytest.fixture(params=["kafka-python", "confluent"])
def client(request: pytest.FixtureRequest, server: Server) -> str:
    """Each of the clients, by its name in a URI."""
    name: str = request.param
    return name + server.options(name)
