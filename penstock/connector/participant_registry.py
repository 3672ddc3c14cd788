"""The workers of a sink: which of them have a session, and the durable state of each.

Invariants:

- a worker has at most one session, and only its session touches its state;
- a worker with a session is never retired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.connector.participant import Approve, Deny
from penstock.connector.participant_state import ParticipantState

__all__ = ["ParticipantRegistry"]


class ParticipantRegistry:
    """The workers of one sink."""

    def __init__(self, open_state: Callable[[str], ParticipantState], retire: Callable[[str], None]) -> None:
        self._open_state = open_state
        self._retire = retire
        self._active: set[str] = set()

    def answer(self, worker: str) -> Approve | Deny:
        """Return the answer to a worker that asks for approval. A worker with a session is refused."""
        if worker in self._active:
            return Deny(f"Hello message from worker {worker}: already active")
        state = self._open_state(worker)
        self._active.add(worker)
        return Approve(state)

    def release(self, worker: str) -> None:
        """End the session of a worker."""
        self._active.discard(worker)

    def left(self, workers: Iterable[str]) -> tuple[str, ...]:
        """Retire the state of workers that left, and return their names. Names with a session stay."""
        gone = tuple(worker for worker in dict.fromkeys(workers) if worker not in self._active)
        for worker in gone:
            self._retire(worker)
        return gone
