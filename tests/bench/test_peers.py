"""The run beside the peers, with tiny inputs: the frame, resuming, wrong views and systems that can't be installed."""

import json
import sys
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import pytest

from bench.peers import inputs, oracle, page
from bench.peers.environments import MavenProgram, NotInstalled, PythonPackages
from bench.peers.processes import Clocks, runs
from bench.peers.results import Results
from bench.peers.rounds import Run
from bench.peers.session import Job, Measured, measure
from bench.peers.shapes import WORKLOADS
from bench.peers.systems import PENSTOCK, SYSTEMS, System, system
from tests.tidy.tree import ROOT

_DOCS = 60
_WRONG = """
import sys
_, *_, folder, rows = sys.argv
print("ready", flush=True)
input()
print('done {"version": "1"}', flush=True)
input()
open(rows, "w").write("by_name\\tname1\\t1\\n")
"""

_ENDLESS = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
open(os.path.join(sys.argv[-2], "pids"), "w").write(f"{os.getpid()} {child.pid}")
print("ready", flush=True)
signal.pause()
"""

_MEASURES = {
    7: {f"{name} of a write": "ms" for name in ("p50", "p99", "p99.9")} | {"p99 of a read": "ms"},
    8: {"until the first read": "s"},
    9: {"until it is complete": "s", "longest wait of a writer": "s"},
}


@dataclass(frozen=True)
class _Script:
    """A driver that is one script."""

    path: Path

    def command(self, cache: Path) -> list[str]:
        return [sys.executable, str(self.path)]


@dataclass(frozen=True)
class _Nowhere:
    """An environment that can't be installed."""

    def command(self, cache: Path) -> list[str]:
        raise NotInstalled("there is no peer in this registry")


def _run(folder: Path, *systems: System, workload: int = 1, rounds: int = 1) -> Results:
    results = Results(folder / "RESULTS.json", "a command", "a machine")
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    run = Run(results, systems, [workload], scratch, folder / "cache", rounds, 0, True, _DOCS, StringIO())
    run.go()
    return Results(results.path, "a command", "a machine")


def _other(name: str, environment: _Script | _Nowhere) -> System:
    return replace(system("SQLite"), name=name, environment=environment)


def test_a_run_measures_both_and_writes_the_page(tmp_path: Path) -> None:
    results = _run(tmp_path, system(PENSTOCK), system("SQLite"))
    assert [(row.job.system, len(row.rates)) for row in results.rows] == [(PENSTOCK, 1), ("SQLite", 1)]
    rows = json.loads(results.path.read_text())["rows"]
    assert all(row["verified"] and row["median"] > 0 and row["batch"] == 10_000 for row in rows)
    page.write(results, tmp_path)
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| SQLite | upserts | 10,000 |" in text
    assert (tmp_path / "plots" / "workload-1-standard.svg").exists()


def test_a_stopped_run_resumes(tmp_path: Path) -> None:
    job = Job(1, "standard", "SQLite", "upserts", 10_000)
    results = Results(tmp_path / "RESULTS.json", "a command", "a machine")
    results.add(job, _DOCS, Measured(2.0, 1.0, 1.0, 0.1, "as before"))
    (row,) = _run(tmp_path, _other("SQLite", _Script(tmp_path / "no such file"))).rows
    assert row.rates == [_DOCS / 2], "the round that exists is not measured again"
    assert Results(results.path, "a command", "another machine").rows == []


def test_a_wrong_view_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(_WRONG)
    results = _run(tmp_path, _other("Wrong", _Script(script)))
    assert results.rows == []
    assert "the views of Wrong differ from the input in" in results.left_out["Wrong"]


def test_a_driver_that_fails_is_left_out_with_its_last_words(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("raise ValueError('no such table')")
    results = _run(tmp_path, _other("Failing", _Script(script)))
    assert "ValueError: no such table" in results.left_out["Failing"]


def test_a_driver_and_its_children_end_with_the_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, folder = tmp_path / "endless.py", tmp_path / "turn"
    script.write_text(_ENDLESS)

    def stopped(pid: int) -> Clocks:
        raise KeyboardInterrupt

    monkeypatch.setattr(Clocks, "read", stopped)
    job = Job(1, "standard", "Endless", "upserts", 1)
    with pytest.raises(KeyboardInterrupt):
        measure(job, [sys.executable, str(script)], script, folder, set)
    pids = (folder / "pids").read_text().split()
    assert len(pids) == 2
    assert [pid for pid in pids if runs(int(pid))] == []


def test_a_system_that_cannot_be_installed_is_listed(tmp_path: Path) -> None:
    results = _run(tmp_path, _other("Nowhere", _Nowhere()))
    assert results.left_out == {"Nowhere": "not installed: there is no peer in this registry"}
    page.write(results, tmp_path)
    assert "- Nowhere: not installed: there is no peer" in (tmp_path / "RESULTS.md").read_text()


def test_a_failed_installation_names_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="there is no java on this machine"):
        MavenProgram("streams", "kafka", "Peer").command(tmp_path)


@pytest.mark.parametrize(
    ("number", "name"),
    [(2, PENSTOCK), (3, PENSTOCK), (3, "SQLite"), (5, "SQLite"), (9, PENSTOCK), (12, "SQLite"), (13, PENSTOCK)],
)
def test_the_views_of_each_workload_are_right(number: int, name: str, tmp_path: Path) -> None:
    results = _run(tmp_path, system(name), workload=number)
    assert results.left_out == {}
    assert {row.job.case.partition(": ")[0] for row in results.rows} == {case.name for case in WORKLOADS[number].cases}


@pytest.mark.parametrize("number", [7, 8, 9, 10, 11])
def test_each_scenario_has_its_measures(number: int, tmp_path: Path) -> None:
    results = _run(tmp_path, system("SQLite"), workload=number)
    assert results.left_out == {}
    measures = {row.job.case.partition(": ")[2]: row.unit for row in results.rows}
    assert measures == _MEASURES.get(number, {"": "documents/s"})
    page.write(results, tmp_path)


def test_a_measure_of_zero_has_no_ratio(tmp_path: Path) -> None:
    results = Results(tmp_path / "RESULTS.json", "a command", "a machine")
    for name, seconds in ((PENSTOCK, 0.0), ("SQLite", 1.0)):
        job = Job(8, "restart", name, "upserts", 10_000)
        results.add(job, _DOCS, Measured(1.0, 1.0, 1.0, 0.0, "1", {"until the first read, s": seconds}))
    page.write(results, tmp_path)
    assert "| 1 (0 %) |  |" in (tmp_path / "RESULTS.md").read_text()


def test_the_oracle_counts_deletes_and_moves(tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "name": "a", "city": "x", "amount": 2, "ts": 0}',
        '{"id": 2, "name": "a", "city": "x", "amount": 3, "ts": 1}',
        '{"id": 1, "name": "b", "city": "y", "amount": 4, "ts": 2}',
        '{"id": 2, "ts": 3, "deleted": true}',
    ]
    path = tmp_path / "lines"
    path.write_text("\n".join(lines[:3]))
    case = WORKLOADS[1].cases[0]
    rows = {"by_name\ta\t1", "by_name\tb\t1", "by_city\tx\t1\t3", "by_city\ty\t1\t4"}
    assert oracle.expected(case, path) == rows
    assert "by_name\ta\t2" in oracle.expected(case, path, append_only=True)
    path.write_text("\n".join(lines))
    assert oracle.expected(case, path) == {"by_name\tb\t1", "by_city\ty\t1\t4"}


def test_an_input_is_equal_in_each_run(tmp_path: Path) -> None:
    for case in inputs.MAKERS:
        inputs.write(case, 30, 10, tmp_path / "one")
        inputs.write(case, 30, 10, tmp_path / "two")
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert len((tmp_path / "one").read_bytes().splitlines()) == 30
        (tmp_path / "one").unlink()
        (tmp_path / "two").unlink()


def test_every_system_has_pins_and_a_caveat() -> None:
    for one in SYSTEMS:
        assert one.caveat.endswith(".")
        if isinstance(one.environment, PythonPackages):
            assert all("==" in package for package in one.environment.packages)
    assert (ROOT / "bench" / "peers" / "rust" / "Cargo.toml").exists()
