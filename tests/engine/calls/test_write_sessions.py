"""Numbered writes, conditions and dry runs, on each kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.core.input.write_conditions import number_documents
from penstock.engine import Batch

Open = Callable[[], ps.Engine]


def shop() -> ps.App:
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts="ts")
    orders.view("revenue", key="country", reduce={"n": ps.count(), "total": ps.sum("amount")})
    app.table("notes", key="id")
    return app


@pytest.fixture(params=["lmdb", "memory", "partitions"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ps.Engine]:
    where = tmp_path / "store" if request.param == "lmdb" else None
    more: dict[str, Any] = {"partitions": 3} if request.param == "partitions" else {}
    with ps.open(shop(), where, **more) as made:
        yield made


def order(key: int, ts: int = 1, amount: float = 1) -> dict[str, Any]:
    return {"id": key, "ts": ts, "country": "NO", "amount": amount}


def revenue(engine: ps.Engine) -> Any:
    engine.settle()
    with engine.snapshot() as snap:
        return snap.view("revenue").get("NO")


def test_a_repeated_write_counts_as_late(engine: ps.Engine) -> None:
    session = engine.session("s")
    assert session.put_many("orders", [order(1), order(2)]).applied == 2
    assert session.upto == 2
    assert session.put_many("orders", [order(1, 9, 50), order(2, 9, 50)], number=1).late == 2
    assert revenue(engine) == {"n": 2, "total": 2}
    assert (session.put("orders", order(3)).applied, session.upto) == (1, 3)
    assert (session.delete("orders", 1).applied, session.upto) == (1, 4)
    assert engine.session("s").upto == 4
    assert engine.session("t").upto == 0


def test_a_write_that_overlaps_applies_its_rest(engine: ps.Engine) -> None:
    session = engine.session("s")
    session.put_many("orders", [order(i) for i in range(1, 6)])
    counts = session.put_many("orders", [order(i, 2, 10) for i in range(4, 9)], number=4)
    assert (counts.applied, counts.late, session.upto) == (3, 2, 8)
    assert revenue(engine) == {"n": 8, "total": 5 + 30}


def test_a_gap_is_refused_and_nothing_is_lost(engine: ps.Engine) -> None:
    session = engine.session("s")
    session.put("orders", order(1))
    with pytest.raises(ps.SessionGap, match="has stored number 1, and this write begins with 3; send number 2 first"):
        session.put("orders", order(3), number=3)
    assert session.put("orders", order(2), number=2).applied == 1
    assert session.put("orders", order(3), number=3).applied == 1
    assert revenue(engine)["n"] == 3
    with pytest.raises(ps.DefinitionError, match="numbered from 1"):
        session.put("orders", order(3), number=0)


def test_a_strict_write_that_is_rejected_uses_no_number(engine: ps.Engine) -> None:
    session = engine.session("s")
    with pytest.raises(ps.BatchRejected):
        session.put_many("orders", [order(1), {"ts": 1}], strict=True)
    assert engine.session("s").upto == 0
    assert revenue(engine) is None
    counts = session.put_many("orders", [order(1), {"ts": 1}, order(2)])
    assert (counts.applied, counts.rejected, session.upto) == (2, 1, 3)
    assert session.put_many("orders", [order(1), {"ts": 1}, order(2)], number=1).late == 3


def test_blank_lines_have_no_number(engine: ps.Engine) -> None:
    session = engine.session("s")
    lines = [b'{"id": 1, "ts": 1}', b"", b'{"id": 2, "ts": 1}', b" ", b"x"]
    assert session.put_many("orders", lines).rejected == 1
    assert session.upto == 3
    batch = Batch(skips=[1])
    batch.records.lines = [b"{}", b"{}"]
    assert number_documents({"orders": [batch]}, 7) == 9
    assert batch.run == {0: 7, 2: 8}


def test_a_condition_is_checked_before_a_write(engine: ps.Engine) -> None:
    assert str(engine.put("orders", order(1), conditions={1: ps.ABSENT})) == "1 applied"
    with pytest.raises(ps.ConditionFailed, match="key 1 has a document of ts 1, and the write needs no document"):
        engine.put("orders", order(1, 2), conditions={1: ps.ABSENT})
    assert str(engine.put("orders", order(1, 2, 5), conditions={1: 1, 2: ps.ABSENT})) == "1 applied"
    with pytest.raises(ps.ConditionFailed, match=r"a document of ts 2, .* needs a document of ts 1 \(2 conditions"):
        engine.put_many("orders", [order(1, 3), order(2)], conditions={1: 1, 2: 4})
    assert revenue(engine) == {"n": 1, "total": 5}
    engine.delete("orders", 1, 3, conditions={1: 2})
    assert str(engine.put("orders", order(1, 4), conditions={1: ps.ABSENT})) == "1 applied"
    with pytest.raises(ps.DefinitionError, match="'notes' has no ts="):
        engine.put("notes", {"id": 1}, conditions={1: 3})
    engine.put("notes", {"id": 1}, conditions={1: ps.ABSENT})
    with pytest.raises(ps.ConditionFailed, match="key 1 has a document, and the write needs no document"):
        engine.put("notes", {"id": 1}, conditions={1: ps.ABSENT})


def test_true_is_no_ts_of_one(engine: ps.Engine) -> None:
    engine.put("orders", order(1, 1))
    with pytest.raises(ps.ConditionFailed):
        engine.put("orders", order(1, 2), conditions={1: True})


def test_a_repeated_write_is_late_whatever_its_conditions_say(engine: ps.Engine) -> None:
    batch = Batch()
    batch.add(order(1))
    conditions = {"orders": [(1, ps.ABSENT)]}
    done = engine.write({"orders": [batch]}, session="s", number=1, conditions=conditions)
    assert (done.counts.applied, done.upto) == (1, 1)
    done = engine.write({"orders": [batch]}, session="s", number=1, conditions=conditions)
    assert (done.counts.late, done.upto) == (1, 1)
    with pytest.raises(ps.ConditionFailed):
        engine.write({"orders": [batch]}, session="s", number=2, conditions=conditions)
    assert engine.session("s").upto == 1


def test_a_dry_run_stores_nothing(engine: ps.Engine) -> None:
    before = engine.digest()
    counts = engine.put_many("orders", [order(1), order(2), {"id": []}], dry_run=True)
    assert str(counts).startswith("2 applied, 1 rejected")
    assert engine.digest() == before
    assert engine.status()["position"] == engine.status()["position"]
    assert engine.put_many("orders", [order(1), order(2)]) == ps.Counts(applied=2)
    assert engine.put_many("orders", [order(1), order(2, 2)], dry_run=True) == ps.Counts(applied=1, equal=1)


def test_a_session_goes_on_after_a_reopening(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "s", partitions=2) as engine:
        engine.session("s").put_many("orders", [order(i) for i in range(1, 8)])
    with ps.open(shop(), tmp_path / "s") as engine:
        session = engine.session("s")
        assert session.upto == 7
        assert session.put_many("orders", [order(i) for i in range(6, 10)], number=6).applied == 2
        assert revenue(engine)["n"] == 9
