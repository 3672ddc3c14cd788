"""A worker that accepts sources, in a thread of the test. It loses connections as told."""

from __future__ import annotations

import socket
from threading import Thread

from penstock.connector import (
    BeginCheckpoint,
    CompleteCheckpoint,
    DataReceived,
    RestartPeer,
    SessionState,
    SourceAcceptor,
    StreamRegistry,
)
from tests.waiting import PATIENCE

COOKIE = "C"


class ListeningWorker:
    """Takes a checkpoint after every `each` messages and whenever its peer is silent.

    A connection ends after `life` messages, without notice or by RESTART.
    """

    def __init__(self, life: int = 0, each: int = 3, credits: int = 5, restart: bool = False, port: int = 0) -> None:
        self.points: dict[int, int] = {}
        self.kept: list[tuple[int, int, bytes]] = []
        self.connections = 0
        self.least = credits
        """The fewest credits that any session had left."""
        self.refusals = 0
        """Streams to refuse, as if other connections had them."""
        self._life, self._each, self._credits, self._restart = life, each, credits, restart
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = Thread(target=self._serve)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def stop(self) -> None:
        """End the worker. It still serves a connection that is open."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def restore(self, stream: int, point: int | None) -> None:
        """Forget all messages of a stream after a point, as an older state does."""
        self.kept = [message for message in self.kept if message[0] != stream or message[1] <= (point or 0)]
        self.points.pop(stream)
        if point is not None:
            self.points[stream] = point

    def _registry(self) -> StreamRegistry:
        registry = StreamRegistry(self.points.get)
        claim = registry.claim

        def refused(stream: int) -> bool:
            self.refusals -= 1
            return self.refusals < 0 and claim(stream)

        registry.claim = refused  # type: ignore[method-assign]
        return registry

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with peer:
                peer.settimeout(PATIENCE)
                self._session(peer)

    def _session(self, peer: socket.socket) -> None:
        role = SourceAcceptor(COOKIE, self._registry(), credits=self._credits, refill=1)
        fresh: list[DataReceived] = []
        received = 0
        while not role.session.over:
            try:
                data = peer.recv(1 << 16)
            except ConnectionResetError:
                return
            if not data:
                return
            role.session.receive(data)
            self.least = min(self.least, role.credits)
            new = [event for event in role.session.events() if isinstance(event, DataReceived)]
            fresh += new
            received += len(new)
            if self._life and received >= self._life:
                if self._restart:
                    role.session.do(RestartPeer())
                    peer.sendall(role.session.outgoing())
                return
            ending = any(stream.ended for stream in role._streams.values())
            if role.session.state is SessionState.STREAMING and (len(fresh) >= self._each or ending):
                role.session.do(BeginCheckpoint())
                self.kept += [(event.stream, event.message, event.body) for event in fresh]
                self.points.update({event.stream: event.message for event in fresh})
                fresh.clear()
                role.session.do(CompleteCheckpoint())
            peer.sendall(role.session.outgoing())
