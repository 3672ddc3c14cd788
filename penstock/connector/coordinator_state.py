"""The durable state of a coordinator: its open transaction and its last decision.

Rows of a store can implement `CoordinatorState`, so that a decision commits with the checkpoint that it belongs to.
Invariants:

- a transaction is durable before its phase 1, and a decision before its phase 2;
- a transaction without a decision to commit is aborted.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["CoordinatorState", "MemoryCoordinatorState", "OpenTransaction"]


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction without a decision. Its bytes end before `end`."""

    transaction: str
    end: int


class CoordinatorState(Protocol):
    """The state of one worker towards one sink."""

    @property
    def committed(self) -> int:
        """The end of the last transaction with a decision to commit."""
        ...

    @property
    def open(self) -> OpenTransaction | None:
        """The transaction without a decision."""
        ...

    def prepare(self, transaction: OpenTransaction) -> None:
        """Store a transaction."""

    def decide(self, commit: bool) -> None:
        """Store the decision about the open transaction."""

    def is_committed(self, transaction: str) -> bool:
        """Return whether the last decision to commit was about this transaction."""
        ...


class MemoryCoordinatorState:
    """The state in memory. It ends with the process, so its data must come again from the start."""

    def __init__(self) -> None:
        self.committed = 0
        self.open: OpenTransaction | None = None
        self._last: str | None = None

    def prepare(self, transaction: OpenTransaction) -> None:
        self.open = transaction

    def decide(self, commit: bool) -> None:
        assert self.open is not None, "a decision needs an open transaction"
        if commit:
            self.committed, self._last = self.open.end, self.open.transaction
        self.open = None

    def is_committed(self, transaction: str) -> bool:
        return self._last == transaction
