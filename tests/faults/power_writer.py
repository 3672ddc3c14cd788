"""The process that loses power: it puts the batches of `crash_writer`, and marks acknowledged ones in the record.

    python -m tests.faults.power_writer PATH DURABILITY BATCHES SIZE [unsynced]

With SIZE 0 it puts single documents by tickets, and does not wait for each. With "unsynced" LMDB never syncs: a planted
bug that power losses must find.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.core.crash import crash_writer as writer
from tests.core.crash.crash_points import unsynced
from tests.faults import shop


def marker() -> Callable[[int], None]:
    """Return the function that marks the record of the loaded recorder."""
    mark: Any = ctypes.CDLL(None).recorder_mark
    mark.argtypes, mark.restype = [ctypes.c_uint64], None
    return mark


def main(path: str, durability: str, batches: str, size: str, *bug: str) -> None:
    """Write batches, and mark each acknowledged one."""
    mark = marker()
    with ExitStack() as stack:
        if bug:
            stack.enter_context(unsynced())
        engine = stack.enter_context(shop.opened(Path(path), durability))
        mark(0)
        write = writer.write(engine, 0, int(batches), int(size)) if int(size) else shop.puts(engine, int(batches))
        for done in write:
            mark(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
