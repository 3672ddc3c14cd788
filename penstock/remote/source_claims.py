"""Claims: the right of one process, or of the members of one group, to read a source into a store.

A claim is a file in the store's folder, which is never deleted. A kernel lock on it ends with the process that holds
it. The text of the file counts only while the file is locked. It describes the progress of the reader.

Members of a group share the claim, which names the group. Each also has a numbered file of its own with its progress. A
member counts as alive if its file is locked, it reads, it is not stopped, and it gave a sign of life in the last ten
seconds.
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
_AT = "at"  # time of the last report; only readers set it
_SAY = 1.0  # seconds between two reports
SESSION = 10.0
"""Seconds without a sign of life after which a member counts as hanging. Waiting for the store gives such signs."""
_decode = json.JSONDecoder().raw_decode


class Claim:
    """The right to read a source into the store at `path`, or with another `folder` to write the sink of that name."""

    def __init__(
        self, path: str, source: str, folder: str = _FOLDER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.source = source
        self.group: str | None = None
        self._path = Path(path) / folder / hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
        self._clock = clock
        self._file = -1
        self._turn = threading.Lock()
        self._reported = (-_SAY, "", 0)  # time, state and record count of the last report
        self._word: dict[str, Any] = {}
        self._wrote = -_SAY
        self._ended = False

    def take(self) -> str | None:
        """Take the claim. Return a description of the process that has it instead, or None."""
        if self._file < 0:
            self._file = _opened(self._path)
        if not _locked(self._file, fcntl.LOCK_EX):
            return _reader(self._path)
        os.ftruncate(self._file, 0)
        return None

    def say(self, state: str, lag: int | None, records: int) -> None:
        """Report state and progress: when the state changes, else once a second."""
        with self._turn:
            now = self._clock()
            then, before, had = self._reported
            if self._ended or (now - then < _SAY and state == before):
                return
            rate = (records - had) / (now - then) if before and now > then else 0.0
            self._reported = now, state, records
            own = {"source": self.source, "pid": os.getpid(), "state": state, "lag": lag, "rate": round(rate)}
            self._word = own if self.group is None else {**own, "group": self.group}
            self._write(now)

    def beat(self) -> None:
        """Write a sign of life, from another thread: the last report is still true."""
        with self._turn:
            now = self._clock()
            if self._word and not self._ended and now - self._wrote >= _SAY:
                self._write(now)

    def _write(self, now: float) -> None:
        self._wrote = now
        _write(self._file, {**self._word, _AT: now})

    def end(self, state: str) -> None:
        """Report the final state. The source is no longer read, but the claim is still locked."""
        with self._turn:
            self._ended = True
            if self._word:
                _write(self._file, {**self._word, "state": state, "lag": None, "rate": 0})

    def release(self) -> None:
        """Release the claim for others."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class ReaderClaim(Claim):
    """The progress report of a process for a source that several processes may read, such as a file."""

    _number = -1

    def take(self) -> str | None:
        """Lock a numbered file of its own. This always succeeds."""
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


class MemberClaim(ReaderClaim):
    """The right of a member of a group to read its share of a source."""

    def __init__(self, path: str, source: str, group: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(path, source, clock=clock)
        self.group = group
        self._shared = -1

    def take(self) -> str | None:
        """Take the claim, as the first of the group or as a member. Return a description of its holder, or None."""
        if self._shared < 0:
            self._shared = _opened(self._path)
        if _locked(self._shared, fcntl.LOCK_EX):
            _write(self._shared, {"source": self.source, "group": self.group})
        # Another process can come between the two locks. It has then written its own group.
        if not _locked(self._shared, fcntl.LOCK_SH):
            return _reader(self._path)
        if _last_report(self._path).get("group") != self.group:
            other = _reader(self._path)
            fcntl.flock(self._shared, fcntl.LOCK_UN)
            return other
        self._own()
        return None

    def place(self) -> tuple[int, int]:
        """Return the index of this member among the living ones, from 0, and the number of these."""
        own = f"{self._path.name}-"
        others = {int(file.name.removeprefix(own)): file for file in self._path.parent.glob(f"{own}*")}
        living = sorted(number for number, file in others.items() if number == self._number or self._lives(file))
        return living.index(self._number), len(living)

    def _lives(self, file: Path) -> bool:
        if _is_free(file):
            return False
        about = _last_report(file)
        return _AT in about and self._clock() - about[_AT] < SESSION and not is_stopped(about["pid"])

    def release(self) -> None:
        """Release the claim for others."""
        super().release()
        if self._shared >= 0:
            os.close(self._shared)
            self._shared = -1


def claims(path: str) -> list[dict[str, Any]]:
    """Return the reports on sources that are being read into the store at `path`."""
    out: list[dict[str, Any]] = []
    for file in sorted((Path(path) / _FOLDER).glob("*")):
        if not _is_free(file) and "pid" in (about := _last_report(file)):
            about.pop(_AT, None)
            out.append(about)
    return out


def is_stopped(pid: int) -> bool:
    """Test whether a process is stopped, for example by SIGSTOP or a terminal."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1] == [_STOPPED]
    return False


def _is_free(file: Path) -> bool:
    """Test whether no process has locked the file exclusively."""
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


def _last_report(path: Path) -> dict[str, Any]:
    """Return the report in the file, or an empty one. The end of a longer, earlier report may follow it."""
    about: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        about, _ = _decode(path.read_text())
    return about


def _reader(path: Path) -> str:
    """Return a description of the process or group that has the claim."""
    about = _last_report(path)
    if "group" in about:
        return f"group {about['group']}"
    return f"process {about['pid']}" if "pid" in about else "another process"
