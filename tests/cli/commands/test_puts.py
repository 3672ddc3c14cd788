"""Many processes put at the same time into a store without a holder: each put is stored, and none fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import penstock as ps
from penstock.cli.app_file import load
from tests.cli.loading import STORE
from tests.cli.running_process import ROOT
from tests.waiting import PATIENCE

PROCESSES, AT_ONCE = 80, 20


def test_no_put_fails(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cli.commands.puts", str(tmp_path)]
    done = subprocess.run(
        [*command, f"--processes={PROCESSES}", f"--at-once={AT_ONCE}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {}
    with ps.open(load(str(tmp_path / "app.py")), tmp_path / STORE, readonly=True) as engine, engine.snapshot() as snap:
        assert sorted(dict(snap.table("users").items())) == list(range(PROCESSES))
        assert sum(dict(snap.view("names").items()).values()) == PROCESSES
