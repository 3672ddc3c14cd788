"""The exchange of one partition: the productions that it saves for others, and those that it applies.

A batch's transaction folds the contributions to this partition's groups, parent views first. It saves those to other
partitions' groups as productions. Invariant: acknowledged productions are deleted by the next transaction, or by a
transaction for this purpose while the partition is idle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from penstock.cache import PenstockError, Reader, Writer, pack
from penstock.core import StateRow, add_span, added, with_early_set
from penstock.join import JoinNode
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
from penstock.partitions.exchange.batch_production import is_records, take_records
from penstock.partitions.exchange.production_delay import ProductionDelay
from penstock.recovery import (
    EarlySet,
    Guard,
    Production,
    ProductionGuard,
    Sent,
    StoredProduction,
    UndoRow,
    after_productions,
    deleted,
    keep_before,
    newer,
    next_productions,
    numbered_productions,
    oldest_owed,
    parts_of,
    saved,
    unconfirmed_batches,
    undo_rows,
)
from penstock.views import DeliveryMode

if TYPE_CHECKING:
    from penstock.core import Core

_DELTA = 2  # the index of the sums in a part of a production


@dataclass(slots=True)
class ReceivedProductions:
    """The parts that one transaction applies from another partition, and the number of their last production."""

    number: int
    parts: list[Part]

    @property
    def batch(self) -> int | None:
        """The batch that its sets belong to, or that was saved before them."""
        return max((number_of(part) for part in self.parts if is_sets(part)), default=None)


class PartitionExchange:
    """A core's view of the other partitions.

    With `hands_out`, productions are not saved in the store: `handed` collects them for the caller, who delivers them
    before the batch counts as stored.
    """

    def __init__(self, partition: int, ranges: KeyRanges, hands_out: bool = False) -> None:
        self.partition = partition
        self.hands_out = hands_out
        self.handed: list[tuple[int, StoredProduction]] = []  # with their receivers, in the order of commits
        self.ranges = ranges
        self.crossing = GroupCrossing(partition, ranges)
        self.batch = 0  # the number of the batch that is being taken, while one is
        self.refused: dict[int, str] = {}  # by sender, why its last message can't be applied
        self.repair_changes: list[FeedChanges] | None = None  # changes by productions, while a repair collects them
        self.arrived: Sent = {}  # by receiver, the number of the last production that it has acknowledged
        self._cleared: Sent = {}  # by receiver, the number up to which productions are deleted
        self._delay = ProductionDelay()
        self._order: list[ViewNode] = []
        self._runs: list[Callable[[Reader, Writes], None]] = []  # in the order in which a transaction folds
        self.wake: Callable[[], None] = lambda: None  # called after each commit that saves productions
        self.turn = threading.Lock()  # a batch sends early sets and is saved before the next one does
        self.tell: Callable[[Mapping[int, EarlySet]], Collection[int]] = _nobody  # returns the receivers that have it
        self.unheard: dict[int, int] = {}  # by partition that must hear it, the last batch that was saved then
        self.heard: dict[int, int] = {}  # by receiver, the batch of an early set whose outcome it has not heard
        self.asked: set[int] = set()  # partitions to hear the outcome now, and not only when nothing else is sent
        self._early: dict[int, bytes] = {}  # by receiver, its early set of the current batch
        self._records: Mapping[int, Part] = {}  # by owner, its records of that batch, if it is atomic
        self._undo_batches: dict[int, int] = {}  # by sender, the batch that has an undo row here; 0 for none

    @property
    def views(self) -> Sequence[ViewNode]:
        """All views that take contributions, including those that a refill fills."""
        return self._order

    @property
    def others(self) -> list[int]:
        """The other partitions."""
        return [other for other in range(len(self.ranges)) if other != self.partition]

    def recall(self, reader: Reader, state: StateRow) -> None:
        """Restore the numbers from the rows of the store."""
        oldest = oldest_owed(reader, self.others)
        self._cleared = {other: oldest.get(other, number) for other, number in state.sent.items()}
        self.arrived = dict(self._cleared)
        self._undo_batches = unconfirmed_batches(reader)
        self._delay.recall(reader)

    def arrange(self, views: Sequence[ViewNode], joins: Sequence[JoinNode]) -> None:
        """Make these the views that fold contributions, and the joins that run between them, with their sides.

        A definition comes after its sources, so the order of definitions is one of dependence.
        """
        self._order = [*(side for join in joins for side in (*join.sides, *join.wider)), *views]
        for view in self._order:
            view.crossing = self.crossing
        runs = [(view.view.order, view.fold_gathered) for view in views]
        runs += [(join.join.order, join.run) for join in joins]
        self._runs = [run for _, run in sorted(runs, key=itemgetter(0))]

    def begin(self, state: StateRow) -> None:
        """Note for a new writer that others must hear which batch is saved, if early sets were ever sent."""
        self.unheard = {other: state.unheard.get(other, state.batch) for other in self.others} if state.early else {}

    def early(self, leaving: Mapping[int, list[Part]], state: StateRow, number: int) -> dict[int, EarlySet]:
        """Return the early sets of a batch, by receiver."""
        waits = {view.number for view in self._order if view.view.production is DeliveryMode.WEAK}
        out: dict[int, EarlySet] = {}
        for other, parts in leaving.items():
            sets = [numbered(part, number) for part in parts]
            slow = any(part[0] in waits for part in parts)
            out[other] = EarlySet(self.partition, state.epoch, number, state.batch, sets, slow)
        return out

    @contextmanager
    def taking(
        self, number: int, early: Mapping[int, EarlySet], by: Collection[int], records: Mapping[int, Part]
    ) -> Iterator[None]:
        """Set the batch that is saved within this context; the partitions in `by` have its early sets.

        `records` are the records of an atomic batch that other partitions own.
        """
        self.batch, self._early = number, {other: pack(early[other].parts) for other in by}
        self._records = records
        try:
            yield
        finally:
            self.batch, self._early, self._records = 0, {}, {}  # a later commit must not count a failed batch as saved

    def fold(self, reader: Reader, writes: Writes) -> None:
        """Fold the gathered contributions and run the joins, sources first. Add the records for other partitions."""
        for run in self._runs:
            run(reader, writes)
        for other, part in self._records.items():
            writes.leaving.setdefault(other, []).append(part)

    def save(self, writer: Writer, writes: Writes, state: StateRow) -> StateRow:
        """Save productions, delete acknowledged ones, and return the state with their numbers and the batch's."""
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
        contributions = {
            other: own for other, parts in leaving.items() if (own := [p for p in parts if not is_records(p)])
        }
        sent = self._saved(writer, writes, records, state.sent)  # apart: no damaged group blocks them
        batches = {**state.batches, **{other: sent[other] for other in records}}
        sent = self._saved(writer, writes, contributions, sent)
        return msgspec.structs.replace(state, sent=sent, batches=batches)

    def _saved(self, writer: Writer, writes: Writes, leaving: dict[int, list[Part]], sent: Sent) -> Sent:
        """Save productions, or hand them out after the commit. Return the last number of each receiver."""
        if not self.hands_out:
            return saved(writer, leaving, sent)
        found = numbered_productions(leaving, sent)
        writes.after.append(lambda: self.handed.extend(found))
        return after_productions(found, sent)

    def _unsaid(self, leaving: Mapping[int, list[Part]], batch: int) -> dict[int, list[Part]]:
        """Return the productions by receiver, without the sets that equal its early set."""
        out: dict[int, list[Part]] = {}
        for other, parts in leaving.items():
            sets = [numbered(part, batch) for part in parts if is_sets(part)]
            rest = [part for part in parts if not is_sets(part)]
            if sets and self._early.get(other) != pack(sets):
                rest += sets
            if rest:
                out[other] = rest
        return out

    def delete(self, writer: Writer, writes: Writes) -> None:
        """Delete acknowledged productions."""
        arrived = dict(self.arrived)
        if arrived != self._cleared:
            deleted(writer, arrived, self._cleared)
            writes.after.append(lambda: self._cleared.update(arrived))

    def keeps_after(self, sender: int, saved: int) -> bool:
        """Return True if an undo row is kept for a batch of the sender after its last saved one."""
        return self._undo_batches.get(sender, 0) > saved

    def keep(self, writes: Writes, sender: int, undo: UndoRow | None) -> None:
        """Store the undo row for a batch of the sender with the transaction; None deletes it."""
        writes.during.append(lambda writer: keep_before(writer, sender, undo))
        batch = 0 if undo is None else undo.batch
        writes.after.append(lambda: self._undo_batches.update({sender: batch}))

    def _wake(self) -> None:
        self.wake()

    @property
    def cluttered(self) -> bool:
        """True if acknowledged productions are still to be deleted."""
        return self.arrived != self._cleared

    def fresh(self, state: StateRow, production: Production) -> list[ReceivedProductions]:
        """Cut a production into the transactions that take it.

        Sums of several productions share a transaction. Contributions of one source, and records, come one by one.
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
        """Gather the contributions of productions by view, and drop those for discarded generations.

        `highest` is the highest view number that was assigned.
        """
        numbered = {view.number: view for view in views}
        for part in parts:
            view = numbered.get(part[0])
            if view is None and part[0] <= highest:
                continue
            if view is None:
                raise PenstockError(
                    f"another partition sent something for view number {part[0]}, which partition {self.partition} "
                    "does not have; close all of them, and open the store anew"
                )
            self.crossing.gather(view, part, writes.gathered.setdefault(view.number, TransactionContributions()))


def _nobody(early: Mapping[int, EarlySet]) -> Collection[int]:
    """Send no early sets."""
    return ()


def exchange_of(core: Core) -> PartitionExchange:
    """Return the exchange of a core that is one partition of several."""
    exchange = core.exchange
    assert isinstance(exchange, PartitionExchange), "a partition is opened with its exchange"
    return exchange


def receive(core: Core, production: Production) -> int:
    """Apply a production; return the number up to which all productions of its sender are durable here."""
    exchange = exchange_of(core)
    for fresh in exchange.fresh(core.state, production):
        _take(core, exchange, production, fresh)
    return ProductionGuard(*core.state.taken.get(production.sender, (0, 0))).number


def _take(core: Core, exchange: PartitionExchange, production: Production, fresh: ReceivedProductions) -> None:
    sender, epoch, batch = production.sender, production.epoch, fresh.batch
    contributions = [part for part in fresh.parts if not is_records(part)]
    refused: dict[str, int] = {}

    def change(writer: Writer, writes: Writes) -> None:
        exchange.gather(exchange.views, core.catalog.highest(), contributions, writes)
        for part in fresh.parts:
            if is_records(part):
                refused.update(take_records(core, part, writer, writes))
        if (repair_changes := exchange.repair_changes) is not None:
            writes.feeding = True
            writes.after.append(lambda: repair_changes.extend(writes.fed))

    def then(state: StateRow) -> StateRow:
        taken, rejected = {**state.taken, sender: (epoch, fresh.number)}, added(state.rejected, refused)
        state = msgspec.structs.replace(state, taken=taken, rejected=rejected)
        return state if batch is None else _guarded(state, sender, (epoch, batch, 1))

    core.amend(change, then)


def take_early_set(core: Core, early: EarlySet) -> None:
    """Apply an early set; before that, undo an earlier one whose batch was not saved."""
    exchange = exchange_of(core)
    core.ready()
    if not newer(guard_of(core.state, early.sender), early):
        return
    if exchange.keeps_after(early.sender, early.saved):
        _put_back(core, exchange, early.sender)

    def change(writer: Writer, writes: Writes) -> None:
        if early.parts:
            before: list[Part] = []
            writes.before = before
            exchange.gather(exchange.views, core.catalog.highest(), early.parts, writes)
            exchange.keep(writes, early.sender, UndoRow(early.batch, before))
        else:
            exchange.keep(writes, early.sender, None)

    def then(state: StateRow) -> StateRow:
        first = core.state.position + 1  # its own position, or that of the next commit if no row changes
        state = with_early_set(state, early.sender, first if early.parts else None)
        return _guarded(state, early.sender, early.order)

    core.amend(change, then)


def _put_back(core: Core, exchange: PartitionExchange, sender: int) -> None:
    first = core.state.told_at.get(sender)

    def change(writer: Writer, writes: Writes) -> None:
        undo = undo_rows(writer, sender)
        assert undo is not None, "memory says what is kept"
        exchange.gather(exchange.views, core.catalog.highest(), undo.parts, writes)
        exchange.keep(writes, sender, None)
        if first is not None:
            state, start = core.state, first
            writes.during.append(lambda writer: _add_span(writer, state, start, state.position + writes.changed))

    core.amend(change, lambda state: with_early_set(state, sender, None))


def _add_span(writer: Writer, state: StateRow, first: int, last: int) -> None:
    if first <= last:  # else no row changed
        add_span(writer, state, (first, last))


def guard_of(state: StateRow, sender: int) -> Guard:
    """Return the guard of a sender: the order of the last message applied from it."""
    return max(state.guard.get(sender, (0, 0, 0)), (state.taken.get(sender, (0, 0))[0], 0, 0))


def _guarded(state: StateRow, sender: int, order: Guard) -> StateRow:
    return msgspec.structs.replace(state, guard={**state.guard, sender: max(order, state.guard.get(sender, order))})


def clear(core: Core) -> None:
    """Delete acknowledged productions in a separate transaction."""
    exchange = exchange_of(core)
    if not exchange.cluttered:
        return
    writes = Writes()
    with core.store.write() as writer:
        exchange.delete(writer, writes)
    writes.committed()
