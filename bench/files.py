"""Load a file by the command and by `put_many`: whole processes, from start to end.

Both read a file of JSON lines in the system's cache into an empty store, import the same app, and use all cores. They
take turns, so that a disturbance affects both.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import penstock as ps
from bench import machine
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, median
from bench.workload import TABLE, Workload, app

COMMAND = 1.15  # limit of the command's time, in units of put_many
_APP = "from bench.workload import app as made\n\napp = made()\n"


def load(plan: Plan) -> Iterator[Figure]:
    """The command beside the call."""
    folder = fresh(plan.at("files"))
    file, own = folder / "users.jsonl", folder / "app.py"
    work = Workload(plan.keys)
    file.write_bytes(b"\n".join(work.upserts(plan.docs)) + b"\n")
    own.write_text(_APP, "utf-8")
    watch = machine.Watch.start()
    command, call = list[float](), list[float]()
    for _ in range(plan.rounds):
        call.append(_timed(["-m", "bench.files", str(file), str(folder / "call")]))
        to = ["--app", str(own), "--store", str(folder / "command")]
        command.append(_timed(["-m", "penstock", "load", TABLE, str(file), *to]))
        for name in ("call", "command"):
            with ps.open(app(), folder / name, readonly=True) as engine:
                work.check(engine)
            shutil.rmtree(folder / name)
    shutil.rmtree(folder)
    ratio = median(a / b for a, b in zip(command, call, strict=True))
    yield Figure(
        "load",
        "command",
        plan.docs / median(command),
        "documents/s",
        {"put_many of the file, documents/s": plan.docs / median(call)},
        watch.share() if watch else None,
        f"time ≤ {COMMAND} × put_many",
        ratio,
        plan.met(ratio <= COMMAND),
        {"seconds": command, "seconds of put_many": call},
    )


def _timed(arguments: list[str]) -> float:
    began = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - began


def _put_many(file: Path, store: Path) -> None:
    with ps.open(app(), store) as engine, file.open("rb") as lines:
        engine.put_many(TABLE, lines)


if __name__ == "__main__":
    _put_many(*map(Path, sys.argv[1:]))
