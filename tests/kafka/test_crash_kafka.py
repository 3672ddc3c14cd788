"""Ten kills of engine and broker, five a client; 200 by `make kafka-kills`.

In processes of their own, side by side: kafka-python leaves the sockets of refused connections to the collector.
"""

from __future__ import annotations

import subprocess
import sys

from tests.kafka.server import Server
from tests.tidy.tree import ROOT

_SEEDS = {"kafka-python": 8, "confluent": 7}


def test_nothing_is_lost_and_nothing_counts_twice(server: Server) -> None:
    server.must_be_own()
    command = [sys.executable, "-m", "tests.kafka.killing", "--kills", "5"]
    stories = [
        subprocess.Popen(
            [*command, "--seed", str(seed), "--client", client],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for client, seed in _SEEDS.items()
    ]
    try:
        for story in stories:
            said, _ = story.communicate(timeout=300)
            assert story.returncode == 0, said
            assert "5 kills (" in said
    finally:
        for story in stories:
            story.kill()
