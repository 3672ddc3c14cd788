"""`python -m bench.peers`: measure Penstock beside its peers, and write bench/RESULTS.json, bench/RESULTS.md and plots.

A stopped run resumes from the JSON file: rows with all their rounds stay. `--fresh` measures the chosen rows anew. The
first run installs an environment per system, which takes longer than a quick run: DBSP compiles 500 crates.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import machine
from bench.peers import page
from bench.peers.environments import ROOT
from bench.peers.results import Results
from bench.peers.rounds import Run
from bench.peers.shapes import WORKLOADS
from bench.peers.systems import PENSTOCK, SYSTEMS
from bench.scratch import scratch

BENCH = ROOT / "bench"
_RUN = BENCH / "run"
COMMAND = "make bench-peers"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.peers", description=__doc__)
    parser.add_argument("--workload", type=int, action="append", choices=WORKLOADS, help="a workload by number; all")
    names = [one.name for one in SYSTEMS]
    parser.add_argument("--system", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="small inputs and one batch size: 10 minutes")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each row (3)")
    parser.add_argument("--repeats", type=int, default=2, help="repeats of a round on a busy machine at most (2)")
    parser.add_argument("--docs", type=int, help="documents of each input, instead of those of the workload")
    parser.add_argument("--fresh", action="store_true", help="measure the chosen rows anew")
    parser.add_argument("--page", action="store_true", help="measure nothing, and write the page from the JSON file")
    parser.add_argument(
        "--results",
        type=Path,
        help="the JSON file (bench/RESULTS.json; with --quick bench/run/peers/quick/RESULTS.json)",
    )
    parser.add_argument("--dir", type=Path, default=_RUN, help="the folder for environments and data (bench/run)")
    return parser


def _command(asked: argparse.Namespace) -> str:
    """Return the command whose rounds a row has. Workloads and systems of a part are visible in the rows."""
    words = ["--quick"] if asked.quick else []
    words += [f"--rounds {asked.rounds}"] if asked.rounds != 3 else []
    words += [f"--repeats {asked.repeats}"] if asked.repeats != 2 else []
    words += [f"--docs {asked.docs}"] if asked.docs else []
    return COMMAND + (f' ARGS="{" ".join(words)}"' if words else "")


def main(arguments: list[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    asked = _arguments().parse_args(given)
    path = asked.results or (_RUN / "peers" / "quick" if asked.quick else BENCH) / "RESULTS.json"
    command = None if asked.page else _command(asked)
    results = Results(path, command, machine.named())
    workloads = asked.workload or list(WORKLOADS)
    systems = [one for one in SYSTEMS if not asked.system or one.name in asked.system]
    if asked.fresh:
        named = {one.name for one in systems}
        results.note = ""
        results.rows = [r for r in results.rows if r.job.workload not in workloads or r.job.system not in named]
    try:
        if not asked.page:
            with scratch(str(asked.dir)) as folder:
                cache = asked.dir / "peers"
                Run(
                    results, systems, workloads, folder, cache, asked.rounds, asked.repeats, asked.quick, asked.docs
                ).go()
    except KeyboardInterrupt:
        print(f"\nstopped; the same command resumes from {path}", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        if results.rows or results.left_out:
            page.write(results, path.parent)
    print(f"{path.parent / 'RESULTS.md'}: {len(results.rows)} rows, {len(results.left_out)} left out", file=sys.stderr)
    if not any(row.job.system == PENSTOCK for row in results.rows):
        print("no row of Penstock: the page has no ratios", file=sys.stderr)


if __name__ == "__main__":
    main()
