"""Rename one document while each fault strikes at five named places: before, at and after each."""

import pytest

from penstock.testing.simulator.checks import Wrong
from penstock.testing.simulator.faults import Fault
from penstock.testing.simulator.named_places import FAULTS, PLACES, SIDES, renamed
from tests.testing.planted import BUGS, planted


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_end_is_right_whatever_strikes(place: str, side: str, fault: Fault) -> None:
    renamed(place, side, fault)


def test_a_place_that_is_never_passed_is_no_success() -> None:
    with pytest.raises(Wrong, match="never passed"):
        renamed("red_bob", "at", Fault.CRASH)


@pytest.mark.parametrize(
    ("bug", "place", "side", "fault"),
    [
        ("the offset is not committed with the data", "red_joe", "after", Fault.CRASH),
        ("memory is believed after a batch that was broken off", "red_sue", "after", Fault.INTERRUPT),
        ("the state is written in a transaction of its own", "red_joe", "after", Fault.CRASH),
    ],
)
def test_a_planted_bug_is_found(bug: str, place: str, side: str, fault: Fault) -> None:
    (found,) = (b for b in BUGS if b.name == bug)
    with planted(found), pytest.raises(Wrong):
        renamed(place, side, fault)
