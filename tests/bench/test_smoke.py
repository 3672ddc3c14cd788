"""Run the whole bench with tiny sizes. It compares the results that it measures with its input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import FIGURES
from bench.child import ChildFailed, run
from bench.report import Figure, median, percentile
from bench.workload import Workload
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE


def test_every_figure_runs(tmp_path: Path) -> None:
    other = tmp_path / "run" / "of another program"
    other.mkdir(parents=True)
    command = [sys.executable, "-m", "bench", "--smoke", "--dir", str(tmp_path / "run"), "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert {f["figure"] for f in figures} == set(FIGURES)
    assert all(f["met"] is None for f in figures), "a tiny run judges nothing"
    assert all(f["value"] > 0 for f in figures if f["unit"] == "documents/s")
    assert {p.stem for p in tmp_path.glob("*.jsonl")} == set(FIGURES)
    assert list(other.parent.iterdir()) == [other], "it deletes its own folder, and nothing else"


def test_a_measurement_that_fails_is_no_figure() -> None:
    with pytest.raises(ChildFailed, match=r"bench\.load:load"):
        run("bench.load:load", no_such_argument=1)


def test_the_workload_knows_what_wins() -> None:
    work = Workload(50, seed=3)
    lines = work.every_key(50) + work.upserts(200)
    docs = {doc["id"]: doc for doc in map(json.loads, lines)}
    by_name, by_city = work.expected()
    assert sorted(docs) == list(range(50))
    assert sum(by_name.values()) == 50
    for name, n in by_name.items():
        assert n == sum(doc["name"] == name for doc in docs.values())
    for city, row in by_city.items():
        amounts = [doc["amount"] for doc in docs.values() if doc["city"] == city]
        assert row == {"n": len(amounts), "total": sum(amounts)}


def test_a_disturbed_figure_is_marked() -> None:
    quiet, loud = (Figure("put", "median", 1.0, "µs", {}, idle) for idle in (0.95, 0.5))
    assert not quiet.disturbed
    assert loud.disturbed
    assert json.loads(loud.line("a machine"))["disturbed"] is True


def test_the_middle_and_the_tail() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert percentile([float(x) for x in range(100)], 0.99) == 99.0
