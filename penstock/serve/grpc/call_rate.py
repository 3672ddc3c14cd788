"""The rate of one kind of calls. A call beyond it is refused at once, with the time to wait."""

from __future__ import annotations

import grpc

from penstock.serve.grpc.error_status import CallRefused
from penstock.serve.store.rate_limit import RateLimit

__all__ = ["CallRate", "rate_refusal"]


class CallRate:
    """The rate of one kind of calls; `kind` names them in the refusal."""

    def __init__(self, limit: RateLimit, kind: str) -> None:
        self._limit = limit
        self._kind = kind

    def count(self) -> None:
        """Count a call. Raise CallRefused if there were too many."""
        wait = self._limit.wait()
        if wait:
            raise rate_refusal(self._limit.most, self._kind, wait)


def rate_refusal(most: float, kind: str, wait: float) -> CallRefused:
    """Return the refusal of a call beyond a rate."""
    message = f"more than {most:g} {kind} per second; repeat the call in {wait:.1f} s"
    return CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE", message, again=wait)
