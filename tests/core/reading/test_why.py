"""`why` by example: the contributions that it shows, its reads of the store, and its answers beside a writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import Reader
from penstock.mapreduce import small_trees
from penstock.views import ContributionDocuments


def shop() -> ps.App:
    """Return an app with one table, and views of every kind on it."""
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts="ts")
    orders.view("n", key="name", reduce=ps.count())
    orders.view("spent", key="name", value="amount", reduce=ps.sum())
    orders.view("kept", key="name", value="amount", reduce=ps.sum(), sources=True)
    orders.view("most", key="name", value="amount", reduce=ps.max())
    orders.view("listed", key="name", value="amount", reduce=None)
    row = {"n": ps.count(), "total": ps.sum("amount"), "cities": ps.count("to.city"), "tax": ps.mean("vat.rate")}
    orders.view("row", key="name", reduce=row)
    orders.view("where", key=(), where=ps.field("amount") > 5, reduce=ps.count("to"))

    @orders.view(reduce=ps.sum())
    def items(order: dict[str, Any]) -> Iterator[Any]:
        for item in order["items"]:
            yield item, order["amount"]

    by_name = app.view_of("spent")
    by_name.view("amounts", key="value", reduce=ps.count())

    @by_name.view(reduce=ps.count())
    def initials(row: ps.Row) -> Iterator[Any]:
        yield row.key[0]

    return app


def order(key: Any, name: str = "Sue", amount: Any = 1, ts: int = 1, **more: Any) -> dict[str, Any]:
    """Return a document."""
    return {"id": key, "name": name, "amount": amount, "items": [], "ts": ts, **more}


@pytest.fixture
def engine(place: Path | None) -> Iterator[ps.Engine]:
    with ps.open(shop(), place) as engine:
        yield engine


def values(found: Sequence[ps.Contribution]) -> list[tuple[Any, int, Any]]:
    """Return the key, rank and value of each contribution."""
    return [(one.key, one.rank, one.value) for one in found]


def test_what_a_contribution_shows(engine: ps.Engine) -> None:
    engine.put("orders", order(2, amount=7, to={"city": "Oslo", "street": "x"}, vat={"rate": 0.25, "kind": "a"}))
    engine.put("orders", order("b", amount=3, items=["tea", "pot", "tea"]))
    engine.put("orders", order(1, name="Joe"))
    with engine.snapshot() as snap:
        for view in ("spent", "kept", "most", "listed"):
            assert values(snap.view(view).why("Sue")) == [(2, 0, 7), ("b", 0, 3)], view
        assert values(snap.view("n").why("Sue")) == [(2, 0, None), ("b", 0, None)]
        first, second = snap.view("row").why("Sue")
        assert first.value == {"amount": 7, "to": {"city": "Oslo"}, "vat": {"rate": 0.25}}
        assert second.value == {"amount": 3, "to": {"city": None}, "vat": {"rate": None}}
        assert values(snap.view("where").why(())) == [(2, 0, {"to": {"city": "Oslo", "street": "x"}})]
        assert values(snap.view("items").why("tea")) == [("b", 0, 3), ("b", 1, 3)]
        [joe] = snap.view("amounts").why(1)
        assert (joe.key, joe.value, joe.document) == ("Joe", None, ("Joe", 1))
        assert [one.document.value for one in snap.view("initials").why("S")] == [10]
        assert repr(joe) == "Contribution(key='Joe', rank=0, value=None)"


def test_groups_without_a_row_have_none_and_no_group_is_refused(engine: ps.Engine) -> None:
    engine.put("orders", order(1))
    with engine.snapshot() as snap:
        for name in ("n", "kept", "listed", "items", "amounts", "initials", "where"):
            assert snap.view(name).why("Bob") == []
            assert snap.view(name).why_many([]) == []
            with pytest.raises(ps.KeyKind, match="can't be a key"):
                snap.view(name).why({"no": "group"})


def test_several_groups_come_in_their_order_by_one_scan(engine: ps.Engine) -> None:
    engine.put_many("orders", [order(i, name=("Sue", "Joe")[i % 2]) for i in range(10)])
    engine.put_many("orders", [order(i, name="Sam", ts=2) for i in range(0, 10, 5)])
    steps: list[tuple[int, int]] = []
    with engine.snapshot() as snap:
        asked = ["Joe", "Bob", "Sue", "Joe", "Sam"]
        found = snap.view("n").why_many(asked, progress=lambda done, total: steps.append((done, total)))
        assert [[one.key for one in own] for own in found] == [[1, 3, 7, 9], [], [2, 4, 6, 8], [1, 3, 7, 9], [0, 5]]
        assert steps == [(12, 12)]
        steps.clear()
        snap.view("kept").why("Joe", progress=lambda done, total: steps.append((done, total)))
        assert steps == []


def test_what_is_held_counts_as_it_was_told_last(engine: ps.Engine) -> None:
    engine.put("orders", order(1, amount=5, items=["tea"], to="x"))
    engine.put("orders", order(2, amount=6, items=["tea"]))
    bad = order(1, name="Joe", amount="much", items=None, ts=2)
    engine.put("orders", bad)
    with engine.snapshot() as snap:
        for view, group in (("spent", "Sue"), ("kept", "Sue"), ("items", "tea")):
            one, two = snap.view(view).why(group)
            assert (one.key, one.value, one.held, one.document) == (1, 5, True, bad), view
            assert (two.key, two.value, two.held, two.document["amount"]) == (2, 6, False, 6), view
            assert snap.view(view).row(group).held
        assert [one.key for one in snap.view("n").why("Joe")] == [1]
        assert repr(one) == "Contribution(key=1, rank=0, value=5, held=True)"
    engine.put("orders", order(1, amount=8, ts=3))
    with engine.snapshot() as snap:
        assert values(snap.view("spent").why("Sue")) == [(1, 0, 8), (2, 0, 6)]
        assert not any(one.held for one in snap.view("spent").why("Sue"))


def test_of_a_held_document_only_what_reducers_read_is_known(place: Path | None) -> None:
    app = ps.App("held")
    docs = app.table("docs", key="id")
    docs.view("v", key="g", reduce={"n": ps.count("to"), "inner": ps.count("to.city"), "t": ps.sum("x")})
    with ps.open(app, place) as engine:
        engine.put("docs", {"id": 1, "g": "a", "to": {"city": "Oslo"}, "x": 1})
        engine.put("docs", {"id": 2, "g": "a", "to": "Rome", "x": 1})
        engine.put("docs", {"id": 1, "g": "b", "x": "much"})
        with engine.snapshot() as snap:
            held, free = snap.view("v").why("a")
            assert held.held
            assert held.value["x"] == 1
            assert free.value == {"to": "Rome", "x": 1}
            for name, reducer in (("n", ps.count("to")), ("inner", ps.count("to.city")), ("t", ps.sum("x"))):
                assert reducer.over([held.value, free.value]) == snap.view("v")["a"][name]


def test_documents_are_read_a_block_at_a_time_and_as_long_as_the_snapshot_is_open(engine: ps.Engine) -> None:
    engine.put_many("orders", [order(i, amount=i) for i in range(600)])
    with engine.snapshot() as snap:
        found = snap.view("most").why("Sue")
        engine.put_many("orders", [order(i, name="Joe", ts=2) for i in range(600)])
        assert [one.document["amount"] for one in found] == list(range(600))
        assert snap.view("most").why("Joe") == []
    assert found[0].value == 0
    with pytest.raises(ps.Closed):
        assert found[300].document
    asked: list[int] = []

    def read(keys: Sequence[Any]) -> list[Any]:
        asked.append(len(keys))
        return [{"key": key} for key in keys]

    documents = ContributionDocuments(range(600), read)
    assert [documents.at(i)["key"] for i in range(600)] == list(range(600))
    assert asked == [256, 256, 88]
    assert ps.Contribution(1, 0, None).document is None


class Counting:
    """A snapshot of a store that counts its reads."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.reads: list[str] = []

    def get_many(self, db: str, keys: Sequence[bytes]) -> list[bytes | None]:
        self.reads.append(db.partition(":")[0])
        return self._reader.get_many(db, keys)

    def scan(
        self, db: str, start: bytes = b"", stop: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self.reads.append(f"scan {db.partition(':')[0]}")
        return self._reader.scan(db, start, stop, reverse)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def asked_for(engine: ps.Engine, view: str, *groups: Any) -> list[str]:
    """Return the reads of the store for `why`."""
    snap: Any
    with engine.snapshot() as snap:
        counting = snap._reader = Counting(snap.reader())
        snap.view(view).why_many(groups)
    return counting.reads


def test_what_is_kept_costs_the_tree_of_the_group_alone(engine: ps.Engine) -> None:
    engine.put_many("orders", [order(i, name="Sue") for i in range(300)])
    engine.put_many("orders", [order(1_000 + i, name=f"n{i}") for i in range(300)])
    for view in ("kept", "most"):
        assert asked_for(engine, view, "n7") == ["view"]
        assert asked_for(engine, view, "n7", "n8", "nobody") == ["view"]
    assert asked_for(engine, "listed", "n7") == ["scan view"]


def test_of_a_large_group_it_costs_the_row_the_log_and_each_level_of_nodes(place: Path | None) -> None:
    with small_trees(32, 1 << 20, 1000), ps.open(shop(), place) as engine:
        engine.put_many("orders", [order(i) for i in range(900)])
        # No nodes are written yet: all is in the log.
        assert asked_for(engine, "kept", "Sue") == ["view", "scan behind", "tree"]
        engine.put_many("orders", [order(1000 + i) for i in range(5_000)])
        engine.put("orders", order(8_000))
        reads = asked_for(engine, "kept", "Sue")
        assert reads[:2] == ["view", "scan behind"]
        assert set(reads[2:]) == {"tree"}
        assert 4 <= len(reads[2:]) <= 6  # 5,901 contributions: 16 children per node, and 32 in the last ones
        with engine.snapshot() as snap:
            assert len(snap.view("kept").why("Sue")) == 5_901


def test_where_nothing_is_kept_one_scan_is_for_all_groups(engine: ps.Engine) -> None:
    engine.put_many("orders", [order(i, name=f"n{i}", items=[i]) for i in range(3_000)])
    asked_for(engine, "spent", "n0")  # the first call reads the log, and later calls use its result
    one, many = (asked_for(engine, "spent", *(f"n{i}" for i in range(n))) for n in (1, 500))
    assert one == many
    assert "tree" not in one
    one, many = (asked_for(engine, "items", *range(n)) for n in (1, 500))
    assert one == many


def test_a_tree_that_has_lost_a_contribution_says_so(place: Path | None) -> None:
    app = ps.App("lost")
    docs = app.table("docs", key="id")
    docs.view("most", key="g", value="v", reduce=ps.max())
    engine: Any
    with ps.open(app, place) as engine:
        engine.put_many("docs", [{"id": i, "g": "a", "v": i} for i in range(100)])
        core = engine.store.core
        with core.store.write() as writer:
            writer.clear(f"behind:{core.views['most'].number}")
        with (
            engine.snapshot() as snap,
            pytest.raises(ps.StoreDamaged, match="tree has 0 contributions and its row 100"),
        ):
            snap.view("most").why("a")
