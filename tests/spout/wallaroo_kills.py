"""Kill stores that exchange data by connectors, at random places: `make connector-kills`.

Kills of two-phase commit count by the side and by the phases before and after. The kinds `worker` and `view` have it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from tests.cli.running import connector_runs
from tests.sink import test_crash_wallaroo_sink, test_crash_wallaroo_source_sink
from tests.spout import test_crash_wallaroo_source_spout, test_crash_wallaroo_spout
from tests.spout.wallaroo_worker import NEW_SESSION, PHASES, Phases

PARTITIONS = (None, 2, 3)
KINDS: Mapping[str, Callable[[Path, int, Phases], int]] = {
    "worker": lambda path, seed, phases: test_crash_wallaroo_spout.run(path, seed, PARTITIONS[seed % 3], phases=phases),
    "connector": lambda path, seed, _: test_crash_wallaroo_source_spout.run(path, seed, PARTITIONS[seed % 3]),
    "view": lambda path, seed, phases: test_crash_wallaroo_sink.run(path, seed, phases=phases),
    "messages": lambda path, seed, _: test_crash_wallaroo_source_sink.run(path, seed),
    "runs": lambda path, seed, _: connector_runs.run(path, seed),
}
"""A history of each kind: a store fed by a worker or a connector, a view that is sent by either, and two processes."""
SIDES = ("participant", "coordinator")


def summary(phases: Phases) -> str:
    """Return the table of kills.

    >>> print(summary(Counter({("participant", "vote and phase 2"): 3})).splitlines()[3])
    vote and phase 2                     3            0
    """
    lines = [f"{'kills between':<24}{SIDES[0]:>14}{SIDES[1]:>13}"]
    for phase in (*PHASES, NEW_SESSION):
        lines.append(f"{phase:<24}{phases[SIDES[0], phase]:>14}{phases[SIDES[1], phase]:>13}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="end after so many kills of each kind (300)")
    parser.add_argument("--first", type=int, default=1000, help="the first seed (1000)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="a kind of history; repeat it (worker)")
    arguments = parser.parse_args()
    for kind in arguments.kind or ["worker"]:
        kills = 0
        phases: Phases = Counter()
        with tempfile.TemporaryDirectory() as folder:
            for seed in count(arguments.first):
                kills += KINDS[kind](Path(folder, str(seed)), seed, phases)
                histories = seed - arguments.first + 1
                print(f"\r{kind}: {histories} histories, {kills} kills, nothing lost or repeated", end="", flush=True)
                if kills >= arguments.kills:
                    break
        print(f"\n{summary(phases)}" if phases else "")


if __name__ == "__main__":
    main()
