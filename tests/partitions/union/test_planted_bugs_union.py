"""Bugs planted in repairs over several partitions: a repair test finds each of them, and passes without them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import penstock as ps
from tests.harness.planting import Bug
from tests.partitions.stores import placed
from tests.partitions.union import test_union_repairs as trials


def elsewhere(partitioned: Any) -> None:
    """Repair a row in a partition that doesn't own its group."""
    trials.test_a_row_that_lies_with_another_partition("counted", True, True, partitioned)


@dataclass(frozen=True)
class Planted:
    """A bug, the text of the error, and the test that finds it."""

    bug: Bug
    why: str
    by: Callable[[Any], None]


BUGS = [
    Planted(
        Bug(
            "what is on its way counts before it comes",
            "partitions.union.union_repair_site:_take_off",
            "shadows.each[to].take_off(part, wanted)",
            "pass",
        ),
        "AssertionError|fewer contributions|its tree",
        trials.test_what_can_t_be_taken_for_damage_is_taken_once_that_is_repaired,
    ),
    Planted(
        Bug(
            "sums on their way are taken off with their sign",
            "mapreduce.fold.group_deltas:_negated",
            "-x for i, x in enumerate(layout.wide(row))",
            "x for i, x in enumerate(layout.wide(row))",
        ),
        "AssertionError|fewer contributions",
        trials.test_what_can_t_be_taken_for_damage_is_taken_once_that_is_repaired,
    ),
    Planted(
        Bug(
            "what was taken since is not asked",
            "recovery.repair.repair_steps:RepairSteps.replace_groups",
            "!= dict(taken)",
            "== None",
        ),
        "assert not",
        trials.test_a_group_that_has_taken_more_meanwhile_is_left,
    ),
    Planted(
        Bug(
            "contributions count where they were found",
            "recovery.repair.view_rebuild:Shadows.add",
            "groups.owners(self._ranges)[plus.code]",
            "0 * groups.owners(self._ranges)[plus.code]",
        ),
        r"Repaired\(",
        trials.test_what_is_right_is_not_touched,
    ),
    Planted(
        Bug(
            "of a row with another than its owner it is said that it goes",
            "partitions.union.union_repair_site:PartitionedSite._said",
            "if owner == one.place:",
            "if True:",
        ),
        r"Repaired\(",
        elsewhere,
    ),
    Planted(
        Bug(
            "what changes at other partitions is not told",
            "partitions.exchange.exchange:_take",
            "repair_changes.extend(writes.fed)",
            "None",
        ),
        "assert|AssertionError",
        trials.test_what_a_repost_changes_at_others_is_said,
    ),
]
CLEAN = {planted.by: None for planted in BUGS}


def found(by: Callable[[Any], None]) -> str | None:
    """Run a test over three partitions; return its error, or None if it passes."""
    with placed():
        engine: Any = ps.open(trials.shop(), None, partitions=3)
    try:
        with engine:
            engine.put_many("users", [trials.document(i) for i in range(60)])
            by(engine)
    except (Exception, pytest.fail.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("by", CLEAN, ids=lambda by: by.__name__)
def test_none_is_found_where_none_is_planted(by: Callable[[Any], None]) -> None:
    assert found(by) is None


@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.bug.name)
def test_each_is_found_for_what_it_is(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.bug.plant(monkeypatch)
    said = found(planted.by)
    assert said is not None, "nothing found it"
    assert re.search(planted.why, said), said
