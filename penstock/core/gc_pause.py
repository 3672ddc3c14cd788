"""Python's cycle collector waits for the end of a large batch: what a batch makes has no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_COLLECT_BELOW = 256


def no_collector(records: int) -> AbstractContextManager[None]:
    """Within this nothing is collected, if a batch is of so many records that it pays."""
    return _paused() if records > _COLLECT_BELOW and gc.isenabled() else nullcontext()


@contextmanager
def _paused() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
