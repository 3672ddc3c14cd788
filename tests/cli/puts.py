"""Many processes put into one store that nobody holds: each opens it, or hands its document over to the present holder.

    python -m tests.cli.puts FOLDER --processes 200 [--at-once 30] [--spawn]

Each process runs `penstock put` once. They are forks of one process that has imported the package, or, with --spawn,
programs of their own. The last line is a JSON object: the exit code and the output of each failure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.cli.main import group
from tests.cli.loading import PENSTOCK

APP = """
import penstock as ps

app = ps.App("shop")
users = app.table("users", key="id")
users.view("names", key="name", reduce=ps.count())
"""


def command(number: int) -> list[str]:
    """The arguments of one of the processes."""
    return ["put", "users", json.dumps({"id": number, "name": f"name{number % 7}"})]


def forked(number: int) -> int:
    """Run the command in a fork; its process id."""
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
    """Run the command in a program of its own; its process id."""
    with open(f"{number}.out", "wb") as said:
        return subprocess.Popen([*PENSTOCK, *command(number)], stdout=said, stderr=said).pid


def main() -> None:
    """Run them all, so many at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--processes", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=30)
    parser.add_argument("--spawn", action="store_true")
    asked = parser.parse_args()
    os.chdir(asked.folder)
    Path("app.py").write_text(APP)
    begin = spawned if asked.spawn else forked
    for module in ("penstock.cli.single", "penstock.engine"):
        importlib.import_module(module)  # once, and not in each fork
    failed: dict[int, str] = {}
    under_way: dict[int, int] = {}
    for number in range(asked.processes):
        if len(under_way) == asked.at_once:
            _wait(under_way, failed)
        under_way[begin(number)] = number
    while under_way:
        _wait(under_way, failed)
    print(json.dumps(failed))


def _wait(under_way: dict[int, int], failed: dict[int, str]) -> None:
    """Wait until one of them ends."""
    pid, status = os.wait()
    number = under_way.pop(pid)
    code = os.waitstatus_to_exitcode(status)
    if code:
        failed[number] = f"{code}: {Path(f'{number}.out').read_text()}"


if __name__ == "__main__":
    main()
