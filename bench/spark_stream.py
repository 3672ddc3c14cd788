"""`python -m bench.spark_stream`: documents per second of a stream on Spark, beside the engine's load of the same file.

The rate counts the batches from the third on, by the times of their commits: the first ones wait for Python workers.
The state is restored at the end, and its views are compared with the input.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import machine
from bench.child import run
from bench.report import Figure, Report
from bench.scratch import scratch
from bench.spark import HERE, input_file, must_be_right
from bench.workload import TABLE, app
from penstock.spark import Manifest, restore_state, session, stream

_FIRST = 3  # batches before this one are not counted
_AIMS = {100_000: 150_000, 10_000: 25_000}
_BATCHES = {100_000: 12, 10_000: 40}


def streamed(folder: str, batch: int, batches: int, master: str) -> dict[str, Any]:
    """Run a stream over a file with so many batches, and check its state."""
    docs, at = batch * batches, Path(folder) / f"stream{batch}"
    file = input_file(folder, docs)
    commits: list[tuple[float, float]] = []

    def committed(manifest: Manifest) -> None:
        commits.append((time.perf_counter(), manifest.seconds))

    spark = session(master, "2g")
    own = stream(
        app(False),
        str(at / "state"),
        {TABLE: str(file)},
        spark=spark,
        partitions=2,
        every="0 seconds",
        batch=batch,
        local=str(at / "local"),
        on_commit=committed,
    )
    own.finish()
    spark.stop()
    assert len(commits) == batches, "every batch is committed once"
    restore_state(str(at / "state"), str(at / "store"))
    must_be_right(app(False), at / "store", docs)
    triggers = [after - before for (before, _), (after, _) in pairwise(commits[_FIRST - 1 :])]
    return {"trigger": statistics.median(triggers), "batch": statistics.median(own for _, own in commits[_FIRST:])}


def figures(folder: str, batches: dict[int, int], master: str) -> Iterator[Figure]:
    """Yield a figure for each size of batches."""
    for batch, many in batches.items():
        got = run("bench.spark_stream:streamed", folder=folder, batch=batch, batches=many, master=master)
        alone = run("bench.spark:load", folder=folder, docs=batch * many, functions=False)
        rate, aim = batch / got["trigger"], _AIMS.get(batch)
        beside: dict[str, float | None] = {
            "load, documents/s": batch * many / alone["seconds"],
            "within a batch, documents/s": batch / got["batch"],
        }
        ratio = None if aim is None else rate / aim
        met = None if ratio is None else ratio >= 1
        reach = "" if aim is None else f"≥ {aim:,} documents/s"
        yield Figure("stream", f"batches of {batch:,}", rate, "documents/s", beside, None, reach, ratio, met, got)


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.spark_stream", description=__doc__)
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--batch", type=int, action="append", help="a size of batches (100000 and 10000)")
    parser.add_argument("--batches", type=int, help="the number of batches (12, or 40 of 10,000)")
    parser.add_argument(
        "--dir", default=str(HERE / "run" / "stream"), help="the folder of this run, deleted at its end"
    )
    parser.add_argument("--results", type=Path, help="where the JSON lines go")
    asked = parser.parse_args()
    report = Report(machine.named(), asked.results)
    batches = {size: asked.batches or _BATCHES.get(size, 12) for size in asked.batch or list(_BATCHES)}
    with scratch(asked.dir) as folder:
        report.add("stream", figures(str(folder), batches, asked.master))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
