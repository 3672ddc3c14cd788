"""Run a long crash test of the engine in parts: `python -m penstock.testing.campaign --budget 30m`.

Each run continues after the last seed of the earlier runs. It adds its counts to a file that is kept with the code.
The file has separate counts for each kind of run. A failing seed is recorded there, and its failure is explained on the
terminal. Later runs skip it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from time import monotonic

import msgspec

from penstock.testing.run_kinds import KINDS
from penstock.testing.seeds.seed_search import Totals, seconds_of

FILE = "campaign.json"
_SAVED_EVERY = 500


@dataclass(slots=True)
class KindTally:
    """The progress of the campaign for one kind of run."""

    next: int = 0
    totals: Totals = field(default_factory=Totals)
    failed: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Campaign:
    """The progress of the campaign for all kinds of runs."""

    kinds: dict[str, KindTally] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> Campaign:
        """Read the progress from a file. Return an empty campaign if the file does not exist."""
        if not os.path.exists(path):
            return cls()
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=cls)

    def write(self, path: str) -> None:
        """Write the file atomically."""
        beside = f"{path}.{os.getpid()}"
        with open(beside, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(asdict(self)), indent=1) + b"\n")
        os.replace(beside, path)

    def __str__(self) -> str:
        lines = [f"{name}: {kind.totals}; {len(kind.failed)} failed" for name, kind in self.kinds.items()]
        return "\n".join(lines) or "nothing yet"


def run(path: str, kind: str, budget: float, most: int | None = None) -> int:
    """Run seeds for `budget` seconds, or at most `most` seeds. Return the number of failures."""
    campaign = Campaign.read(path)
    own = campaign.kinds.setdefault(kind, KindTally())
    start, before, failures = monotonic(), own.totals.seconds, 0
    for done in count():
        spent = monotonic() - start
        own.totals.seconds = round(before + spent, 1)
        if spent >= budget or done == most:
            break
        found = KINDS[kind](own.next, own.totals)
        if found is not None:
            failures += 1
            own.failed.append(own.next)
            print(f"seed {own.next} fails; replay with: {found.replay}")
            print(found.story(), flush=True)
        own.next += 1
        if done % _SAVED_EVERY == _SAVED_EVERY - 1:
            campaign.write(path)
            print(f"{kind}: {own.totals}", flush=True)
    campaign.write(path)
    print(campaign)
    return failures


def main(args: Sequence[str] | None = None) -> int:
    """Run a part of the campaign. Return 1 if a seed failed, else 0."""
    parser = argparse.ArgumentParser("python -m penstock.testing.campaign", description=__doc__)
    parser.add_argument("--budget", type=seconds_of, default=60.0, help="how long: 60s, 30m")
    parser.add_argument("--seeds", type=int, help="at most so many")
    parser.add_argument("--kind", choices=tuple(KINDS), default="fused", help="of run")
    parser.add_argument("--totals", metavar="FILE", default=FILE, help=f"where it adds up, else {FILE}")
    given = parser.parse_args(args)
    return int(run(given.totals, given.kind, given.budget, given.seeds) > 0)


if __name__ == "__main__":
    sys.exit(main())
