"""A few strikes at the members of a group, over each client; a hundred by `make kafka-storms`."""

from __future__ import annotations

from tests.kafka.server import Server
from tests.kafka.storms import storm

_STRIKES = {
    "kafka-python": ["stop", "kill the holder", "begin", "end"],
    "confluent": ["stop the holder", "begin", "kill"],
}


def test_whoever_is_left_goes_on(server: Server, client: str) -> None:
    server.must_be_own()
    strikes = _STRIKES[client]
    assert storm(server, client, 1, strikes) == dict.fromkeys(strikes, 1)
