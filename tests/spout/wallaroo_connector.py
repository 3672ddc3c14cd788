"""A source connector that sends numbered documents to a listening spout, and judges each of its answers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeVar

from penstock.connector import (
    SOURCE_VERSION,
    EndStream,
    Hello,
    OpenStream,
    RestartRequested,
    SendMessage,
    SessionFailed,
    SourceConnector,
    StartSession,
    StreamAcked,
    StreamClosed,
    StreamOpened,
    StreamRefused,
    stream_id_of,
)
from tests.spout.wallaroo_worker import COOKIE
from tests.waiting import PATIENCE

T = TypeVar("T")
NAME = b"numbers"
STREAM = stream_id_of(NAME)


class Connector:
    """One stream. Its messages survive, and those after the worker's point are sent again."""

    def __init__(self, stream: int = STREAM, name: bytes = NAME) -> None:
        self.sent: list[tuple[int, bytes]] = []  # every message, in order
        self.acked: int | None = None
        self._stream, self._name = stream, name
        self._role: SourceConnector | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    @property
    def role(self) -> SourceConnector:
        assert self._role is not None, "connect first"
        return self._role

    def connect(self, address: tuple[str, int]) -> None:
        """Connect, open the stream, and send again all messages after the worker's point."""
        self.cut()
        self._socket = socket.create_connection(address, timeout=PATIENCE)
        self._role = SourceConnector(Hello(SOURCE_VERSION, COOKIE, "app", "c1"))
        self._role.session.do(StartSession())
        self.until(lambda: self.role.credits > 0)
        self.open()

    def open(self) -> None:
        """Open the stream, and send again all messages after the worker's point."""
        self.role.session.do(OpenStream(self._stream, self._name, self.acked))
        opened = self._wait(StreamOpened)
        known = -1 if opened.point is None else opened.point
        assert known >= (-1 if self.acked is None else self.acked), "an acknowledged message is durable"
        self.acked = opened.point
        self._give([message for message in self.sent if message[0] > known])

    def send(self, *messages: tuple[int, bytes]) -> None:
        """Send messages."""
        self.sent += messages
        self._give(list(messages))

    def settle(self) -> None:
        """Return after everything that was sent is acknowledged."""
        self.until(lambda: not self.sent or self.acked == self.sent[-1][0])

    def listen(self) -> None:
        """Receive until the connection ends, which is a ConnectionError."""
        self.until(lambda: False)

    def until(self, done: Callable[[], bool]) -> None:
        """Receive until a condition holds."""
        while not done():
            self._turn()

    def patience(self, seconds: float) -> None:
        """Set the seconds after which silence is an error."""
        assert self._socket is not None, "connect first"
        self._socket.settimeout(seconds)

    def end(self) -> None:
        """End the stream after everything is acknowledged."""
        self.settle()
        self.role.session.do(EndStream(self._stream))
        if self.sent:
            self._wait(StreamClosed)
        self.cut()

    def cut(self) -> None:
        """End the connection, and wait until the spout has ended its side: then it accepts the stream again."""
        if self._socket is not None:
            with self._socket, suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
                while self._socket.recv(1 << 16):
                    pass
            self._socket = None

    def _give(self, messages: list[tuple[int, bytes]]) -> None:
        for number, body in messages:
            self.until(lambda: self.role.credits > 0)
            self.role.session.do(SendMessage(self._stream, number, body))
        self._flush()

    def _flush(self) -> None:
        assert self._socket is not None, "connect first"
        self._socket.sendall(self.role.session.outgoing())

    def _turn(self) -> list[object]:
        """Take the next bytes of the spout; ConnectionError if the session ends."""
        self._flush()
        assert self._socket is not None, "connect first"
        data = self._socket.recv(1 << 16)
        self.role.session.receive(data)
        events: list[object] = list(self.role.session.events())
        for event in events:
            if isinstance(event, StreamAcked):
                assert self.acked is None or event.point > self.acked, "acknowledgements grow"
                self.acked = event.point
            elif isinstance(event, SessionFailed | StreamRefused):
                raise ConnectionError(str(event))
            elif isinstance(event, RestartRequested):
                raise ConnectionError("the spout asks for a restart")
        if not data or self.role.session.over:
            raise ConnectionError("the connection ended")
        return events

    def _wait(self, kind: type[T]) -> T:
        while True:
            for event in self._turn():
                if isinstance(event, kind):
                    return event
