"""Run the Kafka example: one command starts the broker and ends well."""

from __future__ import annotations

import subprocess
import sys

from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE


def test_it_comes_to_its_end() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.kafka", "2000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[-1].startswith("   all of it is in the view, and in ")
