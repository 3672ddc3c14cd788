"""Serve the participants of a sink on a TCP port.

Invariant: a worker is released after its connection's last action on its state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.connector.events import HelloReceived, SessionFailed, WorkersGone
from penstock.connector.participant import Participant
from penstock.connector.participant_registry import ParticipantRegistry
from penstock.connector.session import SessionSettings
from penstock.connector.sockets.session_server import SessionServer

__all__ = ["ParticipantServer"]

_log = logging.getLogger("penstock")


class ParticipantServer(SessionServer):
    """A listening sink. `start` begins to accept connections; `failed` gets errors of the host's state."""

    def __init__(
        self,
        host: str,
        port: int,
        cookie: str,
        registry: ParticipantRegistry,
        failed: Callable[[BaseException], None],
        settings: SessionSettings | None = None,
    ) -> None:
        lock = threading.Lock()  # for the registry
        super().__init__(host, port, lambda: WorkerConversation(cookie, settings, registry, lock), failed)


class WorkerConversation:
    """One connection of a worker."""

    def __init__(
        self, cookie: str, settings: SessionSettings | None, registry: ParticipantRegistry, lock: threading.Lock
    ) -> None:
        self._participant = Participant(cookie, settings)
        self.session = self._participant.session
        self._registry = registry
        self._lock = lock

    @property
    def peer(self) -> str:
        return f"worker {self._participant.worker or 'without HELLO'}"

    @property
    def pause(self) -> None:
        """A participant only answers."""
        return None

    def answer(self) -> None:
        """Handle the events of a session, which may lead to further events."""
        while events := self.session.events():
            for event in events:
                if isinstance(event, HelloReceived):
                    with self._lock:
                        answer = self._registry.answer(event.worker)
                    self.session.do(answer)
                elif isinstance(event, WorkersGone):
                    with self._lock:
                        self._registry.left(event.workers)
                elif isinstance(event, SessionFailed):
                    by = "by the worker" if event.by_peer else "here"
                    # A worker that reconnects is denied until its former session has ended, which is no fault.
                    denied = self._participant.worker is not None and not self._participant.is_approved
                    level = logging.INFO if denied else logging.WARNING
                    _log.log(level, "a session of %s was ended %s: %s", self.peer, by, event.text)

    def wake(self) -> None:
        """Do nothing: there is no pause."""

    def leave(self) -> None:
        """Close without a word: the protocol has none for this side."""

    def release(self) -> None:
        """Free the worker."""
        if self._participant.is_approved and self._participant.worker is not None:
            with self._lock:
                self._registry.release(self._participant.worker)
