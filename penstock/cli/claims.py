"""Who reads a source into a store: one process at a time, by a lock of the kernel, and what it says of how it goes.

A claim is a file in the store's folder, which is never deleted; the death of its holder frees it, whatever killed it.
What the file says counts only while the lock is held.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_FOLDER = "reading"
_SAY = 1.0  # seconds between two words


class Claim:
    """The right to read a source into the store at `path`."""

    def __init__(self, path: str, source: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.source = source
        self._path = Path(path) / _FOLDER / hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
        self._clock = clock
        self._file = -1
        self._said = (-_SAY, "", 0)  # when, in which state, and after how many records

    def take(self) -> str | None:
        """Take it; who has it instead, in words."""
        if self._file < 0:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with suppress(OSError, ValueError):
                return f"process {json.loads(self._path.read_bytes())['pid']}"
            return "another process"
        return None

    def say(self, state: str, lag: int | None, records: int) -> None:
        """Now and then, or when the state changes, how it goes."""
        now = self._clock()
        then, before, had = self._said
        if now - then < _SAY and state == before:
            return
        rate = (records - had) / (now - then) if before and now > then else 0.0
        self._said = now, state, records
        about = {"source": self.source, "pid": os.getpid(), "state": state, "lag": lag, "rate": round(rate)}
        data = json.dumps(about).encode()
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))

    def release(self) -> None:
        """Let others have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def claims(path: str) -> list[dict[str, Any]]:
    """What is said of the sources that are being read into the store at `path`."""
    out: list[dict[str, Any]] = []
    for file in sorted((Path(path) / _FOLDER).glob("*")):
        if not _is_free(file):
            with suppress(OSError, ValueError):  # it has not said anything yet
                out.append(json.loads(file.read_bytes()))
    return out


def _is_free(file: Path) -> bool:
    own = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(own, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(own)
    return True
