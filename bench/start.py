"""The time to the first output of the command line: of its help, and of the status of a small store.

The start of Python itself is measured in turns with them. It is the lower bound of any Python program.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from time import perf_counter

import penstock as ps
from bench import machine
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median, percentile
from bench.workload import TABLE, Workload, app

HELP = 0.3  # seconds
RUNS = 20  # runs per round; a figure is their median
_APP = "from bench.workload import app as made\n\napp = made()\n"


def start(plan: Plan) -> Iterator[Figure]:
    """Measure `penstock --help`, `penstock status`, and Python alone."""
    folder = fresh(plan.at("start"))
    own, store = folder / "app.py", folder / "store"
    own.write_text(_APP, "utf-8")
    with ps.open(app(), store) as engine:
        engine.put_many(TABLE, Workload(100).every_key(100))
    to = ["--app", str(own), "--store", str(store)]
    commands: dict[str, list[str]] = {
        "python": ["-c", "pass"],
        "help": ["-m", "penstock", "--help"],
        "status": ["-m", "penstock", "status", *to],
    }
    watch = machine.Watch.start()
    seconds = {name: list[float]() for name in commands}
    for _ in range(RUNS * plan.rounds if plan.judged else 1):
        for name, args in commands.items():
            seconds[name].append(_first_output(args))
    idle = watch.share() if watch else None
    bare: dict[str, float | None] = {"start of Python, ms": 1e3 * median(seconds["python"])}
    middle = median(seconds["help"])
    reach = f"≤ {1e3 * HELP:.0f} ms"
    detail = {"p99, ms": 1e3 * percentile(seconds["help"], 0.99)}
    yield Figure(
        "start", "help", 1e3 * middle, "ms", bare, idle, reach, middle / HELP, plan.met(middle <= HELP), detail
    )
    yield Figure("start", "status", 1e3 * median(seconds["status"]), "ms", bare, idle)


def _first_output(args: Sequence[str]) -> float:
    """Return the seconds until a process writes, or until it ends without output."""
    begun = perf_counter()
    with subprocess.Popen([sys.executable, *args], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        passed = perf_counter() - begun
        process.stdout.read()
    assert process.returncode == 0, f"{args} failed"
    return passed
