"""Kill engine and broker ten times, with both clients, once with a store of two partitions. `make kafka-kills` kills
200.

The stories run in separate processes, side by side, because kafka-python leaves sockets of refused connections to the
garbage collector.
"""

from __future__ import annotations

import subprocess
import sys

from tests.kafka.server import Server
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE

_STORIES = [("kafka-python", 8, 1, 5), ("confluent", 7, 1, 4), ("confluent", 8, 2, 1)]


def test_no_record_is_lost_or_counted_twice(server: Server) -> None:
    server.must_be_own()
    command = [sys.executable, "-m", "tests.kafka.killing"]
    stories = [
        subprocess.Popen(
            [*command, f"--kills={kills}", f"--seed={seed}", f"--client={client}", f"--partitions={parts}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for client, seed, parts, kills in _STORIES
    ]
    try:
        for story, (*_, kills) in zip(stories, _STORIES, strict=True):
            said, _ = story.communicate(timeout=3 * PATIENCE)
            assert story.returncode == 0, said
            assert f"{kills} kills (" in said
    finally:
        for story in stories:
            story.kill()
            story.communicate()  # else the garbage collector closes its pipe during another test
