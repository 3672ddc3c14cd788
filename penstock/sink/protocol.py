"""The protocol of sinks: a sink gets the changes of one view in order, and the positions at which they are complete.

`begin` is called once, then changes follow. Every sink keeps this contract:

- a consumer that keeps the latest value per group sees every commit once and in order. Even if the writer is
  killed, no value goes back. After a kill, all changes since the position of `begin` are given again, with equal
  content;
- `holds(P)` is called after the last change of P and before the first later one. `begin` returns such a P, which the
  sink has stored together with all changes before it;
- `begin` returns None if the sink holds nothing. Then it gets every row as a change from ABSENT, and the first call of
  `holds` gives the position of these rows;
- with several partitions a position is a tuple of numbers. The positions of a run form a chain from the position of
  `begin` on: each number only grows. A former run that was killed may have continued from there by another chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.views import Change, Position

Claiming = Callable[[str], str | None]
"""Claims the right to write a sink, by its name, among all writers of one store. Returns the present owner, or None."""


def nobody(what: str) -> str | None:
    """Grant every claim, for a writer that is alone."""
    return None


class Sink(Protocol):
    """A receiver of the changes of one view. `contract` states in words what it promises."""

    contract: str

    def begin(self) -> Position | None:
        """Return the position up to which the sink has all changes. Return None if it has none, or can't know.

        Raise SinkBusy while another process of the same store writes it.
        """
        ...

    def write(self, changes: Sequence[Change]) -> None:
        """Write changes after all earlier ones."""
        ...

    def holds(self, position: Position) -> None:
        """Accept that all changes up to this position were given. There may have been no changes for a long time."""
        ...

    def close(self) -> None:
        """Close the sink. The held position stays."""
        ...
