"""An engine is closed while other threads read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE


@pytest.mark.parametrize("partitions", [1, 2])
def test_threads_that_read_end_with_closed_and_no_signal(store_path: Path, partitions: int) -> None:
    """Rounds alternate between writers and readers, and between a snapshot for each thread and a shared one."""
    rounds = 100
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.reads_beside_close", str(store_path), str(partitions), str(rounds)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    calls = ["document", "documents", "get", "items", "range"]
    assert (done.returncode, done.stdout.strip()) == (0, str([(call, rounds) for call in calls])), done.stderr
