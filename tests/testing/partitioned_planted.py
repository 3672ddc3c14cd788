"""Bugs planted in the productions that partitions exchange, for the simulator of partitioned stores to find.

`NAMED` has the cases of the crash analysis, under their names there. Each is a protocol that leaves an orphan.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.testing.inputs.trial_apps import Trial, trials
from penstock.testing.partitions.partitioned_run import PartitionedFailure, partitioned_run_of, run_partitioned
from tests.harness.planting import Bug

PINS = Path(__file__).with_name("partitioned_pins.json")
TRIALS = trials()

NAMED = [
    Bug(
        "saved after send: what is owed is saved without the number that says so",
        "partitions.exchange.exchange:PartitionExchange.save",
        "sent = self._saved(writer, writes, contributions, sent)",
        "self._saved(writer, writes, contributions, sent); return state",
    ),
    Bug(
        "two slots: of two productions that wait the older one is overwritten",
        "recovery.productions.numbered_productions:numbered_productions",
        "sent.get(other, 0) + 1",
        "max(1, sent.get(other, 0))",
    ),
    Bug(
        "cleared at any ack",
        "partitions.member:Member.arrived",
        "max(number, arrived.get(other, 0))",
        "self.core.state.sent.get(other, 0)",
    ),
    Bug(
        "removed by value: a production that says what another one says is passed over",
        "partitions.exchange.exchange:PartitionExchange.fresh",
        "next_productions(ProductionGuard(guard_of(state, production.sender)[0], number), production)",
        "{o.data: o for o in next_productions("
        "ProductionGuard(guard_of(state, production.sender)[0], number), production)}.values()",
    ),
    Bug(
        "equal redelivery dropped: what was sent before is not sent again",
        "partitions.member:Member.owed",
        "number = self._exchange.arrived.get(other, 0)",
        "number = self._exchange.arrived.get(other, 0); "
        "self._exchange.arrived[other] = self.core.state.sent.get(other, 0)",
    ),
    Bug(
        "old send retried: what was taken is taken again",
        "recovery.productions.numbered_productions:next_productions",
        "if owed.number == number + 1:",
        "if owed.number <= number + 1:",
    ),
    Bug(
        "acked at save with no scan: an opening does not look at what is owed",
        "partitions.exchange.exchange:PartitionExchange.recall",
        "oldest.get(other, number)",
        "number",
    ),
    Bug(
        "zombie: what an older epoch said is taken",
        "recovery.productions.numbered_productions:next_productions",
        "if production.epoch < before.epoch:",
        "if False:",
    ),
    Bug(
        "changed map: what is taken back is not what was told",
        "mapreduce.group_crossing:GroupCrossing.part",
        "minus.take(went == other)",
        "plus.take(came == other)",
    ),
    Bug(
        "two spouts: what a partition has of a source is taken again",
        "engine.partitioned_writing:PartitionedWriting._resumed",
        "left = [] if resume.offset <= done else [after(part, done) for part in parts]",
        "left = parts",
    ),
]

BUGS = [
    *NAMED,
    Bug(
        "what was taken is not remembered", "core.commit:Core._amend", "state if then is None else then(state)", "state"
    ),
    Bug(
        "a batch of several partitions is not atomic: each takes its records by itself",
        "engine.partitioned_writing:PartitionedWriting._give",
        "if not atomic or len(routed) <= 1:",
        "if True:",
    ),
    Bug(
        "a batch is given before the records of one that is saved",
        "partitions.transport.atomic_batches:AtomicBatches.arrive",
        "if way[1] in partitions:",
        "if False:",
    ),
    Bug(
        "an opening does not ask for saved batches",
        "partitions.transport.atomic_batches:AtomicBatches.__init__",
        "standing[to].taken.get(of, 0) < number",
        "False",
    ),
    Bug(
        "what is owed is not saved",
        "recovery.productions.numbered_productions:saved",
        "writer.put_many(OUT, rows)",
        "pass",
    ),
    Bug(
        "what is sent begins one too late",
        "recovery.productions.numbered_productions:owed_after",
        "_KEY.pack(other, number + 1)",
        "_KEY.pack(other, number + 2)",
    ),
    Bug(
        "nothing is taken back elsewhere",
        "mapreduce.group_crossing:GroupCrossing.part",
        "minus.take(went == other)",
        "minus.take(went < 0)",
    ),
    Bug(
        "what others own is folded here too",
        "mapreduce.group_crossing:GroupCrossing.part",
        "return plus.take(came == self.partition), minus.take(went == self.partition)",
        "return plus, minus",
    ),
    Bug(
        "views are folded before those they stand on",
        "partitions.exchange.exchange:PartitionExchange.fold",
        "for run in self._runs:",
        "for run in reversed(self._runs):",
    ),
    Bug(
        "sums beyond their lanes are added without them",
        "mapreduce.fold.group_deltas:added",
        "| delta.spill.keys()",
        "",
    ),
    Bug("sums wrap", "mapreduce.fold.group_deltas:added", "set(np.flatnonzero(wraps.any(axis=0)).tolist())", "set()"),
    Bug(
        "a difference of floats that are as many as before is none",
        "mapreduce.reducers.sums:SpillLayout.settle",
        " or any(row)",
        "",
    ),
    Bug(
        "contributions of two productions are folded at once",
        "partitions.exchange.exchange:PartitionExchange.fresh",
        "if out and sums and not alone:",
        "if out:",
    ),
    Bug(
        "deletions go to the first partition", "partitions.record_router:Router.parted", "owners[places] = own", "pass"
    ),
    Bug(
        "a source goes on from where the furthest partition stands",
        "partitions.cached_offsets:SourcePositions.remembered",
        "least = min(offsets)",
        "least = max(offsets)",
    ),
    Bug(
        "a batch that was cut off is taken twice",
        "partitions.member:Member.take",
        "if number <= self.core.state.batch:",
        "if False:",
    ),
    Bug(
        "a batch that owes nobody anything is not numbered",
        "partitions.exchange.exchange:PartitionExchange.save",
        "max(state.batch, self.batch)",
        "max(state.batch, self.batch if writes.leaving else 0)",
    ),
    Bug("what crosses is not counted", "mapreduce.fold.accumulator_fold:ReduceNode.fold", "n[at] += delta.n", "pass"),
    Bug(
        "what was taken of one partition is forgotten with what another one sends",
        "partitions.exchange.exchange:_take",
        "{**state.taken, sender: (epoch, fresh.number)}",
        "{sender: (epoch, fresh.number)}",
    ),
    Bug(
        "records of a batch change places on their way",
        "partitions.record_router:_part",
        "lines[lines >= 0].tolist()",
        "lines[lines >= 0][::-1].tolist()",
    ),
    Bug(
        "what has arrived is not deleted",
        "recovery.productions.numbered_productions:deleted",
        "writer.delete_many(OUT, keys)",
        "pass",
    ),
    Bug(
        "what others take back is not gathered",
        "mapreduce.group_crossing:GroupCrossing.gather",
        "into.add(plus, minus)",
        "into.add(plus, minus.take(minus.code < 0))",
    ),
    Bug(
        "the ts beside a record is forgotten on its way",
        "partitions.record_router:_part",
        "if records.stamps:",
        "if False:",
    ),
    Bug(
        "a repair builds every view of a partition's own documents alone",
        "partitions.union.union_repair_site:PartitionedSite._compared",
        "scanned(snap, self.views, shadows, shadows.add, progress)",
        "scanned(snap.parts[0], self.views, shadows, shadows.add, progress)",
    ),
    Bug(
        "what is dropped stays counted",
        "recovery.quarantine.retry_drop:OneStoreRetries._drop_records",
        "release({number: reject.table for number, reject in found.items()}, writes)",
        "pass",
    ),
]


def finds(seed: int, trials: Sequence[Trial] = TRIALS) -> PartitionedFailure | None:
    """Return the failure of a seed in one of the trials, or None."""
    trial, plan = partitioned_run_of(seed, trials)
    try:
        run_partitioned(trial.app, plan)
    except PartitionedFailure as failure:
        return failure
    return None
