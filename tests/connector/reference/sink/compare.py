"""Compare the live reference sink with the oracle on many drawn histories, and print how they ended.

`PENSTOCK_WALLAROO=DIR python -m tests.connector.reference.sink.compare --histories 200 --seed 1`
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.connector.reference.histories import histories, refused
from tests.connector.reference.judgement import Step
from tests.connector.reference.sink.comparison import compared
from tests.connector.reference.sink.process import ReferenceSink


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given_ = parser.parse_args()
    ends: Counter[str] = Counter()
    totals: Counter[str] = Counter()

    with tempfile.TemporaryDirectory() as folder:

        @seed(given_.seed)
        @settings(
            max_examples=given_.histories,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        )
        @given(histories(live=True))
        def run(history: list[Step]) -> None:
            totals["histories"] += 1
            own = Path(folder, str(totals["histories"]))
            with ReferenceSink(own, refused(history), ("w1", "w2")) as sink:
                found = compared(history, sink, pieces=None if totals["histories"] % 3 else 7)
            totals["steps"] += found.steps
            ends[found.end] += 1

        run()
    print(", ".join(f"{number} {what}" for what, number in totals.items()), "agreed")
    for end, number in ends.most_common():
        print(f"{number:6} ended with {end}")


if __name__ == "__main__":
    main()
