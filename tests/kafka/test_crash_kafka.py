"""Ten kills of engine and broker; 200 by `make kafka-kills`."""

from __future__ import annotations

from tests.kafka.killing import story

_SEED = {"kafka-python": 1, "confluent": 2}


def test_nothing_is_lost_and_nothing_counts_twice(client: str) -> None:
    assert sum(story(client, _SEED[client], 5).values()) == 5
