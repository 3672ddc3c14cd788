"""Values by slot, with texts in a pool, beside a dict of values."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.gateway import table_memory
from penstock.gateway.table_memory import SlotColumn
from penstock.mapreduce import Column, Groups

SLOTS = 60


def value(rng: Random) -> Any:
    """Return a text, most often, or a value of another kind."""
    text = f"t{rng.randrange(200)}"
    return rng.choice([text, text, text, "", 7, 7.0, None, True, Decimal("1.5"), 1 << 70, [text], {"a": text}])


@pytest.mark.parametrize("seed", range(6))
def test_a_column_has_the_last_value_of_each_slot(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_memory, "_SPARE_TEXTS", 5)  # so that unused texts are dropped often
    rng, column, wanted = Random(seed), SlotColumn(SLOTS), dict[int, Any]()
    pools = set[int]()
    texts_only = seed % 2 == 0
    for _ in range(150):
        slots = rng.sample(range(SLOTS), rng.randrange(1, SLOTS))
        values = [f"t{rng.randrange(200)}" if texts_only else value(rng) for _ in slots]
        if rng.random() < 0.3:
            for slot, own in zip(slots, values, strict=True):
                column.put_one(slot, own, True, SLOTS)
        else:
            column.put(np.array(slots), Column.of(values), SLOTS)
        wanted.update(zip(slots, values, strict=True))
        pools.add(id(column.pool))
        assert len(column.pool) <= 2 * SLOTS + 5 + SLOTS
        known = rng.sample(list(wanted), rng.randrange(1, len(wanted) + 1))
        taken = column.take(np.array(known))
        expected = [wanted[slot] for slot in known]
        assert exact(taken.values()) == exact(expected)
        assert exact([column.take_one(slot) for slot in known]) == exact(expected)
    assert len(pools) > 1, "the pool was made anew"


@pytest.mark.parametrize("seed", range(6))
def test_a_column_of_pooled_texts_is_like_any_column(seed: int) -> None:
    rng, column = Random(seed), SlotColumn(SLOTS)
    slots = np.arange(SLOTS)
    values = [f"t{rng.randrange(9)}" if seed % 2 else value(rng) for _ in range(SLOTS)]
    column.put(slots, Column.of(values), SLOTS)
    pooled, plain = column.take(slots), Column.of(values)
    at = np.array(rng.choices(range(SLOTS), k=100))
    mask = np.array([rng.random() < 0.5 for _ in range(SLOTS)])
    for own in (at, mask, at[:3]):
        assert exact(pooled.take(own).values()) == exact(plain.take(own).values())
    assert exact(pooled.part(5, 40).values()) == exact(plain.part(5, 40).values())
    for parts in ([pooled, pooled.take(at)], [pooled, plain], [plain.part(0, 9), pooled]):
        assert exact(Column.join(parts).values()) == exact([v for part in parts for v in part.values()])
    other = at[::-1].copy()
    assert pooled.equal(at, other).tolist() == plain.equal(at, other).tolist()
    if seed % 2:
        groups, others = Groups(), Groups()
        for _ in range(2):
            assert [groups.value(code) for code in pooled.codes(groups)] == values
            assert [others.value(code) for code in pooled.take(at).codes(others)] == [values[i] for i in at]


def exact(values: list[Any]) -> list[tuple[type, Any]]:
    """Return values with their types, since 1 equals 1.0 and true."""
    return [(type(own), own) for own in values]


@pytest.mark.parametrize("other", [["a"], {"a": 1}, 7, None, True, b"Sue"])
@pytest.mark.parametrize("many", [1, 40])
def test_a_value_of_another_kind_replaces_a_text(other: object, many: int) -> None:
    """Texts are compared by their numbers in a pool, where a list can't be looked up."""
    app = ps.App("shop")
    users = app.table("users", key="id")
    users.view("largest", key="city", value="name", reduce=ps.max())
    with ps.open(app, None) as engine:
        for i, name in enumerate(["Sue", other, "Joe", other, "Joe"]):
            docs = [{"id": key, "city": "Oslo", "name": name if key % 2 else "Bob"} for key in range(many)]
            counts = engine.put_many("users", docs)
            assert counts.applied == (many if i == 0 else many // 2)
            with engine.snapshot() as snap:
                assert [snap.table("users")[key]["name"] for key in range(many)] == [doc["name"] for doc in docs]
        assert not engine.check().wrong
