import dataclasses
import pickle
from collections.abc import Callable

import pytest

from penstock.views.answers.write_report import KEPT, Counts, Rejection


def _rejection(line: int) -> Rejection:
    return Rejection("users", f"line {line}", "not JSON")


def test_counts_add_up() -> None:
    both = Counts(1, 2, 3, 1, 1, (_rejection(1),)) + Counts(10, 20, 30, 5, 1, (_rejection(2),))
    assert both == Counts(11, 22, 33, 6, 2, (_rejection(1), _rejection(2)))
    assert both.records == 11 + 22 + 33 + 2
    assert sum([both, both], Counts()).applied == 22


def test_only_the_first_rejections_are_kept() -> None:
    first = Counts(rejected=KEPT - 1, rejections=tuple(map(_rejection, range(KEPT - 1))))
    more = Counts(rejected=3, rejections=tuple(map(_rejection, (1000, 1001, 1002))))
    both = first + more
    assert both.rejected == KEPT + 2
    assert len(both.rejections) == KEPT
    assert both.rejections[-1] == _rejection(1000)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (Counts(), "no records"),
        (Counts(applied=12345), "12,345 applied"),
        (Counts(1, 2, 3), "1 applied, 2 equal, 3 late"),
        (Counts(applied=5, held=2), "5 applied; 2 held"),
        (Counts(rejected=1, rejections=(_rejection(7),)), "1 rejected (users, line 7: not JSON)"),
        (Counts(rejected=2, rejections=(_rejection(7), _rejection(8))), "2 rejected (users, line 7: not JSON, …)"),
    ],
)
def test_counts_have_a_readable_text(counts: Counts, text: str) -> None:
    assert str(counts) == text


def test_counts_are_frozen_and_slotted() -> None:
    for thing in (Counts(1), _rejection(1)):
        name = dataclasses.fields(thing)[0].name
        change: Callable[[], None] = lambda: setattr(thing, name, 2)  # noqa: B023, E731
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
        assert not hasattr(thing, "__dict__")
        assert pickle.loads(pickle.dumps(thing)) == thing
