"""A clock that goes back by an hour at each look of a writer.

Documents decide which version wins, and the store decides the order of commits. Durations are measured with a clock
that does not jump.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.core.crash import crash_writer as writer
from tests.core.crash.after_crash import acknowledged
from tests.faults import power, shop

BATCHES, SIZE, DOCUMENTS = 6, 8, 60


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return power.built("clock.c", tmp_path_factory.mktemp("clock"))


def run(clock: Path, *program: str) -> str:
    """Run a Python program under that clock. Return its output."""
    env = {**os.environ, "LD_PRELOAD": str(clock)}
    return subprocess.run(
        [sys.executable, *program], cwd=power.ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def test_that_clock_jumps_back(clock: Path) -> None:
    looks = (
        "import time, datetime as d; now = time.time\n"
        "print(now(), d.datetime.now().timestamp(), now(), time.monotonic())"
    )
    before = time.monotonic()
    first, second, third, measured = map(float, run(clock, "-c", looks).split())
    assert first - 3000 > second > third + 3000
    assert before <= measured <= time.monotonic(), "the clock that measures does not jump"


@pytest.mark.parametrize("durability", ["sync", "group"])
def test_batches_are_what_they_are_by_any_clock(clock: Path, store_path: Path, durability: str) -> None:
    wrote = ("-m", "tests.faults.shop", str(store_path), durability)
    assert acknowledged(run(clock, *wrote, "0", str(BATCHES // 2), str(SIZE))) == BATCHES // 2
    with shop.opened(store_path) as engine, engine.snapshot() as snap:
        # opened under a clock that is ahead, then under one that is behind
        assert snap.sources == {writer.SOURCE: BATCHES // 2}
    assert acknowledged(run(clock, *wrote, str(BATCHES // 2), str(BATCHES), str(SIZE))) == BATCHES
    assert shop.check_batches(store_path, BATCHES, BATCHES, SIZE) == BATCHES


def test_tickets_are_done_by_any_clock(clock: Path, store_path: Path) -> None:
    said = run(clock, "-m", "tests.faults.shop", str(store_path), "group", "0", str(DOCUMENTS), "0")
    assert acknowledged(said) <= DOCUMENTS
    assert shop.check_puts(store_path, DOCUMENTS) == DOCUMENTS


def test_the_owner_is_named_by_any_clock(clock: Path, store_path: Path) -> None:
    code = (
        "import sys; from tests.faults import shop; from pathlib import Path; import penstock as ps\n"
        "with shop.opened(Path(sys.argv[1])) as engine:\n"
        "    try: ps.open(shop.WORLD.app(), sys.argv[1])\n"
        "    except ps.StoreInUse as error: print(error)\n"
    )
    assert "is being written by process" in run(clock, "-c", code, str(store_path))
