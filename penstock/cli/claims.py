"""Who reads a source into a store: one process, or the members of one group, by locks of the kernel; and how it goes.

A claim is a file in the store's folder, which is never deleted; the death of its holder frees it, whatever killed it.
What the file says counts only while the lock is held. Members of a group share the claim, which says what group it is,
and each says how it goes in a file of its own.
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
    """The right to read a source into the store at `path`; or, of another `folder`, to write what is called so."""

    def __init__(
        self, path: str, source: str, folder: str = _FOLDER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.source = source
        self.group: str | None = None
        self._path = Path(path) / folder / hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
        self._clock = clock
        self._file = -1
        self._said = (-_SAY, "", 0)  # when, in which state, and after how many records

    def take(self) -> str | None:
        """Take it; who has it instead, in words."""
        if self._file < 0:
            self._file = _opened(self._path)
        if not _locked(self._file, fcntl.LOCK_EX):
            return _reader(self._path)
        os.ftruncate(self._file, 0)
        return None

    def say(self, state: str, lag: int | None, records: int) -> None:
        """Now and then, or when the state changes, how it goes."""
        now = self._clock()
        then, before, had = self._said
        if now - then < _SAY and state == before:
            return
        rate = (records - had) / (now - then) if before and now > then else 0.0
        self._said = now, state, records
        own = {"source": self.source, "pid": os.getpid(), "state": state, "lag": lag, "rate": round(rate)}
        _write(self._file, own if self.group is None else {**own, "group": self.group})

    def release(self) -> None:
        """Let others have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Place(Claim):
    """Where a process says how it reads a source that any other may read as well, a file for one."""

    def take(self) -> str | None:
        """A file of its own for that, which nobody is in the way of."""
        self._own()
        return None

    def _own(self) -> None:
        number = 0
        while self._file < 0:
            file = _opened(self._path.with_name(f"{self._path.name}-{number}"))
            if _locked(file, fcntl.LOCK_EX):
                os.ftruncate(file, 0)
                self._file = file
            else:
                os.close(file)
            number += 1


class Shared(Place):
    """The right of a member of a group to read its share of a source."""

    def __init__(self, path: str, source: str, group: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(path, source, clock=clock)
        self.group = group
        self._shared = -1

    def take(self) -> str | None:
        """Take it, as the first of the group or one of it; who has it instead, in words."""
        if self._shared < 0:
            self._shared = _opened(self._path)
        if _locked(self._shared, fcntl.LOCK_EX):
            _write(self._shared, {"source": self.source, "group": self.group})
        # From one lock to the other is not one step: whoever came between has written what it is.
        if not _locked(self._shared, fcntl.LOCK_SH):
            return _reader(self._path)
        if _said(self._path).get("group") != self.group:
            other = _reader(self._path)
            fcntl.flock(self._shared, fcntl.LOCK_UN)
            return other
        self._own()
        return None

    def release(self) -> None:
        """Let others have it."""
        super().release()
        if self._shared >= 0:
            os.close(self._shared)
            self._shared = -1


def called(path: str) -> str:
    """What members over the store at `path` call themselves: it is the same by whatever path they know it."""
    folder = os.stat(path)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    own = f"{boot} {folder.st_dev} {folder.st_ino}".encode()
    return f"penstock-{hashlib.blake2b(own, digest_size=8).hexdigest()}"


def claims(path: str) -> list[dict[str, Any]]:
    """What is said of the sources that are being read into the store at `path`."""
    out: list[dict[str, Any]] = []
    for file in sorted((Path(path) / _FOLDER).glob("*")):
        if not _is_free(file):
            with suppress(OSError, ValueError):  # it has not said anything yet
                out.append(json.loads(file.read_bytes()))
    return out


def _is_free(file: Path) -> bool:
    """Whether nobody has it for itself."""
    own = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _locked(own, fcntl.LOCK_SH)
    finally:
        os.close(own)


def _opened(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(file: int, about: dict[str, Any]) -> None:
    data = json.dumps(about).encode()
    os.pwrite(file, data, 0)
    os.ftruncate(file, len(data))


def _said(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        about: dict[str, Any] = json.loads(path.read_bytes())
        return about
    return {}


def _reader(path: Path) -> str:
    """Who has it, in words."""
    about = _said(path)
    if "group" in about:
        return f"group {about['group']}"
    return f"process {about['pid']}" if "pid" in about else "another process"
