"""The number of calls that run at once. A call beyond the limit is refused at once, so none waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from penstock.serve.grpc.error_status import CallRefused
from penstock.serve.store.error_codes import RETRY_SECONDS

__all__ = ["CallLimit"]


class CallLimit:
    """The limit of one kind of calls; `kind` names it in the refusal."""

    def __init__(self, most: int, kind: str) -> None:
        self._most = most
        self._kind = kind
        self._turn = threading.Lock()
        self.running = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a call within the block. Raise CallRefused if too many run."""
        with self._turn:
            if self.running >= self._most:
                message = f"{self._most} {self._kind} run already; repeat the call in a moment"
                raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY", message, again=RETRY_SECONDS)
            self.running += 1
        try:
            yield
        finally:
            with self._turn:
                self.running -= 1
