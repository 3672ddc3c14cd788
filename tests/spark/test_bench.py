"""The bench of bulk work runs completely at a tiny size. It compares the filled store with its input itself.

It starts a Spark of its own. It needs pyspark and Java (`conftest.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import spark
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE


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
        [*command, "--dir", str(tmp_path / "run")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert [f["figure"] for f in figures] == ["backfill", "driver", "start", "verify"]
    assert all(f["met"] is None for f in figures if f["unit"] == "documents/s"), "a tiny run judges nothing"
    assert not list((tmp_path / "run").iterdir())


def test_whole_runs_by_size_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"bench.spark:bulk": 5.0, "bench.spark:load": 0.1, "bench.spark:duck": 0.02}

    def run(what: str, **how: Any) -> dict[str, float]:
        return {"start": 6.0, "seconds": seconds[what] * how["docs"] / 1000}

    monkeypatch.setattr(spark, "run", run)
    found = list(spark.crossover(str(tmp_path), [1000, 10_000], "local[2]", tmp_path / "drawn" / "plot.svg"))
    assert [(one.case, one.value, one.limits["load, s"]) for one in found] == [
        ("1,000 documents", 11.0, 0.1),
        ("10,000 documents", 56.0, 1.0),
    ]
    drawn = (tmp_path / "drawn" / "plot.svg").read_text()
    assert [mark in drawn for mark in (">0.01 s<", ">100 s<", ">1,000 s<", ">10,000<")] == [True, True, False, True]
    assert drawn.count("<polyline") == 3
