"""The order of the turns: for each input all systems in turns, in alternating order, round by round.

A round on a busy machine is marked, and repeated a bounded number of times. A system that can't be installed, fails or
has a wrong view is left out with the reason, and the others go on.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from bench.peers import inputs, oracle
from bench.peers.environments import NotInstalled
from bench.peers.oracle import WrongView
from bench.peers.results import QUIET, Results
from bench.peers.session import DriverFailed, Job, Measured, measure
from bench.peers.shapes import WORKLOADS, Case, Workload
from bench.peers.systems import System


@dataclass(slots=True)
class Run:
    """One run of the bench, over chosen workloads and systems."""

    results: Results
    systems: Sequence[System]
    workloads: Sequence[int]
    folder: Path
    cache: Path
    rounds: int = 3
    repeats: int = 2
    quick: bool = False
    docs: int | None = None
    people: TextIO = sys.stderr
    _commands: dict[str, list[str]] = field(default_factory=dict)
    _failed: set[tuple[str, str, int]] = field(default_factory=set)
    _wanted: dict[tuple[Path, bool], set[str]] = field(default_factory=dict)

    def go(self) -> None:
        """Measure what the results do not have yet."""
        self._install()
        for number in self.workloads:
            workload = WORKLOADS[number]
            for case in workload.cases:
                sizes = workload.quick if self.quick else workload.batches
                for batch in (case.batch,) if case.batch else sizes:
                    if workload.docs_of(case, self.quick):
                        self._alternate(workload, case, batch)
                self._wanted.clear()
                shutil.rmtree(self.folder / "inputs", ignore_errors=True)

    def _install(self) -> None:
        for system in self.systems:
            if not system.workloads.intersection(self.workloads):
                continue
            self._say(f"preparing {system.name}")
            try:
                self._commands[system.name] = system.environment.command(self.cache)
            except NotInstalled as error:
                self._leave_out(system.name, f"not installed: {error}")
            else:
                self.results.left_out.pop(system.name, None)

    def _jobs(self, workload: Workload, case: Case, batch: int) -> Iterator[Job]:
        one = case.batch or workload.quick[0]  # the size for systems without batches of their own
        for system in self.systems:
            if self.quick and system.slow and workload.number != 1:
                continue
            if workload.number in system.workloads and (system.batches or batch == one):
                for setting in system.settings:
                    if case.joined and setting == "append-only":
                        continue  # an update of an order would be an order of its own
                    yield Job(workload.number, case.name, system.name, setting, batch)

    def _alternate(self, workload: Workload, case: Case, batch: int) -> None:
        jobs = list(self._jobs(workload, case, batch))
        for number in range(self.rounds):
            for job in jobs if number % 2 == 0 else reversed(jobs):
                if self.results.rounds(job, self._docs(job)) <= number:
                    self._turn(job, case, f"round {number + 1} of {self.rounds}")
        for number in range(self.repeats):
            for job in jobs if number % 2 == 0 else reversed(jobs):
                if self.results.is_busy(job, self._docs(job)):
                    self._turn(job, case, f"busy, repeat {number + 1} of {self.repeats}", replace=True)

    def _docs(self, job: Job) -> int:
        """Return the number of documents of a job."""
        workload = WORKLOADS[job.workload]
        docs = self.docs or workload.docs_of(workload.case(job.case), self.quick)
        most = next(one.most for one in self.systems if one.name == job.system)
        return docs if most is None else min(docs, most)

    def _turn(self, job: Job, case: Case, label: str, replace: bool = False) -> None:
        known = (job.system, job.setting, job.workload)
        if job.system not in self._commands or known in self._failed:
            return
        self._begin(f"workload {job.workload}, {case.name}, by {job.batch:,}, {label}: {job.system}, {job.setting}")
        docs = self._docs(job)
        keys = WORKLOADS[job.workload].keys_of(case, self.quick, docs)
        lines = case.input or case.name
        given = self.folder / "inputs" / f"{lines}-{docs}-{keys}.jsonl"
        given.parent.mkdir(parents=True, exist_ok=True)
        inputs.write(lines, docs, keys, given)
        folder = self.folder / "turn"
        try:
            found = measure(job, self._commands[job.system], given, folder, self._expected(job, case, given))
        except (DriverFailed, WrongView) as error:
            self._failed.add(known)
            self._say(f"left out: {error}")
            self.results.drop(job)
            self._leave_out(f"{job.system}", f"{job.setting}, workload {job.workload}: {error}")
        else:
            self.results.add(job, docs, found, replace)
            self._say(_shown(found, docs))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _expected(self, job: Job, case: Case, given: Path) -> Callable[[], set[str]]:
        """Return a function that computes the expected rows once per input."""

        def wanted() -> set[str]:
            if job.system in ("decode only", "append and fsync"):
                return {f"lines\t{self._docs(job)}"}
            append_only = job.setting == "append-only"
            if (given, append_only) not in self._wanted:
                self._wanted[given, append_only] = oracle.expected(case, given, append_only)
            return self._wanted[given, append_only]

        return wanted

    def _leave_out(self, system: str, reason: str) -> None:
        self.results.leave_out(system, reason)

    def _begin(self, text: str) -> None:
        print(text, end=" … ", file=self.people, flush=True)

    def _say(self, text: str) -> None:
        print(text, file=self.people, flush=True)


def _shown(found: Measured, docs: int) -> str:
    mark = f" (busy: {found.quiet:.0%} of the machine)" if found.quiet < QUIET else ""
    if found.measures:
        return ", ".join(f"{name} {value:.4g}" for name, value in found.measures.items()) + mark
    n = found.documents or docs
    return f"{n / found.seconds:,.0f}/s, {n / max(found.cpu, 0.001):,.0f} per CPU second{mark}"
