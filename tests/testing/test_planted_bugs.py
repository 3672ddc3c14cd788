"""Each planted bug is found by its seed, and by no seed of any where none is planted."""

import pytest

from tests.engine.test_planted_bugs import Bug
from tests.testing.planted import BUGS, OWN, finds, pins, planted

PINS = pins()
PINNED = [bug for bug in BUGS if bug.name in PINS]


def test_there_are_enough_and_each_has_its_seed() -> None:
    assert len(PINNED) >= 20
    assert {bug.name for bug in OWN} <= PINS.keys()


@pytest.mark.parametrize("seed", sorted(set(PINS.values())))
def test_nothing_is_found_where_nothing_was_planted(seed: int) -> None:
    failure = finds(seed)
    assert failure is None, str(failure)


@pytest.mark.parametrize("bug", PINNED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with planted(bug):
        assert finds(PINS[bug.name]) is not None
