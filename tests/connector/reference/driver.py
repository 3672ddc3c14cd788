"""A driver that plays the worker against any listening sink, over real sockets on loopback.

After each frame the driver sends a fence: a `list` with a request tag of its own. The sink answers in order, so the
frames before the fence's answer are the replies to the step. The fence also shows the open transactions. After a cut
the driver waits until the sink has ended the connection too. So no step waits for silence.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from tests.connector.reference.frames import COOKIE, VERSION, Frame, encoded, split
from tests.connector.reference.judgement import Outcome, Step
from tests.waiting import PATIENCE

FENCE = 1 << 40  # the first request tag of fences; histories use smaller ones


class Sink(Protocol):
    """A sink that the driver can reach, end and inspect."""

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and port where the sink listens."""
        ...

    def restart(self) -> None:
        """End the sink without notice and start it again. Also start a sink that has ended by itself."""
        ...

    def wait(self) -> int:
        """Wait for the end of the process and return its status."""
        ...

    def committed(self, worker: str) -> bytes:
        """Return the committed bytes of a worker."""
        ...


@dataclass
class Answer:
    """The answer to one step. `open` is None if the sink did not answer the fence."""

    received: bytes = b""
    open: list[str] | None = None
    closed: bool = False
    status: int | None = None  # of the sink's process, if it ended
    deaf: bool = False  # the connection stays open, and its fence has no answer

    @property
    def replies(self) -> list[Frame]:
        """Return the replies as the oracle has them."""
        frames, rest = split(self.received)
        return [*frames, *([("raw", rest)] if rest else []), *([("closed",)] if self.closed else [])]


class Connection:
    """One connection of a worker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def _send(self, raw: bytes, pieces: int | None) -> None:
        size = pieces or max(len(raw), 1)
        try:
            for start in range(0, len(raw), size):
                self._socket.sendall(raw[start : start + size])
        except (BrokenPipeError, ConnectionResetError):
            pass  # the sink has ended the connection; its last replies are still to be read

    def _receive(self) -> bool:
        """Wait for bytes and return false at the end of the connection."""
        try:
            received = self._socket.recv(1 << 16)
        except ConnectionResetError:
            received = b""
        self._received += received
        return received != b""

    def exchange(self, raw: bytes, tag: int, pieces: int | None = None) -> Answer:
        """Send bytes and a fence, in pieces of this size, and read up to the fence's answer."""
        self._send(raw + encoded(("list", tag)), pieces)
        while True:
            frames, rest = split(self._received)
            fences = [at for at, frame in enumerate(frames) if frame[:2] == ("uncommitted", tag)]
            if fences:
                before = b"".join(map(encoded, frames[: fences[0]]))
                self._received = b"".join(map(encoded, frames[fences[0] + 1 :])) + rest
                return Answer(before, frames[fences[0]][2])
            if not self._receive():
                self._socket.close()
                return Answer(self._received, closed=True)

    def send(self, raw: bytes) -> None:
        """Send bytes without a fence."""
        self._send(raw, None)

    def arrived(self) -> bytes:
        """Return the bytes that have arrived, without waiting."""
        self._socket.setblocking(False)
        try:
            while self._receive():
                pass
        except BlockingIOError:
            pass
        self._socket.settimeout(PATIENCE)
        return self._received

    def cut(self, prefix: bytes) -> Answer:
        """Send bytes, end the connection, and wait until the sink has ended it too."""
        self._send(prefix, None)
        self._socket.shutdown(socket.SHUT_WR)
        while self._receive():
            pass
        self._socket.close()
        return Answer(self._received)

    def close(self) -> None:
        self._socket.close()


class Driver:
    """Plays histories against one sink. Each connection number of a history becomes a connection."""

    def __init__(self, sink: Sink, pieces: int | None = None) -> None:
        self.sink = sink
        self._pieces = pieces
        self._open: dict[int, Connection] = {}
        self._ended: set[int] = set()
        self._tags = count(FENCE)

    def step(self, connection: int, frame: Frame, deaf: bool = False) -> Answer:
        """Play one step. A `deaf` one gets no answer on its connection; a probe replaces the fence."""
        if frame[0] == "kill":
            self.sink.restart()
            self.close()
            return Answer()
        if connection in self._ended:
            return Answer()
        if connection not in self._open:
            self._open[connection] = Connection(self.sink.address)
        link = self._open[connection]
        if frame[0] == "cut":
            self._end(connection)
            return link.cut(frame[1])
        if deaf:
            link.send(encoded(frame) + encoded(("list", next(self._tags))))
            assert self._probe()
            assert self._probe()
            return Answer(link.arrived(), deaf=True)
        answer = link.exchange(encoded(frame), next(self._tags), self._pieces)
        if answer.closed:
            self._end(connection)
            if not self._probe():
                self.close()
                answer.status = self.sink.wait()
        return answer

    def open(self, worker: str) -> list[str] | None:
        """Return the open transactions of a worker by a connection of its own, or None if the sink has ended."""
        try:
            link = Connection(self.sink.address)
        except ConnectionRefusedError:
            return None
        found = link.exchange(encoded(("hello", VERSION, COOKIE, "app", worker)), next(self._tags))
        if not found.closed:
            link.cut(b"")
        return found.open

    def end(self) -> None:
        """End all connections, and wait until the sink has ended them too."""
        for connection in list(self._open):
            self._open[connection].cut(b"")
            self._end(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            self._open[connection].close()
            self._end(connection)

    def _end(self, connection: int) -> None:
        self._ended.add(connection)
        del self._open[connection]

    def _probe(self) -> bool:
        """Return true if the sink still answers."""
        return self.open("probe") is not None


def fenced(history: list[Step]) -> list[Step]:
    """Return a history with the driver's fences as steps. A fence is a list, so it can change the outcome."""
    steps: list[Step] = []
    for connection, frame in history:
        steps.append((connection, frame))
        if frame[0] not in ("cut", "kill"):
            steps.append((connection, ("list", FENCE + len(steps))))
    return steps


def played(history: list[Step], sink: Sink, pieces: int | None = None) -> Outcome:
    """Play a history without fences against a sink, and return the outcome of `fenced(history)`."""
    driver = Driver(sink, pieces)
    replies: list[list[Frame]] = []
    for connection, frame in history:
        answer = driver.step(connection, frame)
        replies.append(answer.replies)
        if frame[0] not in ("cut", "kill"):
            replies.append([("uncommitted", FENCE + len(replies), answer.open)] if answer.open is not None else [])
    driver.end()
    workers = sorted({frame[4] for _, frame in history if frame[0] == "hello"})
    return Outcome(
        replies,
        {worker: sink.committed(worker) for worker in workers},
        {worker: driver.open(worker) or [] for worker in workers},
    )
