"""The bench of bulk work runs, whole and tiny: what it fills is compared with its input by itself.

It starts a Spark of its own. It needs pyspark and Java (`conftest.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import ROOT


def test_every_figure_of_bulk_work_runs(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "bench.spark",
        "--docs",
        "2000",
        "--master",
        "local[1]",
        "--views",
        "field",
        "--verify",
    ]
    done = subprocess.run(
        [*command, "--dir", str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert [f["figure"] for f in figures] == ["backfill", "driver", "start", "verify"]
    assert all(f["met"] is None for f in figures if f["unit"] == "documents/s"), "a tiny run judges nothing"
    assert not (tmp_path / "run").exists()
