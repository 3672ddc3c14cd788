"""`penstock` with counted commits, and kill -9 at some of them.

    python -m tests.cli.commands.killed LIMIT POINT:SIDE,… load users users.jsonl --store STORE

For each point the command runs in a fork, on the store STORE-POINT-SIDE, in transactions of LIMIT records. It is killed
before or after the commit of that number, counted from 1. Nothing is synced: only a power loss would need that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from unittest import mock

from penstock.cli.commands import load
from penstock.cli.program import group
from tests.core.crash.crash_points import Counted, unsynced


def killed_store(store: str, point: int, side: str) -> str:
    """Return the store of the run that is killed at this point."""
    return f"{store}-{point}-{side}"


def run(limit: int, where: tuple[int, str] | None, arguments: Sequence[str]) -> None:
    """Run the command, and be killed at this point."""

    def kill(point: int, side: str, _: str) -> None:
        if (point, side) == where:
            os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(load, "LIMIT", limit), unsynced(), Counted(kill).counting():
        group.main(list(arguments), prog_name="penstock")


def main(limit: int, points: str, *arguments: str) -> None:
    """Be killed at each point, each time in a fork."""
    *before, store = arguments
    for text in points.split(","):
        number, _, side = text.partition(":")
        child = os.fork()
        if not child:
            run(limit, (int(number), side), [*before, killed_store(store, int(number), side)])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"commit {text} never came"
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
