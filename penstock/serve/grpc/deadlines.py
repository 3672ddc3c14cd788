"""The deadline of a call: that of the client, or the default if it is shorter."""

from __future__ import annotations

import grpc

__all__ = ["DEADLINE", "seconds_left"]

DEADLINE = 10.0
"""Seconds of a call, unless the client gives fewer."""


def seconds_left(context: grpc.ServicerContext) -> float:
    """Return the seconds until the deadline of a call."""
    left = context.time_remaining()
    return DEADLINE if left is None else max(0.0, min(left, DEADLINE))
