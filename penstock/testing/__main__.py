"""Crash-test the engine itself: `python -m penstock.testing` runs many seeds, `--seed N` runs one of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import product
from time import process_time

from penstock.testing.campaign import Campaign
from penstock.testing.inputs.trial_apps import trial_of, trials
from penstock.testing.run_kinds import KINDS
from penstock.testing.seeds.coverage import Coverage
from penstock.testing.seeds.seed_search import SeedFile, Seeds, seconds_of
from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.named_places import FAULTS, PLACES, SIDES, renamed
from penstock.testing.simulator.run import run


def main(args: Sequence[str] | None = None) -> int:
    """Run seeds until one fails, or the command of an option. Return the exit code: 1 after a failure, else 0."""
    parser = argparse.ArgumentParser("python -m penstock.testing", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--kind", choices=tuple(KINDS), default="fused", help="of run")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, help="how many")
    parser.add_argument("--budget", type=seconds_of, help="how long: 60s, 30m")
    parser.add_argument("--remembered", metavar="FILE", help="seeds that failed before, run first")
    parser.add_argument("--named", action="store_true", help=f"faults at {', '.join(PLACES)}: before, at, after")
    parser.add_argument("--coverage", action="store_true", help="count what the seeds went through; 500 unless told")
    parser.add_argument("--totals", metavar="FILE", help="only show what campaigns went through")
    given = parser.parse_args(args)
    if given.totals is not None:
        print(Campaign.read(given.totals))
        return 0
    if given.named:
        return _named()
    if given.coverage:
        return _coverage(range(given.first, given.first + (given.seeds or 500)))
    file = None if given.remembered is None else SeedFile(given.remembered)
    most = given.seeds if given.seeds is not None or given.budget is not None else 1_000
    seeds = Seeds(given.first, most, given.budget, file)
    if given.seed is not None:
        seeds = Seeds(given.seed, 1)
    began = process_time()
    for seed in seeds:
        found = KINDS[given.kind](seed, seeds.totals)
        if found is not None:
            if file is not None:
                file.add(seed, f"{found.app}: {found.what}")
            print(f"seed {seed} fails in {found.app!r}; replay with: {found.replay}")
            print(found.story())
            return 1
    print(seeds.totals)
    print(f"{seeds.totals.seeds / max(process_time() - began, 1e-6):,.0f} seeds a second of one core")
    return 0


def _coverage(seeds: Iterable[int]) -> int:
    """Count the events in the runs of these seeds. Return 1 if an expected event never occurred, else 0."""
    coverage, every = Coverage(), trials()
    for seed in seeds:
        trial, plan = trial_of(seed, every)
        coverage.begin(trial.app)
        run(trial.app, plan, follower=coverage)
        coverage.end()
    print(coverage)
    for missing in coverage.missing:
        print(f"never came: {missing}")
    return int(bool(coverage.missing))


def _named() -> int:
    """Strike each fault at each named place. Return 1 if a check failed after one of them, else 0."""
    wrong = 0
    for place, side, fault in product(PLACES, SIDES, FAULTS):
        try:
            renamed(place, side, fault)
        except Wrong as found:
            wrong += 1
            print(f"{fault.value}, {side} {place}: {found}")
    print(f"{len(PLACES) * len(SIDES) * len(FAULTS)} places and faults, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
