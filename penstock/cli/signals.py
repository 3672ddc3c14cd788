"""An orderly stop: the first Ctrl-C or SIGTERM requests it, the second Ctrl-C ends the command at once.

A long command tests `asked` between two batches, so that its current batch is committed before it ends. If the command
supports it, SIGUSR1 requests a pause and SIGUSR2 ends it.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The requests to stop and to pause. The signals are handled inside its `with` block."""

    def __init__(self, pauses: bool = False) -> None:
        self.asked = False
        self.paused = False
        self._pauses = pauses
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other thread may set signal handlers
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._ask)
            for number in (signal.SIGUSR1, signal.SIGUSR2) if self._pauses else ():
                self._before[number] = signal.signal(number, self._pause)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def _pause(self, number: int, frame: FrameType | None) -> None:
        self.paused = number == signal.SIGUSR1
