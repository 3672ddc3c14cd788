"""A few strikes at the members of a group; a hundred by `make kafka-storms`."""

from __future__ import annotations

import pytest

from tests.kafka.server import Server
from tests.kafka.storms import storm

_STORMS = {1: ["stop", "kill the holder", "begin", "end"], 2: ["stop the holder", "begin", "kill"]}


@pytest.mark.parametrize("seed", _STORMS)
def test_whoever_is_left_goes_on(server: Server, seed: int) -> None:
    server.must_be_own()
    strikes = _STORMS[seed]
    assert storm(server, seed, strikes) == dict.fromkeys(strikes, 1)
