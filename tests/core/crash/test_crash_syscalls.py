"""Kills of the writer before every system call by which its store reaches the disk.

strace first counts the calls of a whole run. Then the test runs the writer once for each call, and kills it at that
call. So the test covers the points before, between and after all writes and syncs of a commit.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.core.crash import after_crash

CALLS = ("pwrite64", "pwritev", "writev", "fdatasync", "fsync", "msync", "ftruncate")
BATCHES, SIZE = 4, 8


def run(path: Path, *tracing: str) -> tuple[int, str]:
    """Run the writer under strace. Return its exit code and output."""
    strace = shutil.which("strace")
    assert strace, "these tests need strace; install it"
    tracer = (strace, "-f", "-qq", "-e", "signal=none", *tracing)
    with after_crash.start(path, "sync", BATCHES, SIZE, under=tracer) as process:
        said, _ = process.communicate()
    return process.returncode, said


def points(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each call with its number among the calls of the same name and thread, in a run without a kill."""
    trace = folder / "trace"
    code, said = run(folder / "whole", "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
    assert (code, after_crash.acknowledged(said)) == (0, BATCHES)
    most: dict[str, dict[str, int]] = {}
    for thread, call in re.findall(r"^(\d+) +(\w+)\(", trace.read_text(), re.MULTILINE):
        of_call = most.setdefault(call, {})
        of_call[thread] = of_call.get(thread, 0) + 1
    for call, of_call in most.items():
        for number in range(1, max(of_call.values()) + 1):
            yield call, number


def test_killed_before_every_write_and_every_sync(tmp_path: Path):
    came_to: list[int] = []
    for call, number in points(tmp_path):
        path = tmp_path / f"{call}-{number}"
        kill = ("-o", str(tmp_path / "null"), "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")
        code, said = run(path, *kill)
        assert code in (-signal.SIGKILL, 128 + signal.SIGKILL), f"{call} {number}: the writer lived"
        came_to.append(after_crash.check_store(path, said, BATCHES, SIZE))
        shutil.rmtree(path, ignore_errors=True)
    assert len(came_to) >= 2 * BATCHES, "a commit is at least a write and a sync"
    assert set(range(BATCHES)) <= set(came_to), "every batch was in flight at some kill"


def test_strace_kills_where_it_is_told(tmp_path: Path):
    program = ["python3", "-c", "import os; f = os.open('f', os.O_CREAT | os.O_WRONLY); os.pwrite(f, b'x', 0)"]
    strace = shutil.which("strace")
    assert strace, "these tests need strace; install it"
    inject = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:signal=KILL:when=1"]
    subprocess.run([strace, "-o", "null", *inject, *program], cwd=tmp_path, check=False)
    assert (tmp_path / "f").read_bytes() == b"", "killed before the call, not after it"
