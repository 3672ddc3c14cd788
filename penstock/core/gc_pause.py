"""Pause Python's cycle collector during a large batch, because a batch makes no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_COLLECT_BELOW = 256


def no_collector(records: int) -> AbstractContextManager[None]:
    """Return a context without garbage collection, if the batch has enough records to be worth it."""
    return _paused() if records > _COLLECT_BELOW and gc.isenabled() else nullcontext()


@contextmanager
def _paused() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
