"""Bugs planted in repairs: the trials must find each, and find none where none was planted."""

from __future__ import annotations

import pytest

from tests.engine import repairs
from tests.engine.planting import Bug

SEEDS = range(40)

BUGS = [
    Bug(
        "a reducer is wrong whoever asks it, and only a recompute tells",
        "mapreduce.extremes:Extreme._reduced",
        "if self.greatest",
        "if not self.greatest",
    ),
    Bug(
        "a row that differs is left as it is",
        "recovery.mending:Mender._replace",
        "if wanted != raw:",
        "if wanted is None != raw:",
    ),
    Bug("an orphan keeps its row", "recovery.mending:Mender._replace", "writes.deletes.append(", "list("),
    Bug(
        "nodes of a tree are not compared",
        "recovery.sides:Side.items",
        "return merge(rows, early, late)",
        "return rows",
    ),
    Bug(
        "old versions count as well",
        "recovery.scan:Scan._blocks",
        "own = own.take(np.flatnonzero(table.newest(own.k0, own.k1, own.records)))",
        "pass",
    ),
    Bug(
        "what held documents were told last is forgotten",
        "recovery.scan:Scan.of_table",
        "yield from self._held()",
        "pass",
    ),
    Bug("what comes meanwhile is not heard", "engine.core:Core.watch", "self.views[view].watch = heard", "pass"),
    Bug(
        "what goes meanwhile is not heard",
        "recovery.shadow:Shadow.hear",
        "self.add(plus, minus)",
        "self.add(plus, minus.take(minus.code < 0))",
    ),
    Bug("views on a view don't follow", "engine.repairing:Repair.view", "if moved:", "if not moved:"),
    Bug(
        "what is remembered of a row is not mapped again",
        "engine.repairing:Repair._follow",
        "if isinstance(node.mapper, FunctionMapper):",
        "if False:",
    ),
    Bug(
        "a remembered emission that no longer fits stays",
        "engine.reposting:Reposting._look",
        "if mapped is not None and (held or changed):",
        "if mapped is not None and held:",
    ),
    Bug(
        "a check doesn't see what functions would yield now",
        "engine.checking:_differing",
        "not same_pairs(own, told)",
        "False",
    ),
    Bug(
        "memory keeps what was damaged",
        "recovery.mending:Mender.mend",
        "writes.after.append(view.reduce.forget)",
        "pass",
    ),
    Bug(
        "nodes that were behind are lost when a tree is mended",
        "recovery.mending:Mender._write_behind",
        "if here.void:",
        "if True:",
    ),
]


def found(seeds: range) -> str | None:
    """What the first trial says that fails."""
    for seed in seeds:
        try:
            repairs.run(seed)
        except Exception as error:
            return f"{seed}: {type(error).__name__}: {error}"
    return None


def test_none_is_found_where_none_is_planted() -> None:
    assert found(SEEDS) is None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    for edit in bug.edits:
        edit.plant(monkeypatch)
    assert found(SEEDS) is not None, "no trial found it"
