"""Run through seeds for a number of seeds or a time, and remember those that failed.

Seeds that ever failed stay in a file, and come first. The clock is read between two seeds, never during one.
"""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count

from penstock.cache import PenstockError
from penstock.testing.seeds.shrinking import shrunk
from penstock.testing.simulator.fault_plan import Plan
from penstock.testing.simulator.run import Failure, RunTally, run
from penstock.views import App

Clock = Callable[[], float]
_HEAD = "# Seeds that once failed; they come first. Keep this file with the app.\n"
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(slots=True)
class Totals:
    """The counts of all runs."""

    seeds: int = 0
    steps: int = 0
    places: int = 0
    faults: int = 0
    seconds: float = 0.0

    def add(self, tally: RunTally) -> None:
        """Add the counts of one run."""
        self.seeds += 1
        self.steps += tally.steps
        self.places += tally.places
        self.faults += tally.faults

    def __str__(self) -> str:
        rate = f", {self.seeds / self.seconds:,.0f} a second" if self.seconds >= 1 else ""
        passed = f"{self.faults:,} faults struck at {self.places:,} places in {self.steps:,} steps"
        return f"{self.seeds:,} seeds in {self.seconds:,.1f} s{rate}: {passed}"


@dataclass(slots=True)
class Seeds:
    """The seeds to run: remembered ones, then those from `first` on.

    They end after `most` seeds or the time `budget`.
    """

    first: int = 0
    most: int | None = None
    budget: float | None = None
    remembered: SeedFile | None = None
    clock: Clock = time.monotonic
    totals: Totals = field(default_factory=Totals)

    def __iter__(self) -> Iterator[int]:
        start = self.clock()
        before = () if self.remembered is None else self.remembered.seeds()
        end = None if self.most is None else self.first + self.most
        others = count(self.first) if end is None else iter(range(self.first, end))
        for seed in chain(before, others):
            self.totals.seconds = self.clock() - start
            if self.budget is not None and self.totals.seconds >= self.budget:
                return
            yield seed
            self.totals.seconds = self.clock() - start


@dataclass(frozen=True, slots=True)
class SeedFile:
    """The file of seeds that failed. Each line has a seed and its failure."""

    path: str

    def seeds(self) -> tuple[int, ...]:
        """Return the seeds in the file, or none if the file does not exist."""
        if not os.path.exists(self.path):
            return ()
        with open(self.path, encoding="utf-8") as file:
            found = [re.match(r"\d+", line) for line in file]
        return tuple(dict.fromkeys(int(match[0]) for match in found if match))

    def add(self, seed: int, what: str) -> None:
        """Add a seed, unless it is in the file."""
        if seed in self.seeds():
            return
        head = "" if os.path.exists(self.path) else _HEAD
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{head}{seed} {' '.join(what.split())[:200]}\n")


def attempt(app: App, plan: Plan, totals: Totals, exempt: Collection[str] = ()) -> Failure | None:
    """Run a plan. Return its failure, or None."""
    try:
        with collected_after():
            totals.add(run(app, plan, exempt))
    except Failure as failure:
        totals.seeds += 1
        return failure
    return None


@contextmanager
def collected_after() -> Iterator[None]:
    """Disable the garbage collector in this context. At its end, collect only the objects that were created in it.

    A run creates many objects that live as long as the run, and few cycles. Collections during the run find little.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if before:
            gc.enable()


def smallest(app: App, failure: Failure, exempt: Collection[str] = (), most: int | None = None) -> Failure:
    """Return the failure by the smallest plan that was found."""

    def fails(plan: Plan) -> Failure | None:
        return attempt(app, plan, Totals(), exempt)

    return shrunk(failure, fails) if most is None else shrunk(failure, fails, most)


def seconds_of(text: str) -> float:
    """Return the seconds of "60s", "30m", "2h" or a number.

    >>> seconds_of("30m"), seconds_of("1.5")
    (1800.0, 1.5)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None:
        raise PenstockError(f"{text!r} is no length of time; write 60s, 30m or 2h")
    return float(match[1]) * _UNITS[match[2]]
