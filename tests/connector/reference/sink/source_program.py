"""A source connector by the client of the reference: `source_program.py PORT COOKIE FILE`. Each line is a message.

It runs in a process of its own, which can import the client and nothing of this project.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

NOTHING = (1 << 64) - 1  # the point of a worker that has no message
connectors: Any = importlib.import_module("wallaroo.experimental.connectors")


class Numbered(connectors.BaseIter, connectors.BaseSource):  # type: ignore[misc]
    """Messages with ids from 1 on."""

    name = key = b"numbers"

    def __init__(self, bodies: list[bytes]) -> None:
        self._bodies = bodies
        self._last = 0

    def __str__(self) -> str:
        return f"messages after {self._last}"

    def __next__(self) -> tuple[bytes, int]:
        if self._last == len(self._bodies):
            raise StopIteration
        self._last += 1
        return self._bodies[self._last - 1], self._last

    def point_of_ref(self) -> int:
        """Return the id of the last message."""
        return self._last

    def reset(self, pos: int = 0) -> None:
        """Continue after a point of the worker, and print it."""
        self._last = 0 if pos == NOTHING else pos
        print(f"reset {self._last}", flush=True)

    def wallaroo_acked(self, point_of_ref: int) -> None:
        """Print an acknowledgement."""
        print(f"acked {point_of_ref}", flush=True)

    def close(self) -> None:
        """Do nothing: the messages are in memory."""


def main(port: str, cookie: str, file: str) -> None:
    """Send all messages, and end after the last acknowledgement."""
    client = connectors.MultiSourceConnector("0.0.1", cookie, "app", "c1", "127.0.0.1", int(port))
    client.connect()
    client.add_source(Numbered(Path(file).read_bytes().splitlines()))
    raise SystemExit(client.join())


if __name__ == "__main__":
    main(*sys.argv[1:])
