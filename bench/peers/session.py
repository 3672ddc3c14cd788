"""One turn of a driver, seen from the bench: start it, time its work, compare its rows, and end it.

The clock runs from `go` to `done`. The CPU time is of the driver with all its descendants. A driver that fails, hangs
or has a wrong view gives no time.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers import oracle
from bench.peers.environments import ROOT
from bench.peers.processes import Clocks, end

PATIENCE = 1_800.0  # seconds for one step of a driver
_SHOWN = 300


class DriverFailed(Exception):
    """The error if a driver ends or hangs before its rows are complete. It has the driver's last words."""


@dataclass(frozen=True, slots=True)
class Job:
    """One turn to be measured: a system with one setting, on one input, in batches of one size."""

    workload: int
    case: str
    system: str
    setting: str
    batch: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one turn."""

    seconds: float
    cpu: float
    quiet: float
    load: float
    version: str
    measures: dict[str, float] = field(default_factory=dict)
    documents: int | None = None  # of the measured work, if it is a part of the input


def measure(job: Job, command: list[str], given: Path, folder: Path, wanted: Callable[[], set[str]]) -> Measured:
    """Run one turn, and return its times once its rows equal the wanted ones."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)  # a peer may run as another user
    rows = folder / "rows"
    arguments = [str(job.workload), job.case, job.setting, str(job.batch), str(given), str(folder), str(rows)]
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C reaches the bench alone, which then ends the driver
        )
        driver = _Driver(job, process, folder / "errors")
        try:
            driver.next("ready")
            before = Clocks.read(process.pid)
            driver.say("go")
            said = json.loads(driver.next("done"))
            after = Clocks.read(process.pid)
            driver.say("rows")
            driver.ended()
        except BaseException:
            end(process.pid)
            raise
        finally:
            process.wait()
            driver.close()
    oracle.compare(job.system, set(rows.read_text("utf-8").splitlines()), wanted())
    return Measured(
        after.wall - before.wall,
        after.cpu - before.cpu,
        after.quiet_since(before),
        os.getloadavg()[0],
        said.pop("version"),
        documents=said.pop("documents", None),
        measures=said,
    )


class _Driver:
    """The words of a running driver, each with a deadline."""

    def __init__(self, job: Job, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._job, self._process, self._errors = job, process, errors
        self._read = b""

    def next(self, word: str) -> str:
        """Wait for a line that begins with this word, and return the rest. Other lines are notes."""
        while True:
            line = self._line().decode(errors="replace").strip()
            if line == word or line.startswith(word + " "):
                return line.removeprefix(word).strip()

    def say(self, word: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(word.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("ended") from None

    def ended(self) -> None:
        """Wait for the end of the driver."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._failed("hangs") from None
        if code:
            raise self._failed(f"ended with code {code}")

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            try:
                stream.close()
            except BrokenPipeError:
                continue

    def _line(self) -> bytes:
        assert self._process.stdout
        file, until = self._process.stdout.fileno(), time.monotonic() + PATIENCE
        while b"\n" not in self._read:
            if not select.select([file], [], [], max(0.0, until - time.monotonic()))[0]:
                raise self._failed(f"said nothing for {PATIENCE:,.0f} s")
            more = os.read(file, 1 << 16)
            if not more:
                raise self._failed("ended early")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _failed(self, how: str) -> DriverFailed:
        lines = self._errors.read_text("utf-8", errors="replace").strip().splitlines()
        named = [number for number, line in enumerate(lines) if line[:1].isalpha() and "rror" in line.partition(":")[0]]
        last = " ".join(" ".join(lines[named[-1] if named else -3 :]).split())[:_SHOWN]
        return DriverFailed(
            f"{self._job.system} {how} on workload {self._job.workload}" + (f": {last}" if last else "")
        )
