"""One partition among the others of its store: what its transactions owe them, and what it takes of theirs.

The core of a partition gathers what its views are told, folds it in the order in which they stand on each other, and
saves what groups of other partitions are owed, all in the transaction of the batch. Invariant: what has arrived is
deleted by a transaction that is there anyway, or by one of its own once nothing else comes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from penstock.cache import PenstockError, Reader, Writer, pack
from penstock.core import StateRow, add_span, added, with_early_set
from penstock.mapreduce import (
    FeedChanges,
    GroupCrossing,
    KeyRanges,
    Part,
    TransactionContributions,
    ViewNode,
    Writes,
    is_sets,
    number_of,
    numbered,
)
from penstock.partitions.exchange.batch_part import is_records, take_records
from penstock.partitions.exchange.production_delay import ProductionDelay
from penstock.recovery import (
    EarlySet,
    Guard,
    Production,
    ProductionGuard,
    Sent,
    UndoRow,
    deleted,
    keep_before,
    newer,
    next_productions,
    oldest_owed,
    parts_of,
    saved,
    unconfirmed_batches,
    undo_rows,
)
from penstock.views import DeliveryMode

if TYPE_CHECKING:
    from penstock.core import Core

_DELTA = 2  # where a part of a production has its sums


@dataclass(slots=True)
class ReceivedProductions:
    """What one transaction takes of another partition: its parts, and the number up to which it is then taken."""

    number: int
    parts: list[Part]

    @property
    def batch(self) -> int | None:
        """The batch that its sets are of, or were saved after."""
        return max((number_of(part) for part in self.parts if is_sets(part)), default=None)


class PartitionExchange:
    """A core's view of the other partitions."""

    def __init__(self, here: int, ranges: KeyRanges) -> None:
        self.here = here
        self.ranges = ranges
        self.crossing = GroupCrossing(here, ranges)
        self.batch = 0  # the number of the batch that is being taken, while one is
        self.refused: dict[int, str] = {}  # by partition why what it sent last can't be taken
        self.noted: list[FeedChanges] | None = None  # what is changed by what is taken, while somebody wants to know
        self.arrived: Sent = {}  # by partition the number up to which it has what it was owed
        self._cleared: Sent = {}  # and up to which that is deleted
        self._delay = ProductionDelay()
        self._order: list[ViewNode] = []
        self.wake: Callable[[], None] = lambda: None  # told after each commit that others are owed something by
        self.turn = threading.Lock()  # of batches that are given: one is told, and saved, before the next one
        self.tell: Callable[[Mapping[int, EarlySet]], Collection[int]] = _nobody  # who has it when it returns
        self.unheard: dict[int, int] = {}  # by partition that has not heard since, the last batch that was in then
        self.heard: dict[int, int] = {}  # by partition the batch that it was told early, and not yet what became of
        self.asked: set[int] = set()  # who is to hear what became of it now, and not only once nothing else is sent
        self._told: dict[int, bytes] = {}  # by partition what it has of the batch that is being taken
        self._records: Mapping[int, Part] = {}  # by partition its records of that batch, where it is an atomic one
        self._kept: dict[int, int] = {}  # by partition the batch of which is kept what was there before; 0 of none

    @property
    def views(self) -> Sequence[ViewNode]:
        """All views that take contributions, those that a refill fills too."""
        return self._order

    @property
    def others(self) -> list[int]:
        """The other partitions."""
        return [other for other in range(len(self.ranges)) if other != self.here]

    def recall(self, reader: Reader, state: StateRow) -> None:
        """Begin with what the store says."""
        oldest = oldest_owed(reader, self.others)
        self._cleared = {other: oldest.get(other, number) for other, number in state.sent.items()}
        self.arrived = dict(self._cleared)
        self._kept = unconfirmed_batches(reader)
        self._delay.recall(reader)

    def arrange(self, views: Sequence[ViewNode]) -> None:
        """Make these the views that fold contributions, each after the view that it reads."""
        self._order = []
        roots = [view for view in views if not view.chained]
        for view in views:
            view.crossing = self.crossing
        while roots:
            self._order += roots
            roots = [child for view in roots for child in view.children]

    def begin(self, state: StateRow) -> None:
        """A writer opened the partition: others are told which batch it has, if any of them was ever told early."""
        self.unheard = {other: state.unheard.get(other, state.batch) for other in self.others} if state.early else {}

    def early(self, leaving: Mapping[int, list[Part]], state: StateRow, number: int) -> dict[int, EarlySet]:
        """What others are told of a batch before it is saved."""
        waits = {view.number for view in self._order if view.view.production is DeliveryMode.WEAK}
        out: dict[int, EarlySet] = {}
        for other, parts in leaving.items():
            sets = [numbered(part, number) for part in parts]
            slow = any(part[0] in waits for part in parts)
            out[other] = EarlySet(self.here, state.epoch, number, state.batch, sets, slow)
        return out

    @contextmanager
    def taking(
        self, number: int, early: Mapping[int, EarlySet], by: Collection[int], records: Mapping[int, Part]
    ) -> Iterator[None]:
        """The batch with this number is saved within, of which these have what they were told early.

        `records` are those that other partitions own, where they are saved with it.
        """
        self.batch, self._told = number, {other: pack(early[other].parts) for other in by}
        self._records = records
        try:
            yield
        finally:
            self.batch, self._told, self._records = 0, {}, {}  # one that failed is not in by what else is saved

    def fold(self, reader: Reader, writes: Writes) -> None:
        """Fold what was gathered for views, those first that others stand on."""
        for view in self._order:
            view.fold_gathered(reader, writes)
        for other, part in self._records.items():
            writes.leaving.setdefault(other, []).append(part)

    def save(self, writer: Writer, writes: Writes, state: StateRow) -> StateRow:
        """Save what others are owed, and which batch it is, and delete what has arrived; what the state then says."""
        self.delete(writer, writes)
        unheard = {other: b for other, b in dict(self.unheard).items() if self.batch or other in state.unheard}
        state = msgspec.structs.replace(state, batch=max(state.batch, self.batch), unheard=unheard)
        leaving = self._unsaid(writes.leaving, state.batch)
        for other, parts in self._delay.passed(writer, writes, state, self._order).items():
            leaving[other] = [*leaving.get(other, ()), *parts]
        if not leaving:
            return state
        writes.after.append(self._wake)
        records = {other: own for other, parts in leaving.items() if (own := [p for p in parts if is_records(p)])}
        told = {other: own for other, parts in leaving.items() if (own := [p for p in parts if not is_records(p)])}
        sent = saved(writer, records, state.sent)  # by themselves: no damaged group keeps them from being taken
        batches = {**state.batches, **{other: sent[other] for other in records}}
        sent = saved(writer, told, sent)
        return msgspec.structs.replace(state, sent=sent, batches=batches)

    def _unsaid(self, leaving: Mapping[int, list[Part]], batch: int) -> dict[int, list[Part]]:
        """What others are owed without the very sets that they have."""
        out: dict[int, list[Part]] = {}
        for other, parts in leaving.items():
            sets = [numbered(part, batch) for part in parts if is_sets(part)]
            rest = [part for part in parts if not is_sets(part)]
            if sets and self._told.get(other) != pack(sets):
                rest += sets
            if rest:
                out[other] = rest
        return out

    def delete(self, writer: Writer, writes: Writes) -> None:
        """Delete what has arrived."""
        arrived = dict(self.arrived)
        if arrived != self._cleared:
            deleted(writer, arrived, self._cleared)
            writes.after.append(lambda: self._cleared.update(arrived))

    def keeps_after(self, sender: int, saved: int) -> bool:
        """Whether something is kept of a batch of this partition after the last one that it has."""
        return self._kept.get(sender, 0) > saved

    def keep(self, writes: Writes, sender: int, kept: UndoRow | None) -> None:
        """Leave what was there before a batch of this partition to be kept; with None nothing is any more."""
        writes.during.append(lambda writer: keep_before(writer, sender, kept))
        batch = 0 if kept is None else kept.batch
        writes.after.append(lambda: self._kept.update({sender: batch}))

    def _wake(self) -> None:
        self.wake()

    @property
    def cluttered(self) -> bool:
        """Whether something that has arrived is still to be deleted."""
        return self.arrived != self._cleared

    def fresh(self, state: StateRow, production: Production) -> list[ReceivedProductions]:
        """Cut a production into the transactions that take it.

        Sums of several productions add up; contributions of one source must come one after the other, as must records.
        """
        out: list[ReceivedProductions] = []
        alone = True
        _, number = state.taken.get(production.sender, (0, 0))
        for owed in next_productions(ProductionGuard(guard_of(state, production.sender)[0], number), production):
            parts = parts_of(owed)
            sums = all(not is_records(part) and part[_DELTA] is not None for part in parts)
            if out and sums and not alone:
                out[-1].number = owed.number
                out[-1].parts += parts
            else:
                out.append(ReceivedProductions(owed.number, parts))
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
            self.crossing.gather(view, part, writes.gathered.setdefault(view.number, TransactionContributions()))


def _nobody(early: Mapping[int, EarlySet]) -> Collection[int]:
    """Nobody carries what is told early."""
    return ()


def parting_of(core: Core) -> PartitionExchange:
    """Return the exchange of a core that is one partition of several."""
    parting = core.parting
    assert isinstance(parting, PartitionExchange), "a partition is opened with its exchange"
    return parting


def receive(core: Core, production: Production) -> int:
    """Take what another partition sent; the number up to which all of it is durable here."""
    parting = parting_of(core)
    for fresh in parting.fresh(core.state, production):
        _take(core, parting, production, fresh)
    return ProductionGuard(*core.state.taken.get(production.sender, (0, 0))).number


def _take(core: Core, parting: PartitionExchange, production: Production, fresh: ReceivedProductions) -> None:
    sender, epoch, batch = production.sender, production.epoch, fresh.batch
    told = [part for part in fresh.parts if not is_records(part)]
    refused: dict[str, int] = {}

    def change(writer: Writer, writes: Writes) -> None:
        parting.gather(parting.views, core.catalog.highest(), told, writes)
        for part in fresh.parts:
            if is_records(part):
                refused.update(take_records(core, part, writer, writes))
        if (noted := parting.noted) is not None:
            writes.feeding = True
            writes.after.append(lambda: noted.extend(writes.fed))

    def then(state: StateRow) -> StateRow:
        taken, rejected = {**state.taken, sender: (epoch, fresh.number)}, added(state.rejected, refused)
        state = msgspec.structs.replace(state, taken=taken, rejected=rejected)
        return state if batch is None else _guarded(state, sender, (epoch, batch, 1))

    core.amend(change, then)


def take_early_set(core: Core, early: EarlySet) -> None:
    """Take what another partition tells early, and put back what it told of a batch that it does not have."""
    parting = parting_of(core)
    core.ready()
    if not newer(guard_of(core.state, early.sender), early):
        return
    if parting.keeps_after(early.sender, early.saved):
        _put_back(core, parting, early.sender)

    def change(writer: Writer, writes: Writes) -> None:
        if early.parts:
            before: list[Part] = []
            writes.before = before
            parting.gather(parting.views, core.catalog.highest(), early.parts, writes)
            parting.keep(writes, early.sender, UndoRow(early.batch, before))
        else:
            parting.keep(writes, early.sender, None)

    def then(state: StateRow) -> StateRow:
        first = core.state.position + 1  # its own position, or that of the next commit if no row changes
        state = with_early_set(state, early.sender, first if early.parts else None)
        return _guarded(state, early.sender, early.order)

    core.amend(change, then)


def _put_back(core: Core, parting: PartitionExchange, sender: int) -> None:
    first = core.state.told_at.get(sender)

    def change(writer: Writer, writes: Writes) -> None:
        kept = undo_rows(writer, sender)
        assert kept is not None, "memory says what is kept"
        parting.gather(parting.views, core.catalog.highest(), kept.parts, writes)
        parting.keep(writes, sender, None)
        if first is not None:
            state, start = core.state, first
            writes.during.append(lambda writer: _add_span(writer, state, start, state.position + writes.changed))

    core.amend(change, lambda state: with_early_set(state, sender, None))


def _add_span(writer: Writer, state: StateRow, first: int, last: int) -> None:
    if first <= last:  # else no row changed
        add_span(writer, state, (first, last))


def guard_of(state: StateRow, sender: int) -> Guard:
    """How new what was last heard of a partition is."""
    return max(state.guard.get(sender, (0, 0, 0)), (state.taken.get(sender, (0, 0))[0], 0, 0))


def _guarded(state: StateRow, sender: int, order: Guard) -> StateRow:
    return msgspec.structs.replace(state, guard={**state.guard, sender: max(order, state.guard.get(sender, order))})


def clear(core: Core) -> None:
    """Delete what has arrived, in a transaction of its own."""
    parting = parting_of(core)
    if not parting.cluttered:
        return
    writes = Writes()
    with core.store.write() as writer:
        parting.delete(writer, writes)
    writes.committed()
