"""The engine for unit tests of views."""

from typing import Any

import pytest

import penstock as ps
from penstock.testing import TestEngine

app = ps.App("shop")
users = app.table("users", key="id")


@users.view(reduce=ps.count())
def initials(user: Any) -> Any:
    yield user["name"][0]


def test_three_lines() -> None:
    engine = TestEngine(app)
    engine.put("users", {"id": 1, "name": "Sue"}, {"id": 2, "name": "Sam"}, {"id": 3, "name": "Joe"})
    assert engine.view("initials") == {"J": 1, "S": 2}


def test_documents_may_be_given_at_once_and_a_view_in_the_place_of_its_app() -> None:
    with TestEngine(initials, users=[{"id": 1, "name": "Sue"}]) as engine:
        assert engine.delete("users", 1).applied == 1
        assert engine.view("initials") == {}
        assert engine.engine.status()["position"] == 2


def test_what_can_not_be_taken_raises() -> None:
    engine = TestEngine(app)
    with pytest.raises(ps.BatchRejected):
        engine.put("users", {"name": "Sue"})
    engine.put("users", {"id": 7, "name": ""}, {"id": 8, "name": "Sue"})
    with pytest.raises(AssertionError, match="view 'initials' can't take document 7: IndexError"):
        engine.view("initials")
    assert engine.view("initials", held=True) == {"S": 1}


def test_a_map_alone() -> None:
    assert TestEngine(app).told("initials", {"name": "Sue"}) == ["S"]
    with pytest.raises(KeyError):
        TestEngine(app).told("initials", {})


def test_pytest_does_not_take_it_for_a_test() -> None:
    assert TestEngine.__test__ is False
