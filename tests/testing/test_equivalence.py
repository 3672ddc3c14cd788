"""A history that is crashed at every place ends like the history without a crash."""

import pytest

import penstock as ps
from penstock.testing import Fault, assert_crash_equivalent
from tests.testing.planted import BUGS, planted

HISTORY = [
    ("users", {"id": 7, "name": "Sue", "ts": 1}),
    [("users", {"id": 7, "name": "Joe", "ts": 2}), ps.Record("users", 8, {"id": 8, "name": "Joe", "ts": 1})],
    ("users", 8, None),
]


def an_app() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("namecount", key="name", reduce=ps.count())
    names.view("lengths", reduce=ps.sum())(lambda row: [(len(row.key), row.value)])
    return app


def test_every_place_is_tried() -> None:
    runs = assert_crash_equivalent(an_app(), HISTORY)
    assert runs > 30
    assert assert_crash_equivalent(an_app(), HISTORY, most=10) <= 10
    assert assert_crash_equivalent(an_app(), HISTORY[:1], faults=(Fault.POWER, Fault.INTERRUPT)) > 10


def test_what_differs_is_told() -> None:
    (bug,) = (b for b in BUGS if b.name == "the state is written in a transaction of its own")
    with planted(bug), pytest.raises(AssertionError, match="the process is killed at") as found:
        assert_crash_equivalent(an_app(), HISTORY)
    assert "what happened:" in str(found.value)


@pytest.mark.parametrize("wrong", [7, ("users",), ("users", 7, "Sue")])
def test_what_is_no_record_is_refused(wrong: object) -> None:
    with pytest.raises(ps.DefinitionError, match="is no record; write"):
        assert_crash_equivalent(an_app(), [wrong])


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(ps.UnknownName):
        assert_crash_equivalent(an_app(), [("user", {"id": 1})])
