"""Kill stores that exchange data by connectors, at random places: `make connector-kills`."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from tests.cli.running import connector_runs
from tests.sink import test_crash_wallaroo_sink, test_crash_wallaroo_source_sink
from tests.spout import test_crash_wallaroo_source_spout, test_crash_wallaroo_spout

PARTITIONS = (None, 2, 3)
KINDS: Mapping[str, Callable[[Path, int], int]] = {
    "worker": lambda path, seed: test_crash_wallaroo_spout.run(path, seed, PARTITIONS[seed % 3]),
    "connector": lambda path, seed: test_crash_wallaroo_source_spout.run(path, seed, PARTITIONS[seed % 3]),
    "view": test_crash_wallaroo_sink.run,
    "messages": test_crash_wallaroo_source_sink.run,
    "runs": connector_runs.run,
}
"""A history of each kind: a store fed by a worker or a connector, a view that is sent by either, and two processes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="end after so many kills of each kind (300)")
    parser.add_argument("--first", type=int, default=1000, help="the first seed (1000)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="a kind of history; repeat it (worker)")
    arguments = parser.parse_args()
    for kind in arguments.kind or ["worker"]:
        kills = 0
        with tempfile.TemporaryDirectory() as folder:
            for seed in count(arguments.first):
                kills += KINDS[kind](Path(folder, str(seed)), seed)
                histories = seed - arguments.first + 1
                print(f"\r{kind}: {histories} histories, {kills} kills, nothing lost or repeated", end="", flush=True)
                if kills >= arguments.kills:
                    break
        print()


if __name__ == "__main__":
    main()
