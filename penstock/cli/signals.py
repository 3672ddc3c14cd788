"""Stopping in good order: the first Ctrl-C or SIGTERM asks for it, the second Ctrl-C is answered at once.

A long command looks at `asked` between two batches, so that what it was doing is committed before it ends. SIGUSR1 asks
to pause, and SIGUSR2 to go on, where the command says that it can.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether one asked to stop; in effect inside its `with` block."""

    def __init__(self, pauses: bool = False) -> None:
        self.asked = False
        self.paused = False
        self._pauses = pauses
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other may change what signals do
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
