"""The audit log: one JSON line per operation of an operator, with name and outcome.

Invariants:

- a line has no access token, no document and no result;
- several processes append whole lines. A log that is full is renamed, and a fixed number of former logs is kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["AuditLog"]

_MOST = 16 << 20  # bytes of one log
_KEPT = 4  # former logs
_TEXT = 500  # characters of one argument or error


class AuditLog:
    """The log at a path; STORE.audit beside the store."""

    def __init__(self, path: str, most: int = _MOST, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._most = most
        self._clock = clock

    @classmethod
    def of_store(cls, path: str) -> AuditLog:
        """Return the log beside the folder of a store."""
        return cls(os.path.abspath(path) + ".audit")

    def add(
        self, by: str, operation: str, outcome: str, about: Mapping[str, Any], number: str = "", error: str = ""
    ) -> None:
        """Append a line; `about` names the objects of the operation."""
        line: dict[str, Any] = {"at": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")}
        line |= {"by": by, "operation": operation, "id": number, "about": dict(about), "outcome": outcome}
        if error:
            line["error"] = error[:_TEXT]
        self._append((json.dumps(line, default=_short) + "\n").encode())

    def _append(self, line: bytes) -> None:
        while True:
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not self._is_current(file):
                    continue  # another process renamed it meanwhile
                size = os.fstat(file).st_size
                if size and size + len(line) > self._most:
                    self._rename()
                    continue
                os.write(file, line)
                return
            finally:
                os.close(file)

    def _is_current(self, file: int) -> bool:
        try:
            return os.stat(self.path).st_ino == os.fstat(file).st_ino
        except FileNotFoundError:
            return False

    def _rename(self) -> None:
        """Make the log the first of the former ones; the caller has its lock."""
        for number in range(_KEPT - 1, 0, -1):
            if os.path.exists(f"{self.path}.{number}"):
                os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
        os.replace(self.path, f"{self.path}.1")


def _short(value: Any) -> str:
    return str(value)[:_TEXT]
