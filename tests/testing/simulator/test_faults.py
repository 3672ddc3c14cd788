"""Places are counted. An armed fault strikes once, at its place."""

import pytest

from penstock.cache import StoreFull
from penstock.testing.simulator.faults import Crash, Fault, Interrupted, Points, Strike


def walked(points: Points, *places: str) -> list[str]:
    """Return the places that were passed before the fault."""
    passed: list[str] = []
    try:
        for place in places:
            points.reach(place, may_fail="commit" not in place)
            passed.append(place)
    except (Crash, Interrupted, StoreFull):
        pass
    return passed


@pytest.mark.parametrize("fault", Fault)
def test_it_strikes_at_the_nth_place_and_once(fault: Fault) -> None:
    points = Points()
    points.arm(Strike(fault, 2))
    assert walked(points, "begin", "put a", "put b") == ["begin"]
    assert points.last == (fault, "put a")
    assert not points.armed
    assert walked(points, "begin", "put a") == ["begin", "put a"]
    assert points.passed == 4


def test_a_name_narrows_where() -> None:
    points = Points()
    points.arm(Strike(Fault.CRASH, 1, "commit"))
    assert walked(points, "begin", "put a", "commit before", "commit after") == ["begin", "put a"]


def test_a_full_disk_can_strike_only_where_the_disk_is_asked_for_room() -> None:
    points = Points()
    points.arm(Strike(Fault.FAIL, 1))
    assert walked(points, "commit after") == ["commit after"]
    assert points.armed
    assert walked(points, "put a") == []


def test_what_did_not_strike_can_be_taken_back() -> None:
    points, strike = Points(), Strike(Fault.CRASH, 9)
    assert points.arm(strike) is None
    assert points.arm(None) is strike
    assert str(strike) == "the process is killed at place 9 from here"


def test_no_code_that_catches_exceptions_survives_a_crash() -> None:
    assert not issubclass(Crash, Exception)
    assert not issubclass(Interrupted, Exception)
