"""A thread that works on an open store in steps, and keeps no store alive between two of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.cache import Closed, ForkedStore

__all__ = ["StoreThread"]

_T = TypeVar("_T")


class StoreThread(Generic[_T]):
    """The thread. It ends with its last step, with the store, or with `close`.

    `step` gets the object to work on, and returns the seconds until the next step; None ends the thread. `wait`
    replaces the waits of the thread, and returns True to end it.
    """

    def __init__(
        self,
        name: str,
        work: _T,
        step: Callable[[_T, Callable[[float], bool]], float | None],
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._work = weakref.ref(work)
        self._step = step
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread after the step in progress."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            work = self._work()
            if work is None:
                return
            try:
                pause = self._step(work, self._wait)
            except (Closed, ForkedStore):
                return
            del work
            if pause is None or self._wait(pause):
                return
