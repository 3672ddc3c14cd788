"""Kill stores that receive from a Wallaroo worker, at random commits: `make connector-kills`."""

from __future__ import annotations

import argparse
import tempfile
from itertools import count
from pathlib import Path

from tests.spout.test_crash_wallaroo_spout import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="end after so many kills (300)")
    parser.add_argument("--first", type=int, default=1000, help="the first seed (1000)")
    arguments = parser.parse_args()
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in count(arguments.first):
            kills += run(Path(folder, str(seed)), seed, (None, 2, 3)[seed % 3])
            print(
                f"\r{seed - arguments.first + 1} histories, {kills} kills, nothing lost or repeated", end="", flush=True
            )
            if kills >= arguments.kills:
                break
    print()


if __name__ == "__main__":
    main()
