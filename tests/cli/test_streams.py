"""Standard streams that are closed, full, or without a reader: no traceback, the right code, and the work is done."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

from .conftest import USERS, Run

FULL = "penstock: standard output: no space left on device; free some space and run this again\n"


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which P is the program."""
    return subprocess.run(
        ["bash", "-c", line.replace("P ", f"{sys.executable} -m penstock ")],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize(
    "line", ["P --help", "P query namecount", "P status", "P export users", "P watch namecount --since 0", "P explain"]
)
def test_a_full_disk_behind_standard_output(line: str, filled: Path) -> None:
    done = shell(f"{line} > /dev/full", filled)
    assert (done.returncode, done.stderr) == (3, FULL)


def test_what_is_committed_stays_when_nobody_can_be_told(filled: Path, run: Run) -> None:
    (filled / "users.jsonl").write_text('{"id": 7, "name": "Ada", "ts": 1}\n')
    assert shell("P load users users.jsonl > /dev/full", filled).returncode == 3
    assert run("get", "namecount", "Ada").stdout == "1\n"


def test_closed_streams(filled: Path) -> None:
    for line in ("P query namecount >&-", "P query namecount 2>&-", "P load users - <&-", "P status >&- 2>&- <&-"):
        done = shell(line, filled)
        assert (done.returncode, done.stderr) == (0, ""), line


def test_an_error_that_nobody_hears_has_its_code(filled: Path) -> None:
    for line in ("P query nothing 2>/dev/full", "P query nothing 2>&-"):
        assert shell(line, filled).returncode == 2, line
    assert shell(f"P put users '{USERS[0]}' 2>/dev/full", filled).returncode == 0


@pytest.mark.parametrize("command", ["P query namecount", "P export users", "P put users '{}'", "P --help"])
def test_whoever_reads_has_gone(command: str, filled: Path) -> None:
    done = shell(f"{command} | true; echo ${{PIPESTATUS[0]}}", filled)
    assert done.stdout in ("0\n", "1\n" if "put" in command else "0\n")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
