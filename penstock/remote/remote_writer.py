"""The writer of a store that another process holds: the holder does the work.

Invariants:

- an answer comes after the commit. Any error between request and answer ends the connection, so a late answer is
  never taken for that of another request;
- threads take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.cache import Closed, ForkedStore, PenstockError
from penstock.remote.operation_writer import OperationWriter
from penstock.remote.operations import MEMORY, Effect, Operation
from penstock.remote.socket_wire import PROTOCOL, Wire, WireClosed, WireTimeout, connect
from penstock.remote.wire_messages import error_of
from penstock.remote.writer_protocol import HolderLost, HolderSilent
from penstock.views import Counts

__all__ = ["RemoteWriter"]

A = TypeVar("A")


class RemoteWriter(OperationWriter):
    """The store is open in another process, which does the work."""

    def __init__(self, wire: Wire, path: str, holder: str, patience: float) -> None:
        self.holder = holder
        self._wire: Wire | None = wire
        self._path = path
        self._patience = patience
        self._pid = os.getpid()
        self._done = Counts()
        self._turn = threading.Lock()

    @classmethod
    def reach(cls, path: str, holder: str, patience: float) -> RemoteWriter:
        """Connect to the holder of the store; WireClosed if no process listens there."""
        try:
            wire = connect(path, patience)
        except WireTimeout:
            raise HolderSilent(path, holder, patience) from None
        try:
            if wire.uid != os.geteuid():
                raise PenstockError(
                    f"the store at {path} is held by {holder} of user {wire.uid}, and this is user {os.geteuid()}; run "
                    "this as that user"
                )
            hello = wire.receive(patience)
            if isinstance(hello, dict) and "failed" in hello:
                raise error_of(hello["failed"], holder)
            if not isinstance(hello, dict) or hello.get("penstock") != PROTOCOL:
                raise PenstockError(
                    f"the store at {path} is held by {holder}, another version of penstock that takes no work from "
                    "this one; run the same version, or end that process"
                )
        except WireTimeout:
            wire.close()
            raise HolderSilent(path, holder, patience) from None
        except BaseException:
            wire.close()
            raise
        return cls(wire, path, holder, patience)

    @property
    def lost(self) -> bool:
        """Return True if the connection is closed, because the holder ended or did not answer."""
        return self._wire is None

    @property
    def ended(self) -> bool:
        """Return True if the holder has ended an idle connection, so a call would find no holder."""
        return self._wire is None or self._wire.ended

    def memory(self) -> dict[str, Any]:
        """Give the memory of the holder, by table and view."""
        return self.call(MEMORY)

    def close(self) -> None:
        """Close the connection to the holder. A second call does nothing."""
        wire, self._wire = self._wire, None
        if wire is not None:
            (wire.close if self._pid == os.getpid() else wire.drop)()

    def call(self, operation: Operation[A], progress: Callable[..., None] | None = None, /, **arguments: Any) -> A:
        """Have the holder perform an operation. Threads take turns."""
        if self._pid != os.getpid():
            raise ForkedStore(self._path, self._pid)
        request = operation.request(arguments)
        with self._turn:
            answer = self._answer(operation, request, progress)
        if "failed" in answer:
            raise error_of(answer["failed"], self.holder)
        done = operation.answer.decode(answer["done"])
        if isinstance(done, Counts):
            self._done += done
        return done

    def _answer(
        self, operation: Operation[Any], request: dict[str, Any], progress: Callable[..., None] | None
    ) -> dict[str, Any]:
        if self._wire is None:
            raise Closed(f"the writer of the store at {self._path}")
        try:
            self._wire.send(request)
            while True:
                answer: dict[str, Any] = self._wire.receive(self._patience)
                if "done" in answer or "failed" in answer:
                    return answer
                if "at" in answer and progress is not None:
                    progress(*answer["at"])
        except WireTimeout:
            self.close()
            raise HolderSilent(
                self._path, self.holder, self._patience, self._known(operation.effect_of(request))
            ) from None
        except WireClosed:
            self.close()
            raise HolderLost(self._path, self.holder, self._known(operation.effect_of(request))) from None
        except BaseException:
            self.close()  # a late answer would be taken for that of the next request
            raise

    def _known(self, effect: Effect) -> str:
        """Describe the work that is known to be committed, for an error without an answer."""
        if effect is Effect.READS:
            return "it was only to read, so that nothing was changed"
        if effect is Effect.CHANGES:
            return "what it was to do may be done, or a part of it"
        n = self._done.records
        if not n:
            return "what it was given may be in or not"
        return f"{n:,} record{' is' if n == 1 else 's are'} in, and what it was given last may be too"
