"""The measured matches of a join equal those of a count in plain Python; planted bugs are found."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.engine import JoinWeight
from tests.harness.planting import Bug

VALUES = [None, 0, 1, 1.0, 2, "a", "é" * 400, True, [1, None]]
Rows = list[dict[str, Any]]


def app(composite: bool, how: Any) -> ps.App:
    """Return an app with one join, by one value or by two."""
    made = ps.App("weighed")
    left, right = made.table("left", key="id"), made.table("right", key="id")
    on = [("a.x", "b.x"), ("a.y", "b.y")] if composite else [("a.x", "b.x")]
    made.join("both", a=left, b=right, on=on, how=how).view("n", key=("a.x",), reduce=ps.count())
    return made


def documents(draw: Random, n: int) -> Rows:
    return [{"id": i, "x": draw.choice(VALUES), "y": draw.choice(VALUES[:4])} for i in range(n)]


def value_of(doc: dict[str, Any], composite: bool) -> Any:
    """Return the condition value as text, or None."""
    parts = [doc["x"], doc["y"]] if composite else [doc["x"]]
    return None if None in parts else repr([1 if type(part) is float else part for part in parts])


def measured(left: Rows, right: Rows, composite: bool, how: str = "inner", partitions: int | None = None) -> JoinWeight:
    with ps.open(app(composite, how), None, partitions=partitions) as engine:
        engine.put_many("left", left)
        engine.put_many("right", right)
        engine.settle()
        with engine.snapshot() as snap:
            return snap.join_weight("both", 3)


def check(seed: int, composite: bool, how: str = "inner", partitions: int | None = None) -> None:
    draw = Random(seed)
    left, right = documents(draw, 60), documents(draw, 12)
    found = measured(left, right, composite, how, partitions)
    one, other = (Counter(filter(None, (value_of(doc, composite) for doc in docs))) for docs in (left, right))
    pairs = {value: one[value] * other[value] for value in one.keys() & other.keys()}
    assert (found.values, found.pairs) == (len(pairs), sum(pairs.values()))
    for side, own, others in ((found.sides[0], one, other), (found.sides[1], other, one)):
        assert (side.entries, side.matching) == (own.total(), sum(n for value, n in own.items() if value in pairs))
        assert side.average == pytest.approx(sum(pairs.values()) / own.total())
        assert side.greatest == max(others[value] for value in pairs)
        assert side.bytes > 0
    assert [a * b for _, a, b in found.largest] == sorted(pairs.values(), reverse=True)[:3]
    for value, a, b in found.largest:
        parts = [list(part) if type(part) is tuple else part for part in (value if composite else [value])]
        assert (one[repr(parts)], other[repr(parts)]) == (a, b), value


@pytest.mark.parametrize("how", ["inner", "left", "full", "anti"])
@pytest.mark.parametrize("composite", [False, True])
def test_matches_are_those_of_a_count(composite: bool, how: str) -> None:
    check(1, composite, how)


def test_partitions_are_measured_together() -> None:
    check(2, False, partitions=3)


def test_a_side_that_is_looked_up_by_key_has_no_bytes() -> None:
    made = ps.App("keyed")
    sides = {name: made.table(name, key="id") for name in ("a", "b")}
    made.join("both", **sides, on={"a.x": "b.id"}).view("n", key="a.x", reduce=ps.count())
    with ps.open(made, None) as engine:
        engine.put_many("a", [{"id": i, "x": i % 3} for i in range(9)])
        engine.put_many("b", [{"id": 1}, {"id": 2}, {"id": 7}])
        with engine.snapshot() as snap:
            found = snap.join_weight("both", 1)
    assert (found.pairs, found.values) == (6, 2)
    assert [(side.entries, side.matching, side.bytes > 0) for side in found.sides] == [(9, 6, True), (3, 2, False)]


def test_an_empty_join_has_no_matches() -> None:
    found = measured([], [{"id": 1, "x": 1}], False)
    assert (found.pairs, found.largest, [side.entries for side in found.sides]) == (0, (), [0, 1])


WEIGHT = "core.reading.join_weights:"
BUGS = [
    Bug("a null value counts", f"{WEIGHT}_matching", "entries if null is None else entries.take(~null)", "entries"),
    Bug("matches are those of the own side", f"{WEIGHT}weigh_join", "(left, counts[1])", "(left, counts[0])"),
    Bug("one partition is measured", f"{WEIGHT}_hashes", "for join, reader in parts", "for join, reader in parts[:1]"),
    Bug("the smallest values are shown", f"{WEIGHT}weigh_join", "np.argsort(-pairs", "np.argsort(pairs"),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        check_all()


def check_all() -> None:
    check(1, True, "full")
    check(2, False, partitions=3)
