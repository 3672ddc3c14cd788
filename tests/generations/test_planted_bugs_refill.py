"""Bugs planted in the refill of tables from another store: its tests must find each of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.generations import test_refill
from tests.harness.planting import Bug

BUGS = [
    Bug("what came at the beginning is left out", "generations.refill.Refilling._carry", ">= since", "> since"),
    Bug("nothing is laid over", "generations.refill.Refilling._carry", "if at.size:", "if not at.size:"),
    Bug(
        "a source skips a gap",
        "generations.refill.Refilling._sources",
        "if connects else offset",
        "if True else offset",
    ),
    Bug("a source stays behind", "generations.refill.Refilling._sources", "max(offset, now", "min(offset, now"),
    Bug(
        "sources are not set",
        "core.generation_switch.switch_refill",
        "{**state.sources, **ready.sources}",
        "state.sources",
    ),
    Bug(
        "numbers are not noted",
        "generations.refill.Refilling.allot",
        "self._refill.sources, filling)",
        "self._refill.sources, {})",
    ),
    Bug(
        "the old number stays",
        "core.generation_switch.switch_refill",
        "number=filling[name])",
        "number=entries[name].number)",
    ),
    Bug("leftovers stay at opening", "generations.refill.without_leftover", "not refill.filling", "refill.filling"),
    Bug("repeats are not laid over", "generations.refill.Refilling.steps", "self.repeat()", "pass"),
    Bug(
        "late records are no repeats",
        "gateway.refill_repeats.record_repeats",
        "if own in _UNCHANGED:",
        "if own == _UNCHANGED[0]:",
    ),
    Bug("an absent key is passed over", "gateway.refill_repeats.carry_repeats", "absent_line(key, None)", "b''"),
    Bug("repeats stay for the next refill", "generations.refill.begin", "writer.clear(", "str("),
    Bug("held groups are lost", "core.generation_switch.switch_refill", "added(state.rejected, ", "dict("),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever shows that it is there
        found(monkeypatch, tmp_path)


def found(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Run the quick examples."""
    for name, own in (("a", (30, 80, 50, 80, ())), ("b", (60, 80, 50, 50, (test_refill.SOURCE,)))):
        (folder / name).mkdir()
        test_refill.test_where_a_source_goes_on(folder / name, test_refill.ONE, *own)
    (folder / "c").mkdir()
    test_refill.test_what_is_in_quarantine_stays_and_counts_as_older(folder / "c")
    (folder / "e").mkdir()
    test_refill.test_writes_that_change_nothing_meanwhile_are_kept(folder / "e", test_refill.ONE)
    (folder / "d").mkdir()
    test_refill.test_killed_at_any_step_it_is_what_it_was_and_may_be_refilled_again(folder / "d", monkeypatch)
    assert sys.modules["penstock.generations.refill"]._STEP_LINES == 4
