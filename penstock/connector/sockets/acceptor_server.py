"""Serve source connectors on a TCP port: messages are saved, and only then acknowledged.

Invariants:

- a checkpoint has all messages that one read brought. ACK follows after `save` has returned for each of its streams;
- a connector whose stream was refused gets an ACK a second later. Other implementations ask again only after one;
- a stream is released after its connection's last save, so the next session finds its committed point;
- a server that closes asks its connectors by RESTART to connect again later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.connector.events import DataReceived, SessionFailed
from penstock.connector.session import SessionState
from penstock.connector.sockets.session_server import SessionServer
from penstock.connector.source_acceptor import BeginCheckpoint, CompleteCheckpoint, RestartPeer, SourceAcceptor
from penstock.connector.stream_registry import StreamRegistry

__all__ = ["AcceptorServer"]

Save = Callable[[int, Sequence[DataReceived]], None]
"""Makes messages of one stream durable."""
_RETRY = 1.0  # seconds from a refused stream to the next ACK
_log = logging.getLogger("penstock")


class AcceptorServer(SessionServer):
    """A listening worker. `save` returns once messages are durable; `failed` gets its errors."""

    def __init__(
        self,
        host: str,
        port: int,
        cookie: str,
        registry: StreamRegistry,
        save: Save,
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(host, port, lambda: ConnectorConversation(cookie, registry, save), failed)


class ConnectorConversation:
    """One connection of a source connector."""

    def __init__(self, cookie: str, registry: StreamRegistry, save: Save) -> None:
        self._acceptor = SourceAcceptor(cookie, registry)
        self.session = self._acceptor.session
        self._save = save

    @property
    def peer(self) -> str:
        return f"connector {self._acceptor.name or 'without HELLO'}"

    @property
    def pause(self) -> float | None:
        """Seconds until the ACK that lets the peer ask again for a refused stream."""
        return _RETRY if self._acceptor.has_refused else None

    def wake(self) -> None:
        """Send an ACK, which has the credits of the refused NOTIFY."""
        self.session.do(BeginCheckpoint())
        self.session.do(CompleteCheckpoint())

    def answer(self) -> None:
        """Save the messages that arrived, then acknowledge them."""
        streams: dict[int, list[DataReceived]] = {}
        for event in self.session.events():
            if isinstance(event, DataReceived):
                streams.setdefault(event.stream, []).append(event)
            elif isinstance(event, SessionFailed):
                by = "by its peer" if event.by_peer else "here"
                _log.warning("a session of %s was ended %s: %s", self.peer, by, event.text)
        if self.session.state is SessionState.STREAMING and self._acceptor.is_due:
            self.session.do(BeginCheckpoint())
            for stream, messages in streams.items():
                self._save(stream, messages)
            self.session.do(CompleteCheckpoint())

    def leave(self) -> None:
        """Ask the connector to connect again."""
        if self.session.state is SessionState.STREAMING:
            self.session.do(RestartPeer())

    def release(self) -> None:
        """Free the streams."""
        self._acceptor.release()
