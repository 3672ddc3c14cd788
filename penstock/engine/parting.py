"""One partition among the others of its store: what its transactions owe them, and what it takes of theirs.

The core of a partition gathers what its views are told, folds it in the order in which they stand on each other, and
saves what groups of other partitions are owed, all in the transaction of the batch. Invariant: what has arrived is
deleted by a transaction that is there anyway, or by one of its own once nothing else comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from penstock.cache import PenstockError, Reader, Writer
from penstock.engine.catalog import State
from penstock.mapreduce import Crossing, Fed, Gathered, Part, Ranges, ViewNode, Writes
from penstock.recovery import Production, Sent, Taken, deleted, oldest_owed, parts_of, saved, taken

if TYPE_CHECKING:
    from penstock.engine.core import Core

_DELTA = 2  # where a part of a production has its sums


@dataclass(slots=True)
class Fresh:
    """What one transaction takes of another partition: its parts, and the number up to which it is then taken."""

    number: int
    parts: list[Part]


class Parting:
    """A core's view of the other partitions."""

    def __init__(self, here: int, ranges: Ranges) -> None:
        self.here = here
        self.ranges = ranges
        self.crossing = Crossing(here, ranges)
        self.batch = 0  # the number of the batch that is being taken
        self.refused: dict[int, str] = {}  # by partition why what it sent last can't be taken
        self.noted: list[Fed] | None = None  # what is changed by what is taken, while somebody wants to know
        self.arrived: Sent = {}  # by partition the number up to which it has what it was owed
        self._cleared: Sent = {}  # and up to which that is deleted
        self._order: list[ViewNode] = []
        self.wake: Callable[[], None] = lambda: None  # told after each commit that others are owed something by

    @property
    def others(self) -> list[int]:
        """The other partitions."""
        return [other for other in range(len(self.ranges)) if other != self.here]

    def recall(self, reader: Reader, views: Sequence[ViewNode], state: State) -> None:
        """Begin with what the store says."""
        oldest = oldest_owed(reader, self.others)
        self._cleared = {other: oldest.get(other, number) for other, number in state.sent.items()}
        self.arrived = dict(self._cleared)
        self._order = []
        roots = [view for view in views if not view.chained]
        for view in views:
            view.crossing = self.crossing
        while roots:
            self._order += roots
            roots = [child for view in roots for child in view.children]

    def fold(self, reader: Reader, writes: Writes) -> None:
        """Fold what was gathered for views, those first that others stand on."""
        for view in self._order:
            view.fold_gathered(reader, writes)

    def save(self, writer: Writer, writes: Writes, state: State) -> State:
        """Save what others are owed, and which batch it is, and delete what has arrived; what the state then says."""
        self.delete(writer, writes)
        state = msgspec.structs.replace(state, batch=max(state.batch, self.batch))
        if not writes.leaving:
            return state
        writes.after.append(self._wake)
        return msgspec.structs.replace(state, sent=saved(writer, writes.leaving, state.sent))

    def delete(self, writer: Writer, writes: Writes) -> None:
        """Delete what has arrived."""
        arrived = dict(self.arrived)
        if arrived != self._cleared:
            deleted(writer, arrived, self._cleared)
            writes.after.append(lambda: self._cleared.update(arrived))

    def _wake(self) -> None:
        self.wake()

    @property
    def cluttered(self) -> bool:
        """Whether something that has arrived is still to be deleted."""
        return self.arrived != self._cleared

    def fresh(self, state: State, production: Production) -> list[Fresh]:
        """What of a production is to be taken, as transactions.

        Sums of several productions add up; contributions of one source must come one after the other.
        """
        out: list[Fresh] = []
        alone = True
        for owed in taken(Taken(*state.taken.get(production.sender, (0, 0))), production):
            parts = parts_of(owed)
            sums = all(part[_DELTA] is not None for part in parts)
            if out and sums and not alone:
                out[-1].number = owed.number
                out[-1].parts += parts
            else:
                out.append(Fresh(owed.number, parts))
            alone = not sums
        return out

    def gather(self, views: Iterable[ViewNode], highest: int, parts: Sequence[Part], writes: Writes) -> None:
        """Gather what productions have for views; what is for a generation that gave way is owed to nobody any more.

        `highest` is the highest number that was given.
        """
        numbered = {view.number: view for view in views}
        for part in parts:
            view = numbered.get(part[0])
            if view is None and part[0] <= highest:
                continue
            if view is None:
                raise PenstockError(
                    f"another partition sent something for view number {part[0]}, which partition {self.here} does not "
                    "have; close all of them, and open the store anew"
                )
            self.crossing.gather(view, part, writes.gathered.setdefault(view.name, Gathered()))


def receive(core: Core, production: Production) -> int:
    """Take what another partition sent; the number up to which all of it is durable here."""
    parting = core.parting
    assert parting is not None, "only partitions are sent something"
    for fresh in parting.fresh(core.state, production):
        _take(core, parting, production, fresh)
    return Taken(*core.state.taken.get(production.sender, (0, 0))).number


def _take(core: Core, parting: Parting, production: Production, fresh: Fresh) -> None:
    def change(writer: Writer, writes: Writes) -> None:
        parting.gather(core.views.values(), core.catalog.highest(), fresh.parts, writes)
        if (noted := parting.noted) is not None:
            writes.feeding = True
            writes.after.append(lambda: noted.extend(writes.fed))

    core.amend(change, {production.sender: (production.epoch, fresh.number)})


def clear(core: Core) -> None:
    """Delete what has arrived, in a transaction of its own."""
    parting = core.parting
    if parting is None or not parting.cluttered:
        return
    writes = Writes()
    with core.store.write() as writer:
        parting.delete(writer, writes)
    writes.committed()
