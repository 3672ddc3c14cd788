"""`python -m bench`: all figures, or those asked for, one JSON line each on stdout and a table on stderr."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bench import (
    bulk,
    chains,
    choices,
    costs,
    feed,
    files,
    groups,
    held,
    joins,
    large,
    machine,
    nested,
    partitions,
    reads,
    rollups,
    rounds,
    service,
    single,
    start,
    storm,
    sweep,
    trees,
)
from bench.plan import Plan
from bench.report import Figure, Report
from bench.scratch import scratch
from bench.tpch.refreshes import tpch

HERE = Path(__file__).resolve().parent
FIGURES: dict[str, Callable[[Plan], Iterator[Figure]]] = {
    "fields": bulk.fields,
    "steady": bulk.steady,
    "iterable": bulk.iterable,
    "functions": bulk.functions,
    "groups": groups.groups,
    "chains": chains.chains,
    "choices": choices.choices,
    "held": held.held,
    "joins": joins.joins,
    "load": files.load,
    "formats": files.formats,
    "nested": nested.nested,
    "put": single.put,
    "group": single.group,
    "further": single.further,
    "keys10m": large.many,
    "max": trees.by_city,
    "half": trees.half,
    "top": trees.tops,
    "update": trees.updates,
    "values": trees.values,
    "reads": reads.reads,
    "rollup": rollups.rollups,
    "round": rounds.rounds,
    "service": service.service,
    "opening": large.opening,
    "start": start.start,
    "storm": storm.storm,
    "sweep": sweep.sweep,
    "follow": feed.follow,
    "feedcost": feed.cost,
    "partitions": partitions.partitions,
    "tpch": tpch,
    "two": costs.two,
    "single": costs.single,
}


def main() -> None:
    asked = _arguments().parse_args()
    results = asked.results or (None if asked.smoke else HERE / "results")
    report = Report(machine.named(), results)
    with scratch(asked.dir) as folder:
        plan = replace(Plan.smoke(folder) if asked.smoke else Plan(folder), plots=results)
        if asked.docs:
            plan = replace(plan, docs=asked.docs)
        if asked.rounds:
            plan = replace(plan, rounds=asked.rounds)
        for name in asked.only or FIGURES:
            report.add(name, FIGURES[name](plan))
    raise SystemExit(1 if asked.strict and report.missed else 0)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=FIGURES, metavar="NAME", help=f"one of {', '.join(FIGURES)}")
    parser.add_argument("--smoke", action="store_true", help="everything tiny and unjudged: only that it runs")
    parser.add_argument("--docs", type=int, help="upserts a pass (1,000,000)")
    parser.add_argument("--rounds", type=int, help="rounds of which a figure is the median (3)")
    parser.add_argument(
        "--dir",
        default=str(HERE / "run"),
        help="make the folder of this run here (on the disk to measure), and delete it at the end",
    )
    parser.add_argument("--results", type=Path, help="where the JSON lines go, a file a figure (bench/results)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a figure misses its bound")
    return parser


if __name__ == "__main__":
    main()
