"""Look for a seed that finds each planted bug, and pin it: `python -m tests.testing.search [--seeds 5000] [NAME …]`.

A seed that is pinned already and still finds its bug stays.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.testing.planted import BUGS, PINS, finds, pins, planted


def main() -> int:
    """Search; 1 where a bug is not found."""
    parser = argparse.ArgumentParser("python -m tests.testing.search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("names", nargs="*", help="parts of the names of bugs; else all of them")
    given = parser.parse_args()
    known = pins()
    missed = []
    for bug in BUGS:
        if given.names and not any(name in bug.name for name in given.names):
            continue
        start = time.monotonic()
        tried = [known[bug.name]] if bug.name in known else []
        try:
            with planted(bug):
                seed = next((s for s in [*tried, *range(given.seeds)] if finds(s) is not None), None)
        except AssertionError as stale:
            print(stale)
            seed = None
        took = f"{time.monotonic() - start:.1f} s"
        print(f"{'missed' if seed is None else seed:>6}  {bug.name}  ({took})", flush=True)
        if seed is None:
            missed.append(bug.name)
        else:
            known[bug.name] = seed
        own = {b.name: known[b.name] for b in BUGS if b.name in known}
        PINS.write_text(json.dumps(own, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(missed)} missed: {missed}" if missed else "every bug is found")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
