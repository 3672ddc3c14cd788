"""A pseudo-terminal for a command, and functions that type and wait for output as a person does."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE


class Terminal:
    """`penstock` with these arguments on a pseudo-terminal."""

    def __init__(self, *args: str, cwd: Path, env: dict[str, str] | None = None) -> None:
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        around = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "penstock", *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**around, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self._own)

    def until(self, text: str, after: int = 0) -> int:
        """Read until this text is shown after the position `after`. Return its end."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen[after:]:
            assert self._read(end), f"waited for {text!r} and saw {self.seen!r}"
        return self.seen.index(text, after) + len(text)

    def plain(self) -> str:
        """Return the shown text, without cursor movements and overwritten text."""
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen)
        return "\n".join(line.rpartition("\r")[2].rstrip() for line in shown.splitlines())

    def interrupt(self) -> None:
        """Type Ctrl-C."""
        self.child.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read to the end. Return the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read(end):
            pass
        return self.child.wait(PATIENCE)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._own, 1 << 16)
        except OSError:  # the other end of the terminal is closed
            return False
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
