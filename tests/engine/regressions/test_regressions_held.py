"""Named cases of held documents and groups: the document changes, and the view keeps the last accepted emission."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from tests.harness.beside import WORLD, Beside
from tests.harness.worlds import World
from tests.oracle.model import Counts
from tests.oracle.reducers import Count, Group
from tests.oracle.tables import Table
from tests.oracle.views import View


def test_a_wrong_kind_holds_what_was_told(both: Beside):
    both("put", "plain", {"id": 1, "g": "a", "gs": ["a"], "v": 5})
    assert both("put", "plain", {"id": 1, "g": "b", "gs": ["b"], "v": True}) == Counts(applied=1, held=1)
    assert list(both.shown("sums")) == list(both.shown("spread")) == ["a"]
    assert both("put", "plain", {"id": 1, "g": {}, "gs": 7, "v": 1}) == Counts(applied=1, held=1)
    assert list(both.shown("sums")) == list(both.shown("spread")) == ["a"]
    both("put", "plain", {"id": 1, "g": "c", "gs": [], "v": 6})
    assert both.shown("sums")["c"]["total"] == 6
    assert both.shown("spread") == {}


def test_what_is_held_survives_reopening(tmp_path: Path):
    with ps.open(WORLD.app(), tmp_path / "state") as engine:
        both = Beside(engine, WORLD)
        both("put", "plain", {"id": 1, "g": "a", "gs": [], "v": 5})
        both("put", "plain", {"id": 1, "g": "b", "gs": [], "v": "many"})
    with ps.open(WORLD.app(), tmp_path / "state") as engine:
        both.engine = engine
        both.check()
        both("delete", "plain", 1)
        assert both.shown("sums") == {}


class Reciprocals:
    """A user's group that cannot lift 0."""

    zero = 0

    def lift(self, value: int) -> int:
        return 60 // value

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


def test_a_reducer_error_holds_its_group_alone(place: Path | None):
    view = View("r", "plain", {"own": Group("v", Reciprocals()), "n": Count()}, key="g")
    world = World((Table("plain", "id"),), (view,))
    with ps.open(world.app(), place) as engine:
        both = Beside(engine, world)
        both("put_many", "plain", [{"id": 1, "g": "a", "v": 2}, {"id": 2, "g": "b", "v": 3}])
        both.engine.put("plain", {"id": 3, "g": "a", "v": 0})
        both.model.put("plain", {"id": 3, "g": "a", "v": 0})
        with engine.snapshot() as snap:
            held, good = snap.view("r").row("a"), snap.view("r").row("b")
        assert (bool(held.held), held.value["own"]) == (True, 30)
        assert (bool(good.held), good.value["own"]) == (False, 20)
        both("delete", "plain", 3)
        assert both.shown("r") == {"a": {"own": 30, "n": 1}, "b": {"own": 20, "n": 1}}


def test_a_map_that_changes_its_mind_takes_back_what_it_said(place: Path | None):
    said = iter(["one", "two", "three"])
    app = ps.App("fickle")
    app.table("plain", key="id").view("v", reduce=ps.count())(lambda doc: [next(said)])
    with ps.open(app, place) as engine:
        for n, wanted in enumerate(["one", "two"]):
            engine.put("plain", {"id": 1, "n": n})
            with engine.snapshot() as snap:
                assert dict(snap.view("v").items()) == {wanted: 1}
        engine.delete("plain", 1)
        with engine.snapshot() as snap:
            assert dict(snap.view("v").items()) == {}


class Choosy(Reciprocals):
    """A group without a result above 100."""

    def result(self, total: int) -> int:
        if total > 100:
            raise OverflowError(total)
        return total


def test_a_rollup_that_a_users_group_cannot_tell_is_held(place: Path | None):
    app = ps.App("choosy")
    table = app.table("plain", key="id")
    table.view("r", key=("g", "id"), reduce={"own": ps.group(Choosy(), "v"), "n": ps.count()})
    with ps.open(app, place) as engine:
        engine.put_many("plain", [{"id": key, "g": "ab"[key % 2], "v": 1 + key} for key in range(4)])
        with engine.snapshot() as snap:
            rows = [(row.key, row.value, row.held) for row in snap.view("r").rollup()]
            both = [(row.value, row.held) for row in snap.view("r").rollup(0)]
    assert rows == [(("a",), {"own": 80, "n": 2}, False), (("b",), {"own": 45, "n": 2}, False)]
    assert both == [(None, True)]
