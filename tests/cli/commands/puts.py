"""Many processes put into one store without a holder: each opens it, or sends its document to the present holder.

    python -m tests.cli.commands.puts [FOLDER] --processes 200 [--at-once 30] [--spawn] [--budget 1800]

Each process runs `penstock put` once. They are forks of one process that has imported the package, or, with --spawn,
programs of their own. After the budget, in seconds, no further one starts. The last line is a JSON object: the exit
code and the output of each failure. The command exits with 1 if one failed, or if its document is not in the store.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

import penstock as ps
from penstock.cli.app_file import load
from penstock.cli.program import group
from tests.cli.loading import PENSTOCK, STORE

APP = """
import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id")
users.view("names", key="name", reduce=ps.count())
"""


def command(number: int) -> list[str]:
    """Return the arguments of one of the processes."""
    return ["put", "users", json.dumps({"id": number, "name": f"name{number % 7}"})]


def forked(number: int) -> int:
    """Run the command in a fork. Return its process id."""
    child = os.fork()
    if child:
        return child
    said = os.open(f"{number}.out", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    code = 99
    try:
        group.main(command(number), prog_name="penstock")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 98
    finally:
        sys.stdout.flush()
        os._exit(code)


def spawned(number: int) -> int:
    """Run the command in a program of its own. Return its process id."""
    new = os.O_WRONLY | os.O_CREAT
    said = [(os.POSIX_SPAWN_OPEN, 1, f"{number}.out", new, 0o600), (os.POSIX_SPAWN_DUP2, 1, 2)]
    return os.posix_spawn(PENSTOCK[0], [*PENSTOCK, *command(number)], os.environ, file_actions=said)


def main() -> int:
    """Run the processes, and check the store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--processes", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=30)
    parser.add_argument("--spawn", action="store_true")
    parser.add_argument("--budget", type=float, default=math.inf)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(asked.folder or folder)
        failed, begun = ran(asked)
        stored = in_store()
        os.chdir("/")
    print(f"{begun} of {asked.processes} processes put; {len(failed)} failed; {len(stored)} documents are in the store")
    print(json.dumps(failed))
    return 1 if failed or stored != list(range(begun)) else 0


def ran(asked: argparse.Namespace) -> tuple[dict[int, str], int]:
    """Run all processes, a limited number at a time. Return the failures, and the number that started."""
    Path("app.py").write_text(APP)
    begin = spawned if asked.spawn else forked
    for module in ("penstock.cli.commands.records", "penstock.engine"):
        importlib.import_module(module)  # once, and not in each fork
    failed: dict[int, str] = {}
    under_way: dict[int, int] = {}
    begun, until = 0, time.monotonic() + asked.budget
    while begun < asked.processes and time.monotonic() < until:
        if len(under_way) == asked.at_once:
            _wait(under_way, failed)
        under_way[begin(begun)] = begun
        begun += 1
    while under_way:
        _wait(under_way, failed)
    return failed, begun


def in_store() -> list[int]:
    """Return the keys of the documents in the store."""
    with ps.open(load("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
        return sorted(dict(snap.table("users").items()))


def _wait(under_way: dict[int, int], failed: dict[int, str]) -> None:
    """Wait until one of them ends."""
    pid, status = os.wait()
    number = under_way.pop(pid)
    code = os.waitstatus_to_exitcode(status)
    if code:
        failed[number] = f"{code}: {Path(f'{number}.out').read_text()}"


if __name__ == "__main__":
    raise SystemExit(main())
