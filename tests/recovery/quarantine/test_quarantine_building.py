"""Quarantine of views during a build: it lists the entries that readers see. Retries and drops wait for its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import penstock as ps
from penstock.engine import open_on
from tests.harness.histories import LastingStore
from tests.harness.worlds import TINY
from tests.recovery.quarantine.held_worlds import Fails, Odd, shown

SEED = 7


def app(version: str, bad: Fails) -> ps.App:
    made = ps.App("built")
    table = made.table("docs", key="id")

    @table.view(reduce=ps.count(), version=version)
    def names(doc: dict[str, Any]) -> Iterator[Any]:
        if bad.now and doc["name"] == "bad":
            raise ValueError("it is bad")
        yield doc["name"], version

    table.view("owed", key="name", reduce=ps.group(Odd(bad), "n"), version=version)
    return made


def test_a_view_that_is_being_built_is_left_alone() -> None:
    store, bad = LastingStore(), Fails()
    engine, _ = open_on(app("1", bad), store, TINY, SEED)
    engine.put_many("docs", [{"id": i, "name": ("bad" if i == 7 else "good"), "n": 2 + (i == 7)} for i in range(20)])
    before = list(engine.quarantine())
    assert {(e.view, e.key) for e in before} == {("names", 7), ("owed", "bad")}
    engine.close()
    engine, core = open_on(app("2", bad), store, TINY, SEED)
    core.build_step(3)
    assert list(engine.quarantine()) == before
    for settled in (engine.retry(), engine.retry([e.id for e in before])):
        assert (settled.left, settled.released) == (2, 0)
        assert all("being built anew" in left.reason for left in settled.why)
    [document] = engine.quarantine("document")
    assert engine.drop(document.id).left == 1
    while core.build_step(3):
        pass
    assert {(e.view, e.key) for e in engine.quarantine()} == {("names", 7), ("owed", "bad")}
    bad.now = False
    assert str(engine.retry()) == "2 released"
    assert shown(engine, "names") == {"good": 19, "bad": 1}
    assert shown(engine, "owed") == {"good": 38, "bad": 3}


def test_what_rests_is_told_to_the_view_that_is_built() -> None:
    store, bad = LastingStore(), Fails()
    engine, _ = open_on(app("1", bad), store, TINY, SEED)
    engine.put_many("docs", [{"id": 1, "name": "bad", "n": 2}, {"id": 2, "name": "good", "n": 2}])
    assert engine.drop(view="names").dropped == 1
    engine.close()
    bad.now = False
    engine, core = open_on(app("2", bad), store, TINY, SEED)
    while core.build_step(3):
        pass
    assert shown(engine, "names") == {"bad": 1, "good": 1}
    assert list(engine.quarantine(resting=True)) == []
    assert engine.status()["views"]["names"]["resting"] == 0
