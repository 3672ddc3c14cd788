"""A forked child of the first process: a front or the holder.

The first process has no threads and no open store, so a fork is a clean copy. The child has the app as it was loaded.
Invariants:

- a child ends within seconds after its parent, however the parent ended. The parent alone has the other end of a pipe;
- a child leaves nothing of the parent's stack: it ends with its own exit code.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Self

__all__ = ["ChildProcess"]

_HURRY = 4.0  # seconds after the parent's end in which a child ends in order
_OWN = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)


class ChildProcess:
    """A running child: its process id, and the reports that it sends."""

    def __init__(self, name: str, pid: int, reports: int, lifeline: int) -> None:
        self.name = name
        self.pid = pid
        self._reports = reports
        self._lifeline = lifeline
        self._text = b""

    @classmethod
    def fork(cls, name: str, work: Callable[[Callable[[dict[str, Any]], None]], int], inherited: list[int]) -> Self:
        """Begin a child that does `work`; it closes the `inherited` files, which belong to other children."""
        reports, report = os.pipe()
        lifeline, held = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            os.close(report)
            os.close(lifeline)
            return cls(name, pid, reports, held)
        code = 1
        try:
            for file in (reports, held, *inherited):
                os.close(file)
            _settle(lifeline)
            code = work(lambda value: _send(report, value))
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    @property
    def files(self) -> list[int]:
        """The files of the parent that other children must close."""
        return [self._reports, self._lifeline]

    def report(self, seconds: float) -> dict[str, Any] | None:
        """Wait so many seconds for the next report; an empty one if the child has ended."""
        while b"\n" not in self._text:
            poll = select.poll()
            poll.register(self._reports, select.POLLIN)
            if not poll.poll(seconds * 1000):
                return None
            data = os.read(self._reports, 1 << 16)
            if not data:
                return {}
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        out: dict[str, Any] = json.loads(line)
        return out

    def signal(self, number: int) -> None:
        """Send a signal. The child has not been waited for, so the process id is its own."""
        os.kill(self.pid, number)

    def close(self) -> None:
        """Close the pipes, after the child was waited for."""
        os.close(self._reports)
        os.close(self._lifeline)


def _send(file: int, value: dict[str, Any]) -> None:
    os.write(file, json.dumps(value).encode() + b"\n")


def _settle(lifeline: int) -> None:
    """Take the signals of a child, and end when the parent ends."""
    for number in _OWN:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the parent too, which ends its children
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OWN)
    threading.Thread(target=_follow, args=(lifeline, os.getpid()), name="penstock-lifeline", daemon=True).start()


def _follow(lifeline: int, own: int) -> None:
    os.read(lifeline, 1)  # returns when the parent has ended
    os.kill(own, signal.SIGTERM)
    threading.Event().wait(_HURRY)
    os._exit(1)
