"""Kills of the writer at any moment, in and between batches, and again after it reopened the store."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import pytest

import penstock as ps
from tests.core.crash import after_crash
from tests.harness.worlds import SHOP

BATCHES = 120


def killed(path: Path, durability: str, batches: int, size: int, choose: Random) -> str:
    """Kill a writer some time after it acknowledged a random batch. Return its output."""
    last = str(choose.randrange(1, 60))
    with after_crash.start(path, durability, batches, size) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.strip() == last:
                break
        for _ in range(choose.randrange(20_000)):
            pass
        process.send_signal(signal.SIGKILL)
        said.extend(process.stdout)
    assert process.returncode == -signal.SIGKILL
    return "".join(said)


@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize("durability", ["sync", "group"])
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment(store_path: Path, durability: str, size: int, seed: int):
    said = killed(store_path, durability, BATCHES, size, Random(f"{seed} {durability} {size}"))
    assert after_crash.check_store(store_path, said, BATCHES, size) > 0


@pytest.mark.parametrize("seed", range(4))
def test_tickets_killed_at_any_moment(store_path: Path, seed: int):
    said = killed(store_path, "group", 100_000, 0, Random(seed))
    assert after_crash.check_puts(store_path, said) > 0


def test_the_check_sees_a_lost_batch(store_path: Path):
    """Plant a bug: the writer acknowledges one batch more than it stored."""
    with after_crash.start(store_path, "sync", 5, 10) as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    with pytest.raises(AssertionError, match="6 batches were acknowledged, 5 are in"):
        after_crash.check_store(store_path, said + "6\n", 5, 10)
    assert after_crash.check_store(store_path, said, 5, 10) == 5


def test_the_check_sees_what_no_batch_had(store_path: Path):
    """Plant a bug: the store has a field that no batch put."""
    with after_crash.start(store_path, "sync", 5, 10) as process:
        said, _ = process.communicate()
    with ps.open(SHOP.app(), store_path) as engine:
        engine.put_many("orders", [{"id": 1, "amount": 77}])
    with pytest.raises(AssertionError, match="orders"):
        after_crash.check_store(store_path, said, 5, 10)
