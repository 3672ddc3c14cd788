"""`make test-busy` burns cores beside the suite, and leaves no process behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.busy import BURNING
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE


def test_the_burning_processes_end_with_the_suite() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.busy", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    burned = re.findall(r"process (\d+) burns a core", done.stdout)
    assert len(burned) == BURNING
    assert not [pid for pid in burned if Path("/proc", pid).exists()]
    assert "pytest" in done.stdout
