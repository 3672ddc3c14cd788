"""Bugs planted in the path for small batches: histories with both batch sizes must find each."""

from __future__ import annotations

import pytest

import penstock as ps
from tests.harness import two_sizes
from tests.harness.planting import Bug

STEPS, SEEDS = 60, range(12)

BUGS = [
    # versions
    Bug("a late record is applied", "gateway.versions.winners:decide_each", "ts[i] < version.ts", "False"),
    Bug(
        "of two versions with equal ts the earlier one stays",
        "gateway.versions.winners:decide_each",
        "ts[i] < version.ts",
        "ts[i] <= version.ts",
    ),
    Bug(
        "a redelivery is applied again",
        "gateway.stored_equality:is_equal_to_stored",
        "return inner is not None and same_document(line, inner)",
        "return False",
    ),
    Bug(
        "documents are equal where views read the same of them",
        "gateway.stored_equality:is_equal_to_stored",
        "return inner is not None and same_document(line, inner)",
        "return True",
    ),
    Bug("a tombstone is not looked at", "gateway.small_batch:FewForm._stored", "state & GONE", "state & 0"),
    Bug(
        "a batch that brings back what was stored writes it again",
        "gateway.versions.winners:decide_each",
        "version.record < 0 or against(before[slot], i) != Outcome.EQUAL",
        "True",
    ),
    Bug(
        "a deletion without ts comes before all that is there",
        "gateway.versions.winners:decide_each",
        "ts[i] = version.ts",
        "ts[i] = -1",
    ),
    # intake
    Bug(
        "a float key that is a whole number is another key",
        "mapreduce.columns.value_columns:key_lane",
        "value.is_integer()",
        "False",
    ),
    Bug(
        "a ts that is no int is cut",
        "gateway.table_memory:TableMemory.put_stamp",
        "if not is_lane(ts):",
        "if not is_lane(ts) and ts > 99:",
    ),
    Bug(
        "a key of several parts may be all null",
        "gateway.small_batch:FewForm._take_in",
        "not any(part is not None for part in key)",
        "False",
    ),
    Bug(
        "memory that forgot a key takes it for a new one",
        "cache.log.document_log:DocumentLog.resolve_few",
        "(self.complete or self.mark.tail == 0)",
        "True",
    ),
    # emissions
    Bug(
        "a document that was held before is taken for one that was told",
        "gateway.small_batch:FewForm._unusual",
        "if held and any(n.slot in held for n in new):",
        "if False:",
    ),
    Bug(
        "what a function raises goes unheard",
        "gateway.small_batch:FewForm._unusual",
        "if any(n.record.doc in held for _, held in outputs.values() if held for n in new):",
        "if False:",
    ),
    Bug("a function is run again", "gateway.small_batch:FewForm.process", "if outputs:", "if False:"),
    Bug(
        "a function spoils the document of another",
        "gateway.small_batch:FewForm._run",
        "if i == spare and documents is not None",
        "if documents is not None",
    ),
    Bug(
        "what is taken back of a field view is what is told now",
        "gateway.small_batch_deltas:_Changed.of",
        "new[i].old",
        "new[i].record.reading or new[i].old",
    ),
    Bug(
        "memory keeps what a function yielded before",
        "gateway.small_batch_deltas:FewTelling._by_function",
        "memory.put_one(n.slot, part, pairs, used)",
        "None",
    ),
    Bug(
        "memory keeps the value before of a document that reads null now",
        "gateway.table_memory:SlotColumn.put_one",
        "self.kind[slot] = kind",
        "self.kind[slot] = kind or self.kind[slot]",
    ),
    Bug(
        "groups of several fields are met document by document",
        "mapreduce.small_documents:DocumentReader.read",
        "sorted(set(rows))",
        "rows",
    ),
    Bug(
        "a contribution has the ts of another document",
        "gateway.small_batch_deltas:FewTelling.tell",
        "for i in plus.who",
        "for i in reversed(plus.who)",
    ),
    Bug(
        "a patched document is as old as its oldest field",
        "gateway.small_batch:FewForm._patch",
        "max(m.own.stamps.values(), default=None)",
        "min(m.own.stamps.values(), default=None)",
    ),
    # folds and writes
    Bug(
        "a group that stays as it is, is written",
        "mapreduce.fold.small_fold:SmallFold.fold",
        "if own.old != own.new or own.old_spills != own.new_spills:",
        "if True:",
    ),
    Bug(
        "a float that is taken back is counted",
        "mapreduce.reducers.sums:SpillLayout.moved",
        "row[0] += sign",
        "row[0] += 1",
    ),
    Bug(
        "a bin has its upper edge",
        "mapreduce.reducers.counts:_bin",
        "return bisect_right(ints, value)",
        "return bisect_right(ints, value - 1)",
    ),
    Bug(
        "a group whose row is odd is written as one of lanes",
        "mapreduce.fold.small_fold:SmallFoldChanges.rows",
        "own.code in groups.encoded or own.new_spills is not None",
        "False",
    ),
    Bug(
        "memory keeps the spill of a group whose row is odd no longer",
        "mapreduce.fold.small_fold:SmallFoldChanges._apply",
        "spills.pop(code, None)",
        "pass",
    ),
    Bug(
        "documents are not counted",
        "gateway.small_batch:FewForm._commit",
        "len(new) - sum(gone) - left",
        "len(new) - sum(gone)",
    ),
    Bug(
        "a segment says of no line that its key is absent",
        "cache.log.segment:build_small",
        "bytes(gone)",
        "bytes(len(gone))",
    ),
    Bug(
        "what is put in few is never folded",
        "cache.log.key_cache:KeyCache.put_few",
        "self._single += slots",
        "pass",
    ),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_bug_is_found_where_none_was_planted(seed: int) -> None:
    two_sizes.run(seed, STEPS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, ps.StoreDamaged)):
        _search()


def _search() -> None:
    for seed in SEEDS:
        two_sizes.run(seed, STEPS)
