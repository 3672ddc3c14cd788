"""The seam of sinks: the changes of one view in order, and up to which position these are all.

A sink is asked once where it stands, then given changes. The contract, which every sink keeps:

- a reader who keeps for each group what came last sees every commit once, in order, and never goes back, however often
  the one who writes was killed: what is given a second time comes whole, from `begin` on, and says the same;
- `holds(P)` is said behind the last change of P and before the first one after it. What a sink answers to `begin` is
  a P that it was told and has kept, together with all that came before it;
- None is the answer of a sink that holds nothing: it is then given every row that there is, as a change from ABSENT,
  and what `holds` says first is the position of these;
- of a store of several partitions a position is a tuple of numbers. The positions of a run are a chain, each number of
  which only grows, from what `begin` said on; the one before may have been killed on another way from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.views import Change, Position

Claiming = Callable[[str], str | None]
"""Takes the right to write what is called so, among all that write for one store; who has it instead, in words."""


def nobody(what: str) -> str | None:
    """The claim of who is alone: nobody else has it."""
    return None


class Sink(Protocol):
    """Something that takes the changes of one view: four methods, and what it promises, in words."""

    contract: str

    def begin(self) -> Position | None:
        """The position up to which it has all; None if it has nothing, or can't know.

        SinkBusy while another process of the same store writes it.
        """
        ...

    def write(self, changes: Sequence[Change]) -> None:
        """Some changes, behind all that were given before."""
        ...

    def holds(self, position: Position) -> None:
        """All changes up to this position were given; there may have been none for long."""
        ...

    def close(self) -> None:
        """Let go of it; what it was told to hold stays."""
        ...
