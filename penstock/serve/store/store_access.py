"""Access to the store for one front: snapshots in its own process, and writes by the holder.

Invariants:

- a write returns after its commit;
- a snapshot that is opened after a write's reply shows the write;
- an error of a connection closes that connection, so no later call takes its answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from penstock.cache import Closed, PenstockError, StoreInUse
from penstock.engine import Engine, HolderLost, HolderSilent
from penstock.remote import Operation, RemoteWriter, WireClosed

__all__ = ["UNAVAILABLE", "HolderAbsent", "HolderAccess", "LocalAccess", "StoreAccess"]

A = TypeVar("A")
_PATIENCE = 10.0  # seconds of silence after which a holder counts as hanging
_LOOK = 2.0  # the same, when only its readiness is asked


class HolderAbsent(PenstockError):
    """No process holds the store for writing.

    >>> print(HolderAbsent("state"))
    no process holds the store at state for writing at present; repeat the call in a moment
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"no process holds the store at {self.path} for writing at present; repeat the call in a moment"


class StoreAccess(Protocol):
    """Snapshots by `reader`, and operations of the holder by `call`. A call blocks, so it belongs in a thread."""

    @property
    def reader(self) -> Engine:
        """The engine that makes snapshots."""
        ...

    def call(self, operation: Operation[A], progress: Callable[..., None] | None = None, /, **arguments: Any) -> A:
        """Have the holder perform an operation, and return its answer. An exception of `progress` ends it."""
        ...

    def trouble(self) -> str | None:
        """Return why no write is possible at present; None if writes are possible."""
        ...

    def close(self) -> None:
        """Release the store."""
        ...


class LocalAccess:
    """The store is open for writing in this process."""

    def __init__(self, engine: Engine) -> None:
        self.reader = engine

    def call(self, operation: Operation[A], progress: Callable[..., None] | None = None, /, **arguments: Any) -> A:
        """Perform an operation here."""
        return operation.call(self.reader, arguments, progress)

    def trouble(self) -> str | None:
        """Return None: this process is the holder."""
        return None

    def close(self) -> None:
        """Close the engine."""
        self.reader.close()


class HolderAccess:
    """Another process holds the store at `path`. Each call has a connection of its own; idle ones are used again."""

    def __init__(self, reader: Engine, path: str) -> None:
        self.reader = reader
        self._path = path
        self._idle: list[RemoteWriter] = []
        self._lock = threading.Lock()
        self._closed = False

    def call(self, operation: Operation[A], progress: Callable[..., None] | None = None, /, **arguments: Any) -> A:
        """Have the holder perform an operation. HolderAbsent if there is none, so nothing was done."""
        writer = self._taken()
        try:
            return writer.call(operation, progress, **arguments)
        finally:
            self._return(writer)

    def trouble(self) -> str | None:
        """Connect to the holder, and return the error if that fails."""
        try:
            self._return(self._connected(_LOOK))
        except (PenstockError, OSError) as error:
            return str(error)
        return None

    def close(self) -> None:
        """Close idle connections and the reader."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for writer in idle:
            writer.close()
        self.reader.close()

    def _taken(self) -> RemoteWriter:
        while True:
            with self._lock:
                writer = self._idle.pop() if self._idle else None
            if writer is None:
                return self._connected(_PATIENCE)
            if not writer.ended:
                return writer
            writer.close()

    def _connected(self, patience: float) -> RemoteWriter:
        try:
            return RemoteWriter.reach(self._path, "its holder", patience)
        except WireClosed:
            raise HolderAbsent(self._path) from None

    def _return(self, writer: RemoteWriter) -> None:
        with self._lock:
            if not self._closed and not writer.lost:
                self._idle.append(writer)
                return
        writer.close()


UNAVAILABLE = (Closed, HolderAbsent, HolderLost, HolderSilent, StoreInUse)
"""The errors of a call that may succeed at the next holder."""
