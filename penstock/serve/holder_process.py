"""The holder of a server: it has the store open for writing, or waits until another holder ends.

Its reports tell the first process how the opening went. Invariant: it ends when it is asked to, and closes the store.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from penstock.cache import PenstockError, StoreInUse
from penstock.engine import Engine, Scrubbing, open_engine
from penstock.remote import error_data
from penstock.views import App

__all__ = ["open_store", "run_holder"]

_AGAIN = 0.5  # seconds between two attempts to become the holder

Report = Callable[[dict[str, Any]], object]


def open_store(app: App, path: str) -> Engine:
    """Open the store for writing. Views that changed are refused, as `penstock run` does."""
    return open_engine(app, path, migrate="refuse", scrub=Scrubbing())


def run_holder(app: App, path: str, report: Report) -> int:
    """Hold the store until SIGTERM; return the exit code."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    known = None
    while not stop.is_set():
        try:
            engine = open_store(app, path)
        except StoreInUse as error:
            if error.holder != known:
                known = error.holder
                report({"held": known})
            stop.wait(_AGAIN)
            continue
        except PenstockError as error:
            report({"failed": error_data(error)})
            return 1
        report({"holds": os.getpid()})
        try:
            stop.wait()
        finally:
            engine.close()
    return 0
