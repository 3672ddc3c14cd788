"""Random work between the steps of a build: the store ends as one that the new app filled.

Batches, deletions, lost caches, lost engines, reopenings, and steps of any size come in any order. During the build
readers see unchanged rows of the views that are replaced, and right rows of the others. The feed, followed from any
position, gives the current rows.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.mapreduce import small_trees
from penstock.spout import Record
from tests.generations.app_pair import CHANGED, DROPPED, SAME, Moving, first, followed, second, shown

KEYS = st.integers(0, 8)
FIELDS = {
    "g": st.sampled_from(["Sue", "Joe", "Bob", "x" * 450, None]),
    "h": st.sampled_from([1, 2, None]),
    "v": st.sampled_from([1, 2, -3, 0.5, None]),
    "tags": st.lists(st.sampled_from("ab"), max_size=3),
}


@st.composite
def records(draw: Any) -> Record:
    """Draw a document or a deletion with a small ts."""
    table, key = draw(st.sampled_from(["few", "users", "orders", "plain"])), draw(KEYS)
    ts = {"ts": draw(st.integers(0, 9))} if table in ("few", "users") else {}
    if draw(st.integers(0, 6)) == 0:
        return Record(table, key, None, ts.get("ts"))
    return Record(table, key, {"id": key, **ts, **draw(st.fixed_dictionaries({}, optional=FIELDS))})


FEW = st.sampled_from([0, 16])  # the largest batch that is taken record by record
BATCHES = st.lists(records(), min_size=1, max_size=5)
STEPS = st.one_of(
    BATCHES,
    st.integers(1, 6),
    st.sampled_from(["forget", "open"]),
)


def _rows(engine: ps.Engine) -> dict[tuple[str, Any], Any]:
    with engine.snapshot() as snap:
        return {(name, row.key): row.value for name in snap.schema.views for row in snap.view(name)}


class Watched(Moving):
    """A store that remembers the rows that readers saw at some positions."""

    def __init__(self, batches: list[list[Record]], few: int) -> None:
        super().__init__(batches, few)
        self.marks: list[tuple[int, dict[tuple[str, Any], Any]]] = []

    def mark(self) -> None:
        with self.engine.snapshot() as snap:
            self.marks.append((snap.position, _rows(self.engine)))

    def do(self, step: Any) -> None:
        """Put a batch, do a step of this number of documents, or lose memory."""
        if isinstance(step, int):
            self.core.build_step(step)
        elif step == "forget":
            for node in self.core.tables.values():
                node.forget()
        elif step == "open":
            self.open()
        else:
            self.take(step)

    def check_feed(self) -> None:
        rows = _rows(self.engine)
        for position, before in self.marks:
            assert followed(self.engine.changes(since=position), dict(before)) == rows


@settings(max_examples=30)
@given(before=st.lists(BATCHES, max_size=6), steps=st.lists(STEPS, max_size=12), few=FEW)
def test_a_store_on_its_way_is_one_of_the_new_app(before: list[list[Record]], steps: list[Any], few: int) -> None:
    with small_trees():
        moving = Watched(before, few)
        old = shown(moving.engine, [*CHANGED, *DROPPED])
        moving.mark()
        moving.open()
        for step in steps:
            moving.do(step)
            building = moving.engine.status()["building"]
            frozen = [] if building is None else [name for name in building["views"] if name in old]
            assert shown(moving.engine, frozen) == {name: old[name] for name in frozen}
            assert shown(moving.engine, SAME) == shown(moving.fresh(), SAME)
            moving.mark()
        moving.finish()
        moving.check()
        moving.check_feed()


@settings(max_examples=20)
@given(parts=st.lists(st.lists(BATCHES, max_size=3), min_size=2, max_size=4), few=FEW, data=st.data())
def test_a_store_goes_there_and_back(parts: list[list[list[Record]]], few: int, data: st.DataObject) -> None:
    """Apps take turns, at times before the last build is complete."""
    with small_trees():
        moving = Watched([], few)
        for number, batches in enumerate(parts):
            moving.open(first() if number % 2 else second())
            for batch in batches:
                moving.do(batch)
                moving.do(data.draw(st.integers(1, 9)))
            if data.draw(st.booleans()):
                moving.finish()
                moving.mark()
        moving.open()
        moving.finish()
        moving.check()
        moving.check_feed()
