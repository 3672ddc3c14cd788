"""Strike the members of a group a few times. `make kafka-storms` strikes a hundred times."""

from __future__ import annotations

from tests.kafka.server import Server
from tests.kafka.storms import storm

_STRIKES = ["stop", "kill the holder", "begin", "stop the holder"]


def test_the_remaining_members_continue(server: Server, client: str) -> None:
    server.must_be_own()
    assert storm(server, client, 1, _STRIKES) == dict.fromkeys(_STRIKES, 1)
