"""Bugs planted in the engine: the seeded histories must find each, and pass without a planted bug.

A bug replaces one text in the source of one function. The function's code is exchanged while the test runs. If the text
is absent, its test fails: plant the bug again in the rewritten function. A bug counts as found if a shown value is
wrong, or if the engine's own check of an invariant fails. Any other error is an error of the planting.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import penstock as ps
from tests.harness import histories
from tests.harness.planting import Bug, Edit

STEPS, SEEDS = 60, range(6)
FOUND_BY = {  # the seed that finds a rare bug soonest, tried before the others
    "a late record is applied": 3,
    "a tombstone is not looked at": 4,
    "a patch from before the deletion is applied": 2,
    "what a function yields now is taken back, not what it yielded then": 1,
    "a group that empties keeps its row": 1,
    "a group that memory forgot begins at nothing": 1,
    "a fold drops tombstones": 3,
}


BUGS = [
    # versions
    Bug(
        "a late record is applied",
        "gateway.versions.winners:_against_stored",
        "earlier, same_ts = ts.less(stored.ts)",
        "earlier, same_ts = None",
    ),
    Bug(
        "of two versions with equal ts the earlier one stays",
        "gateway.versions.winners:_against_stored",
        "earlier, same_ts = ts.less(stored.ts)",
        "earlier, same_ts = ~stored.ts.less(ts)",
    ),
    Bug(
        "of a key's records in a batch the first one wins",
        "gateway.versions.winners:decide",
        "order[last]",
        "order[first]",
    ),
    Bug(
        "a redelivery is applied again",
        "gateway.versions.winners:_equal_to_stored",
        "equal[at] = facts.same_as_stored(records[at])",
        "pass",
    ),
    Bug(
        "a tombstone is not looked at",
        "gateway.table_node:TableNode._stored",
        "(state & GONE).astype(bool)",
        "(state & 0).astype(bool)",
    ),
    Bug(
        "a patch from before the deletion is applied",
        "gateway.patches:merge_patch",
        "current.floor is not None and ts < current.floor",
        "False",
    ),
    # emissions
    Bug(
        "what a function yields now is taken back, not what it yielded then",
        "gateway.view_deltas:ViewDeltas._by_function",
        "memory.take(new.slots[sides.was])",
        "emissions.take_or_none(np.where(sides.was < emissions.documents, sides.was, -1))",
    ),
    Bug(
        "a held document gives back what its newest line says, not what was told of it",
        "gateway.view_deltas:ViewDeltas._tell",
        "if slot in held}",
        "if False}",
    ),
    Bug(
        "a document that a view can't take is taken back from it",
        "mapreduce.maps.contribution_deltas:deltas_of",
        "change.before.without(stuck)",
        "change.before",
    ),
    Bug(
        "a view of a view is not told of groups that go",
        "mapreduce.parent_rows:row_deltas",
        "if are_apart(old, new)",
        "if new is not ABSENT and are_apart(old, new)",
    ),
    # reducing
    Bug(
        "a group that empties keeps its row",
        "mapreduce.fold.accumulator_fold:ReduceNode.rows",
        "change.n == 0",
        "change.n < 0",
    ),
    Bug(
        "a group that memory forgot begins at nothing",
        "mapreduce.fold.accumulator_fold:ReduceNode.fold",
        "if not memory.complete:",
        "if False:",
    ),
    Bug("ints wrap at 64 bits", "mapreduce.reducers.sums:SpillLayout.add_ints", "if not slow:", "if True:"),
    Bug(
        "sums of floats are rounded at every step",
        "mapreduce.reducers.exact_group_sums:add_binary",
        "if x & 1:",
        "(x, d), e = float(x).as_integer_ratio(), e\n    if x & 1:",
    ),
    # the transaction
    Bug(
        "the offset is not committed with the data",
        "core.commit:Core._write",
        "write_state(writer, state)",
        "write_state(writer, msgspec.structs.replace(state, sources=self.state.sources))",
    ),
    Bug(
        "the record at the committed offset is taken for delivered",
        "engine.calls.envelopes:redelivered",
        "record.offset < done",
        "record.offset <= done",
    ),
    Bug(
        "memory follows before the commit, and is believed after it failed",
        "core.commit:Core._write",
        "write_state(writer, state)",
        "write_state(writer, state); writes.committed(); writes.after.clear()",
        Edit("core.commit:Core._work", "if not self._sure:", "if False:"),
    ),
    Bug("a strict batch with a bad document is taken", "core.commit:Core._commit", "raise _Undone", "pass"),
    # index fold and compaction
    Bug(
        "a fold passes over deletions",
        "cache.log.index_fold:IndexFold.begin",
        "slots = keys.take_dirty()",
        "slots = keys.take_dirty(); slots = slots[keys.state[slots] & GONE == 0]",
    ),
    Bug("a fold drops tombstones", "cache.log.index_fold:IndexFold.step", "& (not tombstones)", "& True"),
    Bug(
        "a fold claims what came while it went on",
        "cache.log.document_log:DocumentLog.fold_step",
        "folded=fold.mark if done",
        "folded=self.mark.tail if done",
    ),
    Bug(
        "compacting leaves a living line behind",
        "cache.log.document_log:DocumentLog.living",
        "living.nonzero()[0]",
        "living.nonzero()[0][1:]",
    ),
    Bug(
        "compacting leaves behind what functions yielded",
        "gateway.view_deltas:ViewDeltas.carry",
        "emissions.take(at) for emissions",
        "emissions.take(at[:0]) for emissions",
    ),
    Bug(
        "a look-up while the index doubles does not ask the parent",
        "cache.log.hash_index:look_up",
        "level == bits - 1",
        "level == bits",
    ),
    # opening and dropped caches
    Bug(
        "opening passes over what is not folded",
        "cache.log.document_log:DocumentLog.open",
        "self.table, self.mark.folded",
        "self.table, self.mark.tail",
    ),
    Bug(
        "forgetting loses what is not folded",
        "cache.log.key_cache:KeyCache.heir",
        "slots = self.take_dirty()",
        "slots = self.take_dirty()[:0]",
    ),
    Bug(
        "forgetting loses what a fold had begun with",
        "cache.log.document_log:DocumentLog.forget",
        "None if fold is None else fold.slots",
        "None",
    ),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_bug_is_found_where_none_was_planted(seed: int) -> None:
    histories.run(seed, STEPS)


def test_every_seed_that_is_named_is_that_of_a_bug() -> None:
    assert FOUND_BY.keys() <= {bug.name for bug in BUGS}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    first = FOUND_BY.get(bug.name)
    with pytest.raises((AssertionError, ps.StoreDamaged)):
        _run(SEEDS if first is None else [first, *SEEDS])


def _run(seeds: Iterable[int]) -> None:
    for seed in seeds:
        histories.run(seed, STEPS)
