"""Pause Python's cycle collector during a batch for many views or of many records, because a batch makes no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_COLLECT_BELOW = 16  # each pair makes some dozen objects, and the collector runs after 700


def no_collector(pairs: int) -> AbstractContextManager[None]:
    """Return a context without garbage collection, if the batch has enough pairs of record and view to be worth it."""
    return _paused() if pairs > _COLLECT_BELOW and gc.isenabled() else nullcontext()


@contextmanager
def _paused() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
