"""Bugs planted in the early sets that partitions exchange, for the simulator of partitioned stores to find.

`NAMED` has the cases of the crash analysis, under their names there. Each is a protocol that leaves an orphan. A seed
runs views that are weak, or views that are auto.
"""

from __future__ import annotations

from pathlib import Path

from penstock.testing.partitions.partitioned_run import PartitionedFailure, partitioned_run_of, run_partitioned
from penstock.views import DeliveryMode
from tests.harness.planting import Bug, Edit
from tests.testing.partitioned_planted import TRIALS

PINS = Path(__file__).with_name("early_pins.json")

NAMED = [
    Bug(
        "saved after send: what was there is not kept with what is told",
        "partitions.exchange.exchange:take_early_set",
        "exchange.keep(writes, early.sender, UndoRow(early.batch, before))",
        "pass",
    ),
    Bug(
        "two slots: what a batch that is not in left counts as what was there before the next one",
        "partitions.exchange.exchange:take_early_set",
        "if exchange.keeps_after(early.sender, early.saved):",
        "if False:",
    ),
    Bug(
        "cleared at any ack: whoever answers knows what became of all that it was told",
        "partitions.member:Member.knows",
        "<= early.batch:",
        ">= 0:",
    ),
    Bug(
        "removed by value: a contribution in the place of another one is taken for the same",
        "mapreduce.contribution_sets:_without_equal",
        "stays[first[same]] = stays[second[same]] = False",
        "stays[first] = stays[second] = False",
        Edit("mapreduce.contribution_sets:_few_without_equal", " and went[name] == values", ""),
    ),
    Bug(
        "equal redelivery dropped: what is given again and was not told again is not saved either",
        "partitions.exchange.exchange:PartitionExchange._unsaid",
        "if sets and self._early.get(other) != pack(sets):",
        "if False:",
    ),
    Bug(
        "old send retried: what is told late is taken",
        "recovery.productions.early_sets:newer",
        "return early.order > known",
        "return True",
    ),
    Bug(
        "acked at save with no scan: an opening does not say which batch is in",
        "partitions.exchange.exchange:PartitionExchange.begin",
        "if state.early else {}",
        "if False else {}",
    ),
    Bug(
        "zombie: what an older epoch told is answered",
        "recovery.productions.early_sets:newer",
        "if early.epoch < known[0]:",
        "if False:",
    ),
    Bug(
        "changed map: groups that a document is in no longer are not named",
        "mapreduce.group_crossing:GroupCrossing.sets",
        "minus = of_others(minus, plus)",
        "minus = minus.take(minus.code < 0)",
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
        "others do not know of a batch that failed when the next one is in",
        "partitions.member:Member.take",
        "exchange.unheard.update(dict.fromkeys(receivers, self.core.state.batch))",
        "pass",
    ),
    Bug(
        "productions overtake what became of an early set",
        "partitions.member:Member.owed",
        "if other in self._exchange.unheard:",
        "if False:",
    ),
    Bug(
        "what is told overtakes what was owed",
        "testing.partitions.simulated_wire:EarlyWire._round",
        "world.members[partition].owed(other) is not None",
        "False",
    ),
    Bug(
        "of a document's contributions to a group the first is looked for",
        "mapreduce.trees.tree_fold:TreeReduce.of_sources",
        "if not bool((was[asked.rank == ranks - 1] >= 0).any()):",
        "if True:",
    ),
    Bug(
        "what waits for its nodes is not looked at",
        "mapreduce.trees.tree_fold:TreeReduce.of_sources",
        "self._lay(fetch, self._deferred.take(keys[i] for i in np.flatnonzero(deep).tolist()))",
        "pass",
    ),
    Bug(
        "sets are without the ts of documents",
        "mapreduce.group_crossing:GroupCrossing.sets",
        "side_data(plus, came, view.crossing_fields)",
        "side_data(plus, came, view.reduce.fields)",
        Edit(
            "mapreduce.group_crossing:GroupCrossing.gather",
            "fields = view.crossing_fields",
            "fields = view.reduce.fields",
        ),
    ),
    Bug(
        "who does not answer is taken to have it",
        "partitions.member:Member.take",
        "by = exchange.tell(early) if early else ()",
        "by = (exchange.tell(early), early)[1] if early else ()",
    ),
    Bug(
        "what became of a batch is older than what was saved after it",
        "partitions.member:Member.news",
        "max(batch, state.batch)",
        "batch",
    ),
    Bug(
        "what was there is kept for ever",
        "partitions.exchange.exchange:take_early_set",
        "exchange.keep(writes, early.sender, None)",
        "pass",
    ),
    Bug(
        "a batch that failed is said to be in",
        "partitions.member:Member.news",
        "max(batch or 0, saved), saved, [])",
        "max(batch or 0, saved), max(batch or 0, saved), [])",
    ),
    Bug(
        "what was there before one told something is kept in the place of another's",
        "recovery.productions.early_sets:keep_before",
        "_KEY.pack(sender)",
        "_KEY.pack(0)",
        Edit("recovery.productions.early_sets:undo_rows", "_KEY.pack(sender)", "_KEY.pack(0)"),
    ),
    Bug(
        "who contributes nothing any more is named without its group's other documents",
        "mapreduce.contribution_sets:of_others",
        "(code, key) not in known",
        "(code, key) in known",
    ),
    Bug(
        "an opening says that what was told is in",
        "partitions.exchange.exchange:PartitionExchange.begin",
        "state.unheard.get(other, state.batch)",
        "state.batch + 1",
    ),
    Bug(
        "contributions to views on views cross before the early set is saved",
        "partitions.exchange.production_delay:ProductionDelay.passed",
        "if not state.told_at and self._first is None:",
        "if True:",
    ),
    Bug(
        "contributions cross again, since they still wait",
        "partitions.exchange.production_delay:ProductionDelay.passed",
        "drop_delayed(writer, rows)",
        "pass",
    ),
    Bug(
        "contributions that wait are forgotten at an opening",
        "partitions.exchange.production_delay:ProductionDelay.recall",
        "first_delayed(reader)",
        "None",
    ),
    Bug(
        "contributions that came and went in between cross",
        "mapreduce.contribution_sets:net",
        "if came.pop(name, None) is None:",
        "if True:",
    ),
]


def kind_of(seed: int) -> DeliveryMode:
    """Return the delivery mode of a seed's run. Each app gets both modes."""
    return (DeliveryMode.WEAK, DeliveryMode.AUTO)[seed // len(TRIALS) % 2]


def finds(seed: int) -> PartitionedFailure | None:
    """Return the failure of a seed, or None."""
    trial, plan = partitioned_run_of(seed, TRIALS, kind_of(seed))
    try:
        run_partitioned(trial.app, plan)
    except PartitionedFailure as failure:
        return failure
    return None
