"""Two histories with the same winning version of every key leave the same content, down to the digest.

The second history has another order, other batches, some repeated records, and JSON lines instead of dicts. In a table
without ts, arrival is the version, so each key keeps its order there. In a table with ts, no two records of a key have
an equal ts, because arrival would decide between them. The law exempts held documents, so every document can be mapped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.harness import strategies as some
from tests.harness.checks import check, counts_of, identities
from tests.harness.worlds import RICH, TINY, TOLD
from tests.oracle.tables import Table
from tests.oracle.values import rank


@dataclass(frozen=True)
class Step:
    """A put document, or a deleted key with its ts."""

    table: Table
    key: Any
    doc: dict[str, Any] | None
    ts: Any


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Draw steps over all tables. Each step of a table with ts has its own ts."""
    steps: list[Step] = []
    moments = draw(st.permutations(range(1, 41)))
    for moment in moments[: draw(st.integers(0, 40))]:
        table = draw(st.sampled_from(TOLD))
        doc = draw(some.documents(table, [moment], plain_json=True, wrong=False))
        key = some.key_in(table, doc)
        gone = draw(st.integers(0, 3)) == 0
        steps.append(Step(table, key, None if gone else doc, moment if table.ts else None))
    return steps


def another_order(steps: list[Step], random: Random) -> list[Step]:
    """Shuffle the steps, but keep the order of each key in tables without ts. Repeat some steps with ts."""
    twice = [step for step in steps if step.table.ts and random.random() < 0.3]
    places = [(random.random(), step) for step in steps + twice]
    queues: dict[Any, list[Step]] = {}
    for step in steps:
        if not step.table.ts:
            queues.setdefault((step.table.name, rank(_tuple(step.key))), []).append(step)
    shuffled = [step for _, step in sorted(places, key=lambda place: place[0])]
    return [s if s.table.ts else queues[(s.table.name, rank(_tuple(s.key)))].pop(0) for s in shuffled]


def _tuple(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def run(engine: Any, steps: list[Step], random: Random | None) -> None:
    """Put the steps one by one, or in batches of any size with JSON lines among them."""
    at = 0
    while at < len(steps):
        size = random.randint(1, 12) if random else 1
        with engine.batch() as batch:
            for step in steps[at : at + size]:
                if step.doc is None:
                    batch.delete(step.table.name, step.key, ts=step.ts)
                elif random and random.random() < 0.5:
                    batch.put_many(step.table.name, [json.dumps(step.doc).encode()])
                else:
                    batch.put(step.table.name, step.doc)
        at += size


def shown(engine: Any) -> dict[str, Any]:
    """Return the rows of every view and the documents of every table."""
    with engine.snapshot() as snap:
        docs = {t.name: dict(identities(snap.table(t.name).items())) for t in RICH.tables}
        return docs | {view.name: identities(snap.view(view.name).items()) for view in RICH.views}


@settings(max_examples=settings().max_examples // 2)
@given(steps=histories(), seed=st.integers(0, 1 << 32))
def test_the_same_winners_leave_the_same_content(steps: list[Step], seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder, ps.open(RICH.app(), None) as one, ps.open(RICH.app(), None) as other:
        run(one, steps, None)
        run(other, another_order(steps, random), random)
        assert shown(other) == shown(one)
        assert other.digest() == one.digest()
        with ps.open(RICH.app(), Path(folder) / "state", limits=TINY) as third:
            run(third, another_order(steps, random), random)
            assert shown(third) == shown(one)
            assert third.digest() == one.digest()


@settings(max_examples=settings().max_examples // 4)
@given(steps=histories(), seed=st.integers(0, 1 << 32))
def test_tickets_leave_the_same_content_as_waiting(steps: list[Step], seed: int) -> None:
    with TemporaryDirectory() as folder, ps.open(RICH.app(), None) as one:
        run(one, steps, None)
        with ps.open(RICH.app(), Path(folder) / "state", durability="group") as group:
            tickets = [
                group.delete(step.table.name, step.key, ts=step.ts)
                if step.doc is None
                else group.put(step.table.name, step.doc)
                for step in steps
            ]
            group.flush()
            assert all(ticket.done() for ticket in tickets)
            model = RICH.model()
            for step, ticket in zip(steps, tickets, strict=True):
                if step.doc is None:
                    wanted = model.delete(step.table.name, step.key, step.ts)
                else:
                    wanted = model.put(step.table.name, step.doc)
                assert counts_of(ticket) == wanted
            check(group, model)
            assert group.digest() == one.digest()


def test_another_winner_is_another_digest() -> None:
    digests = set()
    for doc in (
        {"id": 1, "name": "Sue", "ts": 1},
        {"id": 1, "name": "Sue", "ts": 2},
        {"id": 1.5, "name": "Sue", "ts": 1},
    ):
        with ps.open(RICH.app(), None) as engine:
            engine.put("users", doc)
            digests.add(engine.digest())
            engine.delete("users", doc["id"], ts=9)
            digests.add(engine.digest())
            engine.put("users", doc | {"ts": 10})
            digests.add(engine.digest())
    assert len(digests) == 7, "3 documents, 2 tombstones by key and 2 documents at ts 10 differ"
