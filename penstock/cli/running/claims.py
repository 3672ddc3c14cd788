"""Who reads a source into a store: one process, or the members of one group, by locks of the kernel; and how it goes.

A claim is a file in the store's folder, which is never deleted; the death of its holder frees it, whatever killed it.
What the file says counts only while the lock is held. Members of a group share the claim, which says what group it is,
and each has a numbered file of its own, in which it says how it goes. By these they are counted: a member lives that
holds its file, reads, is not stopped, and gave a sign of life in the last ten seconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_FOLDER = "reading"
_STOPPED = "T"  # the kernel's letter
_AT = "at"  # when it was said; only who reads says so
_SAY = 1.0  # seconds between two words
SESSION = 10.0
"""Seconds without a word after which a member doesn't count: it hangs, for one that waits for the store says so."""
_decode = json.JSONDecoder().raw_decode


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
        self._turn = threading.Lock()
        self._said = (-_SAY, "", 0)  # when, in which state, and after how many records
        self._word: dict[str, Any] = {}
        self._wrote = -_SAY
        self._ended = False

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
        with self._turn:
            now = self._clock()
            then, before, had = self._said
            if self._ended or (now - then < _SAY and state == before):
                return
            rate = (records - had) / (now - then) if before and now > then else 0.0
            self._said = now, state, records
            own = {"source": self.source, "pid": os.getpid(), "state": state, "lag": lag, "rate": round(rate)}
            self._word = own if self.group is None else {**own, "group": self.group}
            self._write(now)

    def beat(self) -> None:
        """A sign of life, by another thread: what was said last holds still."""
        with self._turn:
            now = self._clock()
            if self._word and not self._ended and now - self._wrote >= _SAY:
                self._write(now)

    def _write(self, now: float) -> None:
        self._wrote = now
        _write(self._file, {**self._word, _AT: now})

    def end(self, state: str) -> None:
        """Say so for the last time: it is read no more, though the right to do so is kept."""
        with self._turn:
            self._ended = True
            if self._word:
                _write(self._file, {**self._word, "state": state, "lag": None, "rate": 0})

    def release(self) -> None:
        """Let others have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Place(Claim):
    """Where a process says how it reads a source that any other may read as well, a file for one."""

    _number = -1

    def take(self) -> str | None:
        """A file of its own for that, which nobody is in the way of."""
        self._own()
        return None

    def _own(self) -> None:
        while self._file < 0:
            self._number += 1
            file = _opened(self._path.with_name(f"{self._path.name}-{self._number}"))
            if _locked(file, fcntl.LOCK_EX):
                os.ftruncate(file, 0)
                self._file = file
            else:
                os.close(file)


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

    def place(self) -> tuple[int, int]:
        """The place of this one among the members that live, from 0, and how many these are."""
        own = f"{self._path.name}-"
        others = {int(file.name.removeprefix(own)): file for file in self._path.parent.glob(f"{own}*")}
        living = sorted(number for number, file in others.items() if number == self._number or self._lives(file))
        return living.index(self._number), len(living)

    def _lives(self, file: Path) -> bool:
        if _is_free(file):
            return False
        about = _said(file)
        return _AT in about and self._clock() - about[_AT] < SESSION and not is_stopped(about["pid"])

    def release(self) -> None:
        """Let others have it."""
        super().release()
        if self._shared >= 0:
            os.close(self._shared)
            self._shared = -1


def claims(path: str) -> list[dict[str, Any]]:
    """What is said of the sources that are being read into the store at `path`."""
    out: list[dict[str, Any]] = []
    for file in sorted((Path(path) / _FOLDER).glob("*")):
        if not _is_free(file) and "pid" in (about := _said(file)):
            about.pop(_AT, None)
            out.append(about)
    return out


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, as by SIGSTOP or a terminal."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1] == [_STOPPED]
    return False


def _is_free(file: Path) -> bool:
    """Whether nobody has it for itself."""
    own = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _locked(own, fcntl.LOCK_SH)
    finally:
        os.close(own)


def _opened(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


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
    """What is said, nothing if it isn't yet; the end of what was said before may stand behind it."""
    about: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        about, _ = _decode(path.read_text())
    return about


def _reader(path: Path) -> str:
    """Who has it, in words."""
    about = _said(path)
    if "group" in about:
        return f"group {about['group']}"
    return f"process {about['pid']}" if "pid" in about else "another process"
