"""The feed read as columns equals the feed read change by change: the same changes, with the same types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import decode_key
from penstock.core.reading.store_snapshot import Snapshot
from penstock.engine import Core, open_on
from penstock.mapreduce import RowReading, RowState, read_feed, same_result
from penstock.views import ABSENT
from tests.harness.histories import LastingStore
from tests.harness.planting import Edit

Doc = dict[str, Any]
Plain = tuple[int, str, Any, Any, Any, tuple[type, type]]


def app() -> ps.App:
    out = ps.App("feed")
    docs = out.table("docs", key="id")
    docs.view("n", key="g", reduce=ps.count())
    docs.view("some", key="g", reduce=ps.count("v"))
    docs.view("sum", key="g", value="v", reduce=ps.sum())
    docs.view("pairs", key=("g", "id"), reduce={"s": ps.sum("v"), "m": ps.mean("v"), "d": ps.stddev("v")})
    docs.view("bins", key="g", reduce={"h": ps.histogram([0, 1], "v"), "max": ps.max("v"), "n": ps.count()})
    docs.view("index", key="g", value="v", reduce=None)
    return out


def one_by_one(core: Core) -> list[Plain]:
    """Return the whole feed, each change computed by itself from the states in its row."""
    out: list[Plain] = []
    with Snapshot(core) as snap:
        generations = snap.schema.generations(snap.schema.followed())
        codecs: dict[int, RowReading] = {number: codec for number, (_, codec) in generations.items()}

        def shown(view: int, state: RowState | None) -> Any:
            return ABSENT if state is None else codecs[view].result(state)

        for position, change in read_feed(snap.reader(), 0, codecs):
            old, new = shown(change.view, change.old), shown(change.view, change.new)
            if (old is ABSENT) != (new is ABSENT) or not same_result(old, new):
                name = generations[change.view][0]
                out.append((position, name, decode_key(change.group), old, new, (type(old), type(new))))
    return out


def in_columns(engine: ps.Engine) -> list[Plain]:
    return [
        (*own, (type(own[3]), type(own[4])))
        for part in engine.feed()
        for own in zip(part.positions, part.views, part.groups, part.old, part.new, strict=True)
    ]


groups = st.sampled_from([0, 1, -7, 1 << 40, 1 << 70, 0.5, "a", "b" * 500, "é", None, True])
values = st.sampled_from([0, 1, 2, -1, 0.5, 1.0, 1 << 70, Decimal(1), None])
docs = st.builds(lambda i, g, v: {"id": i, "g": g, "v": v}, st.integers(0, 60), groups, values)
batches = st.lists(st.lists(docs, min_size=1, max_size=80), min_size=1, max_size=8)


def run(history: list[list[Doc]]) -> None:
    engine, core = open_on(app(), LastingStore())
    for batch in history:
        engine.put_many("docs", batch)
    shown_changes = in_columns(engine)
    assert shown_changes == one_by_one(core)
    assert [(c.position, c.view, c.group, c.old, c.new) for c in engine.changes()] == [own[:5] for own in shown_changes]


@settings(max_examples=60)
@given(batches)
def test_columns_tell_what_states_do(history: list[list[Doc]]) -> None:
    run(history)


def many(kind: Any) -> list[list[Doc]]:
    """Return commits of many groups. Most results stay equal, some with another type."""
    first = [{"id": i, "g": kind(i), "v": 1 if i % 3 else None} for i in range(300)]
    return [first, [doc | {"v": 1.0 if doc["id"] % 5 else doc["v"]} for doc in first], [{**first[7], "g": kind(-1)}]]


@pytest.mark.parametrize("kind", [int, str, float, lambda i: (i, "x"), lambda i: i if i % 2 else f"{i}"])
def test_groups_of_any_kind(kind: Any) -> None:
    run(many(kind))


BUGS = {
    "an equal result of another type stays": (
        "mapreduce.fold.feed_rows:are_apart",
        "not same_result(old, new)",
        "old != new",
    ),
    "what lanes don't tell is left out": (
        "mapreduce.fold.feed_rows:result_changes",
        "for place, *payloads in odd:",
        "for place, *payloads in list[Any]():",
    ),
    "a row that is gone has a result": (
        "mapreduce.fold.feed_rows:row_results",
        "rows[:, 0] != 0",
        "rows[:, 0] == rows[:, 0]",
    ),
    "a sum of nothing is 0": ("mapreduce.reducers.invertible:Sum.results", "if counted.all():", "if True:"),
    "negative groups lose their sign": (
        "cache.encoding.key_numbers:read_ints",
        "np.where(negative, -size, size)",
        "size",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Edit(*BUGS[bug]).plant(monkeypatch)
    with pytest.raises((AssertionError, ps.PenstockError)):
        run(many(lambda i: -i))
