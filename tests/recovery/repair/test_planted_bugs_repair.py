"""Bugs planted in repairs: the trials must find each, and must pass without a planted bug."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.harness.planting import Bug
from tests.recovery.repair import repair_trials, test_emission_repair

SEEDS = (0, 4, 5, 1, 12, 15, 2, 9, 3)  # one of the first seeds finds each bug


def trials() -> None:
    """Damage stores at random, and repair them in every way."""
    for seed in SEEDS:
        repair_trials.run(seed)


def held_stays() -> None:
    """Repair the damaged row with the emission of a held document."""
    with test_emission_repair.filled() as engine:
        test_emission_repair.test_what_a_held_document_was_told_stays_with_it(engine)


def index_anew() -> None:
    """Repair an index with damage in every row."""
    with test_emission_repair.folding() as engine:
        test_emission_repair.test_an_index_is_made_anew(test_emission_repair.turn, engine)


@dataclass(frozen=True)
class Planted:
    """A bug, the error that reveals it, and the test that finds it."""

    bug: Bug
    why: str
    by: Callable[[], None] = trials


BUGS = [
    Planted(
        Bug(
            "a reducer is wrong whoever asks it, and only a recompute tells",
            "mapreduce.reducers.extremes:Extreme._reduced",
            "if self.greatest",
            "if not self.greatest",
        ),
        "its documents from scratch give",
    ),
    Planted(
        Bug(
            "a row that differs is left as it is",
            "recovery.repair.group_replacement:GroupReplacement._replace",
            "if wanted != raw:",
            "if wanted is None != raw:",
        ),
        r"Repaired\(",
    ),
    Planted(
        Bug(
            "an orphan keeps its row",
            "recovery.repair.group_replacement:GroupReplacement._replace",
            "writes.deletes.append(",
            "list(",
        ),
        r"Repaired\(",
    ),
    Planted(
        Bug(
            "nodes of a tree are not compared",
            "recovery.repair.stored_view:StoredView.items",
            "return merge(rows, early, late)",
            "return rows",
        ),
        "its trees, group",
    ),
    Planted(
        Bug(
            "old versions count as well",
            "recovery.repair.document_scan:DocumentScan._blocks",
            "own = own.take(np.flatnonzero(table.newest(own.k0, own.k1, own.records)))",
            "pass",
        ),
        "its tree would have",
    ),
    Planted(
        Bug(
            "what held documents were told last is forgotten",
            "recovery.repair.document_scan:DocumentScan.of_table",
            "yield from self._held()",
            "pass",
        ),
        "nothing was wrong",
    ),
    Planted(
        Bug("what comes meanwhile is not heard", "core.commit:Core.watch", "self.views[view].watch = heard", "pass"),
        r"Repaired\(",
    ),
    Planted(
        Bug(
            "what goes meanwhile is not heard",
            "recovery.repair.view_rebuild:Shadow.hear",
            "self.add(plus, minus)",
            "self.add(plus, minus.take(minus.code < 0))",
        ),
        r"Repaired\(",
    ),
    Planted(
        Bug(
            "views on a view don't follow", "recovery.repair.restatement:Restatement.view", "if moved:", "if not moved:"
        ),
        "a contribution to kept",
    ),
    Planted(
        Bug(
            "what is remembered of a row is not mapped again",
            "recovery.repair.restatement:Restatement._follow",
            "moved if isinstance(node.mapper, FunctionMapper) else self._held(node, moved)",
            "[]",
        ),
        "a contribution to kept",
    ),
    Planted(
        Bug(
            "a remembered emission that no longer fits stays",
            "recovery.repair.repost:Repost._look",
            "if mapped is not None and (held or changed):",
            "if mapped is not None and held:",
        ),
        "what no longer fitted is replaced",
    ),
    Planted(
        Bug(
            "a check doesn't see what functions would yield now",
            "recovery.check.emission_differences:differing",
            "not same_pairs(own, was)",
            "False",
        ),
        "what no longer fits its document is counted",
    ),
    Planted(
        Bug(
            "memory keeps what was damaged",
            "recovery.repair.group_replacement:GroupReplacement.replace_groups",
            "writes.after.append(view.reduce.forget)",
            "pass",
        ),
        r"Repaired\(",
    ),
    Planted(
        Bug(
            "a check passes over rows that are not what was written",
            "recovery.check.store_check:Check._checked",
            "self._damaged.append(self._named(damage))",
            "pass",
        ),
        "a turned bit is named",
    ),
    Planted(
        Bug(
            "what a function was told is not made anew",
            "recovery.repair.emission_repair:damaged_rows",
            "for db in remembered_in(view):",
            "for db in remembered_in(view)[1:]:",
        ),
        "remembered emissions, log entry",
    ),
    Planted(
        Bug(
            "a document that was held counts what it would yield",
            "recovery.repair.emission_repair:_ReplacementRows._pairs",
            "if own is None:",
            "if True:",
        ),
        "the one that it counted before",
        held_stays,
    ),
    Planted(
        Bug(
            "an index that is made anew names old lines",
            "cache.log.index_rebuild:_newest",
            "np.lexsort((record, rested, hashed))",
            "np.lexsort((-record, rested, hashed))",
        ),
        "the content is what it was",
        index_anew,
    ),
    Planted(
        Bug(
            "an index that is made anew forgets deletions",
            "cache.log.index_rebuild:reindex",
            "entries if tombstones else _take(entries, ~deleted)",
            "_take(entries, ~deleted)",
        ),
        "its index names",
        index_anew,
    ),
    Planted(
        Bug(
            "nodes that were behind are lost when a tree is mended",
            "recovery.repair.group_replacement:GroupReplacement._write_behind",
            "if stored.void:",
            "if True:",
        ),
        "contribution",
    ),
]


def found(by: Callable[[], None]) -> str | None:
    """Return the error of a failed test, or None."""
    try:
        by()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("by", [trials, held_stays, index_anew])
def test_none_is_found_where_none_is_planted(by: Callable[[], None]) -> None:
    assert found(by) is None


@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.bug.name)
def test_each_is_found_for_what_it_is(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.bug.plant(monkeypatch)
    said = found(planted.by)
    assert said is not None, "nothing found it"
    assert re.search(planted.why, said), said
