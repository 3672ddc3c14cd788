"""The API of a sink: a program of four methods that receives the data of workers, exactly once.

Sessions run in threads of the server. Their durable steps wait for the thread of `serve`, which alone calls the four
methods. Invariants:

- an error of a method ends its session only. The worker connects again, and its state tells where it continues;
- after `close` no session waits for a step, and no method is called.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from penstock.connector.errors import ConnectorFault, HostClosed
from penstock.connector.participant_registry import ParticipantRegistry
from penstock.connector.participant_state import LoggedState
from penstock.connector.sockets.participant_server import ParticipantServer
from penstock.connector.sockets.socket_address import address_of
from penstock.connector.sockets.state_folder import StateFolder

__all__ = ["ConnectorSink"]

_LOOK = 0.5  # seconds between looks for an interrupt
_LOG = logging.getLogger("penstock")


class Call:
    """A call of a method that a session waits for."""

    def __init__(self, method: Callable[..., Any], values: tuple[Any, ...]) -> None:
        self._method = method
        self._values = values
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the method in this thread. Its error is raised in the session's thread."""
        try:
            self._result = self._method(*self._values)
        except Exception as error:
            self._error = error
        except BaseException:  # an interrupt in the middle of a method: the session must not count it as done
            self._error = HostClosed()
            raise
        finally:
            self._done.set()

    def cancel(self) -> None:
        """Let the session end without the call."""
        self._error = HostClosed()
        self._done.set()

    def result(self) -> Any:
        """Wait for the call, and return its result or raise its error."""
        self._done.wait()
        if isinstance(self._error, HostClosed):
            raise self._error
        if self._error is not None:
            name = getattr(self._method, "__name__", "method")
            remedy = "the worker repeats it in its next session"
            raise ConnectorFault(f"{name} of the sink", str(self._error), remedy) from self._error
        return self._result


class CallQueue:
    """Calls on their way from threads of sessions to the one thread that runs them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: deque[Call] = deque()
        self._closed = False

    def call(self, method: Callable[..., Any], *values: Any) -> Any:
        """Run a method in the other thread, and return its result; `HostClosed` after the end."""
        call = Call(method, values)
        with self._changed:
            if self._closed:
                raise HostClosed
            self._calls.append(call)
            self._changed.notify()
        return call.result()

    def next(self, wait: float) -> Call | None:
        """Return the next call, after at most so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls or self._closed, wait)
            return self._calls.popleft() if self._calls and not self._closed else None

    def close(self) -> None:
        """Cancel all calls, and refuse others."""
        with self._changed:
            self._closed = True
            for call in self._calls:
                call.cancel()
            self._calls.clear()
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """`close` was called."""
        return self._closed


class ConnectorSink:
    """A sink for workers of the connector protocol.

    Derive a class, write its four methods, and call `serve`. `folder` keeps the transaction logs. After a kill,
    `commit` may come a second time with the same end. `rollback` also comes whenever a worker connects.

    >>> class Printer(ConnectorSink):
    ...     def write(self, worker, offset, body):
    ...         print(worker, offset, body)
    >>> with Printer("0", "cookie", folder="printer") as sink:
    ...     sink.address[0]
    '127.0.0.1'
    """

    def __init__(self, address: str, cookie: str, *, folder: str = "connector-sink") -> None:
        host, port = address_of(address)
        self._folder = StateFolder(folder)
        self._calls = CallQueue()
        registry = ParticipantRegistry(self._state, self._folder.retire)
        try:
            self._server = ParticipantServer(host, port, cookie, registry, self._failed)
        except OSError as error:
            self._folder.close()
            raise ConnectorFault(
                address, f"can't listen there: {error.strerror or error}", "choose another port, or end its user"
            ) from None
        self._started = self._closed = False

    def write(self, worker: str, offset: int, body: bytes) -> None:
        """Take bytes of a worker at an offset. They need not be durable yet."""

    def prepare(self, worker: str, txn: str) -> bool:
        """Make all bytes of a worker durable, and return whether they can be committed."""
        return True

    def commit(self, worker: str, txn: str, end: int) -> None:
        """Publish all bytes of a worker before `end`, durably."""

    def rollback(self, worker: str, end: int) -> None:
        """Discard all bytes of a worker from `end` on."""

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port where the sink listens."""
        return self._server.address

    def serve(self) -> None:
        """Receive data until `stop` is called. An interrupt ends it too, and leaves the state intact."""
        if self._closed:
            raise ConnectorFault("the sink", "it is closed", "make another one")
        self._started = True
        self._server.start()
        try:
            while not self._calls.closed:
                call = self._calls.next(_LOOK)
                if call is not None:
                    call.run()
        finally:
            self.close()

    def stop(self) -> None:
        """End `serve` soon. Another thread may call it."""
        self._calls.close()

    def close(self) -> None:
        """Close all connections and files. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._calls.close()
        self._server.close()
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _state(self, worker: str) -> LoggedState:
        log = self._folder.log(worker)
        return LoggedState(worker, log, SinkProgram(self, self._calls), log.records, time.time)

    def _failed(self, error: BaseException) -> None:
        _LOG.error("a session ended, and its state is intact: %s", error, exc_info=error)


class SinkProgram:
    """The four methods of a sink as the program of its states."""

    def __init__(self, sink: ConnectorSink, calls: CallQueue) -> None:
        self._sink = sink
        self._call = calls.call

    def write(self, worker: str, offset: int, body: bytes) -> None:
        self._call(self._sink.write, worker, offset, body)

    def prepare(self, worker: str, transaction: str, end: int) -> bool:
        return bool(self._call(self._sink.prepare, worker, transaction))

    def commit(self, worker: str, transaction: str, end: int) -> None:
        self._call(self._sink.commit, worker, transaction, end)

    def rollback(self, worker: str, end: int) -> None:
        self._call(self._sink.rollback, worker, end)
