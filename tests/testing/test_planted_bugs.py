"""The seed of each planted bug finds it, by the right check. Without a planted bug, no seed finds anything."""

import pytest

from tests.harness.planting import Bug
from tests.testing.planted import BUGS, OWN, finds, pins, planted

PINS = pins()
PINNED = [bug for bug in BUGS if bug.name in PINS]


def test_there_are_enough_and_each_has_its_seed() -> None:
    assert len(PINNED) >= 20
    assert {bug.name for bug in OWN} <= PINS.keys()
    assert PINS.keys() <= {bug.name for bug in BUGS}


@pytest.mark.parametrize("seed", sorted({pin.seed for pin in PINS.values()}))
def test_nothing_is_found_where_nothing_was_planted(seed: int) -> None:
    failure = finds(seed)
    assert failure is None, str(failure)


@pytest.mark.parametrize("bug", PINNED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with planted(bug):
        found = finds(PINS[bug.name].seed)
    assert found is not None
    assert found.wrong.first.check == PINS[bug.name].check
