"""`penstock` with a store, killed in the middle of an operation for another process.

    python -m tests.cli.commands.holding commit restate run --from users=users.jsonl?follow=1

It runs the command after the first two words, and is killed in the operation that the second word names. With `commit`
this is before its first commit. With `answer` it is after all commits, before the other process is told. Changed views
are built only when a command asks for it.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from typing import Any
from unittest import mock

from penstock.cli.program import group
from penstock.engine.calls.store_building import StoreBuilding
from penstock.remote.operations import OPERATIONS
from tests.core.crash.crash_points import Counted


def kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def befall(when: str, operation: str) -> None:
    """Arrange to be killed in the operation of this name."""
    done = OPERATIONS[operation]

    def fatal(target: Any, /, **arguments: Any) -> None:
        if when == "commit":
            with Counted(kill).counting():
                done.perform(target, **arguments)
        done.perform(target, **arguments)
        kill()

    OPERATIONS[operation] = replace(done, perform=fatal)


def main(when: str, operation: str, *arguments: str) -> None:
    """Run the command until it is killed."""
    befall(when, operation)
    with mock.patch.object(StoreBuilding, "begin"):
        group.main(list(arguments), prog_name="penstock")


if __name__ == "__main__":
    main(*sys.argv[1:])
