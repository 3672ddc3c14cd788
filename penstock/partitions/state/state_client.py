"""Requests of a task to the process of a partition on this host. The client starts the process if there is none.

Invariants:

- of all tasks of a host one starts the process, under a lock; the others connect to it;
- a request whose connection breaks is sent again, to the same process or to the next one. Its turn says whether it was
  performed: a process that did not perform the stages before it refuses it.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.cache import PRIVATE, Closed, PenstockError, unpack
from penstock.core import Settings
from penstock.partitions.app_transfer import AppTransfer
from penstock.partitions.state.state_files import StateFiles
from penstock.remote import HolderLost, Operation, RemoteWriter, WireClosed, error_of

__all__ = ["StateClient", "StateStart"]

A = TypeVar("A")
_TRIES = 5  # processes in a row that end during a request
_SILENCE = 60.0  # seconds without a sign of life after which a process counts as hanging


@dataclass(frozen=True, slots=True)
class StateStart:
    """The partition of a state that a process serves, and its files. `folder` is the local copy's.

    `program` is the module whose `main` runs the process.

    The process ends after `idle` seconds without a request, and soon after the end of the process `parent`.
    """

    app: AppTransfer
    state: str
    partition: int
    starts: tuple[int, ...]
    seed: int
    folder: str
    files: StateFiles
    settings: Settings
    program: str
    idle: float = 60.0
    parent: int = 0


class StateClient:
    """The connection to the process of one partition."""

    def __init__(self, start: StateStart) -> None:
        self._start = start
        self._wire: RemoteWriter | None = None

    def call(self, operation: Operation[A], /, **arguments: Any) -> A:
        """Have the process perform an operation. Start it if there is none."""
        for _ in range(_TRIES):
            wire = self._connected()
            try:
                return wire.call(operation, **arguments)
            except (HolderLost, Closed):
                self.close()
        raise PenstockError(
            f"partition {self._start.partition}: {_TRIES} processes in a row ended during {operation.name!r}; see "
            f"{self._log}, and run the batch again"
        )

    @property
    def _log(self) -> str:
        return f"{self._start.folder}.log"

    def _connected(self) -> RemoteWriter:
        if self._wire is not None and not self._wire.ended:
            return self._wire
        self.close()
        self._wire = self._reached() or self._started()
        return self._wire

    def _reached(self) -> RemoteWriter | None:
        """Connect to the process; None if no process listens."""
        with suppress(WireClosed):
            return RemoteWriter.reach(self._start.folder, f"the process of partition {self._start.partition}", _SILENCE)
        return None

    def _started(self) -> RemoteWriter:
        """Start the process, unless another task has done so meanwhile, and connect to it."""
        folder = self._start.folder
        os.makedirs(folder, PRIVATE, exist_ok=True)
        with open(f"{folder}.starting", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for _ in range(_TRIES):
                found = self._reached()
                if found is not None:
                    return found
                self._begin()
        raise PenstockError(
            f"partition {self._start.partition}: its process does not answer; see {self._log}, and end the process "
            f"that has {folder} open"
        )

    def _begin(self) -> None:
        """Start a process, and wait until it listens or has ended."""
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", f"import sys; from {self._start.program} import main; sys.exit(main())"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # it serves the tasks of other workers too, and ends by itself
            )
        assert process.stdin is not None, "it was asked for"
        assert process.stdout is not None, "it was asked for"
        with suppress(BrokenPipeError), process.stdin:  # it has ended, and its answer or its log says why
            pickle.dump(self._start, process.stdin)
        with process.stdout:
            answer = process.stdout.read()
        # It outlives this call, and perhaps this process. While this one lives, its exit status must be read.
        threading.Thread(target=process.wait, name="penstock-state-process", daemon=True).start()
        if not answer:
            time.sleep(0.02)  # another process may be about to free the folder
        elif "failed" in (message := unpack(answer)):
            raise error_of(message["failed"], f"the process of partition {self._start.partition}")

    def close(self) -> None:
        """Close the connection. The process goes on."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
