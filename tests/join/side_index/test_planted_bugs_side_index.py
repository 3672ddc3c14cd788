"""Bugs planted in side indexes: seeded histories beside a dict must find each. Without one they find none."""

from __future__ import annotations

import pytest

from penstock.cache import StoreDamaged
from tests.harness.planting import Bug
from tests.join.join_histories import TIES
from tests.join.side_index.index_histories import run_index, run_sparse, small_pages

SEEDS = range(2)
FOUND_BY = {  # the seeds that find rare bugs
    "a condition value is read from its first page only": 1,
    "one page is read twice for two condition values": 1,
}
SPARSE = "a small page joins a page that is not the one before it"

BUGS = [
    Bug(
        "a removal in the log is brought back by the page",
        "join.side_index:SideIndex.read",
        "own[own] = changes.find(entries.take(own)) < 0",
        "hit = changes.find(entries.take(own)); own[own] = (hit < 0) | changes.gone[hit]",
    ),
    Bug(
        "a fold that stops between two pages loses the log",
        "join.side_index:SideIndex.fold_step",
        "if at == size:",
        "if at:",
    ),
    Bug(
        "a fold deletes log rows that it has not folded",
        "join.side_index:SideIndex.fold_step",
        "range(own.first, fold.stop)",
        "range(own.first, own.stop)",
    ),
    Bug(
        "a page wins over the log in a fold",
        "join.page_fold:fold_pages",
        "merged = changes.slice(0, n).over(old)",
        "merged = EntryChanges.last_of([changes.slice(0, n), EntryChanges(old, np.zeros(len(old), bool))]).put()",
    ),
    Bug(
        "an entry of a page stays beside the one that replaces it",
        "join.sorted_runs:EntryChanges.over",
        "keep[inside[hit]] = False",
        "pass",
    ),
    Bug(
        "an older run wins over a later one",
        "join.sorted_runs:SortedRuns.add",
        "[self._runs.pop(), last]",
        "[last, self._runs.pop()]",
    ),
    Bug(
        "a merge of runs drops removals",
        "join.sorted_runs:SortedRuns.add",
        "self._runs.append(EntryChanges.last_of([self._runs.pop(), last]))",
        "own = EntryChanges.last_of([self._runs.pop(), last])\n"
        "        self._runs.append(EntryChanges(own.put(), np.zeros(len(own.put()), bool)))",
    ),
    Bug(
        "the begins of pages do not follow a fold",
        "join.side_index:SideIndex._folded",
        "own.begins, own.pages, fold.at = begins, pages, at",
        "own.pages, fold.at = pages, at",
    ),
    Bug(
        "an empty page keeps its row",
        "join.page_fold:fold_pages",
        "if gone:",
        "if False:",
    ),
    Bug(
        SPARSE,
        "join.page_fold:_Parts.cut",
        "near = near and page == last + 1",
        "pass",
    ),
    Bug(
        "entries in the log are not seen during a fold",
        "join.side_index:SideIndex._ranges",
        "[] if own.fold is None else [own.fold.changes.within(low, high)]",
        "[]",
    ),
    Bug(
        "changed entries are read as kept",
        "join.side_index:SideIndex._ranges",
        "if changed is not None and len(changed):",
        "if False:",
    ),
    Bug(
        "a condition value is read from its first page only",
        "join.side_index:SideIndex._addresses",
        'np.searchsorted(begins, high, "right") - first',
        "np.ones(first.size, np.int64)",
    ),
    Bug(
        "one page is read twice for two condition values",
        "join.side_index:SideIndex._few_addresses",
        "floor[0] > last",
        "True",
    ),
    Bug("a null condition value is stored", "join.side_index:_stored", "null is None", "True"),
    Bug(
        "the positions of texts are those of 0",
        "join.entry_pages:_read_mixed",
        'np.frombuffer(b"".join(at), "<u8").astype(np.uint64)',
        "positions_of(*[Entries(lanes[:, 0], lanes, None, None).values()] * 2)",
    ),
    Bug(
        "a cut parts the entries of one position",
        "join.page_fold:_Parts.split",
        "int(np.searchsorted(at, at[start + (stop - start) // (parts - i + 1)]))",
        "start + (stop - start) // (parts - i + 1)",
        *TIES,
    ),
    Bug(
        "the last entry of a position wins, of whichever document",
        "join.sorted_runs:_last_of_each",
        "~same_entries(entries, order[tie], entries, order[tie + 1])",
        "False",
        *TIES,
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch)
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, StoreDamaged, IndexError, ValueError)):
        _run(bug.name)


def _run(name: str) -> None:
    if name == SPARSE:
        run_sparse(0)
    for seed in [FOUND_BY[name]] if name in FOUND_BY else SEEDS:
        run_index(seed)
