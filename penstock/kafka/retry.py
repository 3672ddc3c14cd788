"""Ask a broker again after a transient answer, such as a slow broker or a partition without a leader."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.kafka.errors import BrokerAway

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds after which a transient answer counts as an error."""
_PAUSE = 0.1  # seconds between two attempts


def until_ready(ask: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """Return the answer of `ask`. While it raises BrokerAway, call it again, for at most PATIENCE seconds.

    >>> answers = iter([BrokerAway("kafka://host:9092/users"), None])
    >>> def ask():
    ...     error = next(answers)
    ...     if error is not None:
    ...         raise error
    ...     return "ready"
    >>> until_ready(ask, pause=lambda seconds: None)
    'ready'
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except BrokerAway:
            if time.monotonic() >= end:
                raise
        pause(_PAUSE)
