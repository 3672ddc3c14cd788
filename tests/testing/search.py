"""Search a seed that finds each planted bug, and pin it: `python -m tests.testing.search [--seeds 5000] [NAME …]`.

A pinned seed stays if it still finds its bug by the same check. If the engine only raises an error, which explains
little, further seeds are tried. People should read the finding of each seed: is it the effect of that bug?
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Protocol

from penstock.testing.simulator.checks import Wrong
from tests.harness.planting import Bug
from tests.testing import connector_planted, early_planted, partitioned_planted
from tests.testing import planted as fused
from tests.testing.planted import Pin, pins, planted

_FURTHER, _LONGEST = 400, 160
KINDS = {
    "fused": fused,
    "strong": partitioned_planted,
    "early": early_planted,
    "connector": connector_planted,
}  # for each kind of production: the bugs, their pins, and the function that runs a seed


class Failure(Protocol):
    """The failure of a seed."""

    wrong: Wrong


Finds = Callable[[int], Failure | None]


def main() -> int:
    """Search seeds. Return 1 if a bug is not found."""
    parser = argparse.ArgumentParser("python -m tests.testing.search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("--kind", choices=tuple(KINDS), default="fused", help="of run")
    parser.add_argument("names", nargs="*", help="parts of the names of bugs; else all of them")
    given = parser.parse_args()
    own = KINDS[given.kind]
    known = pins(own.PINS)
    missed = []
    for bug in own.BUGS:
        if given.names and not any(name in bug.name for name in given.names):
            continue
        start = time.monotonic()
        pin = _pin(bug, own.finds, known.get(bug.name), given.seeds)
        took = f"{time.monotonic() - start:.1f} s"
        print(f"{'missed' if pin is None else pin.seed:>6}  {bug.name}  ({took})", flush=True)
        if pin is None:
            missed.append(bug.name)
            known.pop(bug.name, None)
        else:
            print(f"        {pin.says}", flush=True)
            known[bug.name] = pin
        pinned = {b.name: asdict(known[b.name]) for b in own.BUGS if b.name in known}
        own.PINS.write_text(json.dumps(pinned, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(missed)} missed: {missed}" if missed else "every bug is found")
    return bool(missed)


def _pin(bug: Bug, finds: Finds, known: Pin | None, seeds: int) -> Pin | None:
    """Return the pin of a bug: the known one, if it still holds. Return None if no seed finds the bug."""
    try:
        with planted(bug):
            if known is not None:
                found = finds(known.seed)
                if found is not None and found.wrong.first.check == known.check:
                    return _of(known.seed, found)
            return _first(finds, range(seeds))
    except AssertionError as stale:
        print(stale)
        return None


def _first(finds: Finds, seeds: Iterable[int]) -> Pin | None:
    raised: Pin | None = None
    for seed in seeds:
        found = finds(seed)
        if found is not None:
            pin = _of(seed, found)
            if pin.check != "raised":
                return pin
            raised = raised or pin
        if raised is not None and seed > raised.seed + _FURTHER:
            break
    return raised


def _of(seed: int, found: Failure) -> Pin:
    first = found.wrong.first
    return Pin(seed, first.check, f"{first.where}: {first.text}"[:_LONGEST])


if __name__ == "__main__":
    sys.exit(main())
