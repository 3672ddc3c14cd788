"""Views whose reducers run functions of the user, over partitions in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine import PartitionedStore
from penstock.mapreduce import rows_db
from tests.recovery.damage import overwrite

VIEWS = ("longest", "total", "largest", "pairs")
DOCS = [{"id": i, "g": f"g{i % 7}", "h": i % 3, "v": i, "name": "x" * (i % 11)} for i in range(60)]


def shop(scale: int = 1) -> ps.App:
    """Return an app with each kind of reducer that runs functions; the classes are local to this function."""

    class Longest:
        zero = ""

        def lift(self, value: str) -> str:
            return value

        def merge(self, a: str, b: str) -> str:
            return max(a, b, key=len)

    class Total:
        zero = 0
        factor = scale

        def lift(self, value: int) -> int:
            return value * self.factor

        def merge(self, a: int, b: int) -> int:
            return a + b

        def unmerge(self, a: int, b: int) -> int:
            return a - b

    class Pairs:
        def __call__(self, doc: dict[str, Any]) -> Iterator[Any]:
            yield doc["g"], scale

    def largest(values: list[int], rereduce: bool) -> int:
        return max(values)

    app = ps.App("shop")
    users = app.table("users", key="id")
    users.view("longest", key=("g", "h"), value="name", reduce=ps.monoid(Longest()))
    users.view("total", key=("g", "h"), value="v", reduce=ps.group(Total()))
    users.view("largest", key=("g", "h"), value="v", reduce=largest)
    users.view("pairs", reduce=ps.sum())(Pairs())
    return app


def test_repairs_work_where_views_run_functions_of_the_user(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "s", partitions=2, processes=False) as engine:
        assert isinstance(engine.store, PartitionedStore)
        engine.put_many("users", DOCS)
        engine.settle()
        before = engine.digest()
        for view in VIEWS:
            for handle in engine.store.handles:
                own: Any = ps.Engine(handle.engine)  # type: ignore[attr-defined]
                db = rows_db(own.store.core.views[view].number)
                with own.snapshot() as snap:  # the store's random seed may leave a partition without groups
                    lost = [key for key, _ in islice(snap.reader().scan(db), 1)]
                overwrite(own, db, dict.fromkeys(lost))
    with ps.open(shop(), tmp_path / "s") as engine:
        assert {one.view for one in engine.check().wrong} == set(VIEWS)
        assert {one.view for one in engine.restate("longest")} == {"longest"}
        assert engine.check(fix=True).ok
        assert engine.repost("users", DOCS[3] | {"g": "g1"}) == []
        assert engine.digest() == before
    with ps.open(shop(), tmp_path / "s", readonly=True) as reading, ps.open(shop(), None) as whole:
        whole.put_many("users", DOCS)
        with reading.snapshot() as snap, whole.snapshot() as same:
            for view in VIEWS[:3]:
                assert list(snap.view(view).rollup(level=1)) == list(same.view(view).rollup(level=1))


def test_a_reader_does_not_combine_results_by_functions_that_changed(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "s") as engine:
        engine.put_many("users", DOCS)
    with ps.open(shop(2), tmp_path / "s", readonly=True) as reading, reading.snapshot() as snap:
        assert len(list(snap.view("longest").rollup(level=1))) == 7
        assert snap.view("total")["g1", 1] == sum(doc["v"] for doc in DOCS if (doc["g"], doc["h"]) == ("g1", 1))
        with pytest.raises(ps.DefinitionError, match="open the store with that app"):
            list(snap.view("total").rollup(level=1))


def test_a_class_that_is_local_to_a_function_is_the_same_at_every_opening(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "s", partitions=2) as engine:
        engine.put_many("users", DOCS)
        engine.settle()
        digest = engine.digest()
    with ps.open(shop(), tmp_path / "s", migrate="refuse") as engine:
        assert engine.digest() == digest
    with pytest.raises(ps.DefinitionChanged, match="'total'"):
        ps.open(shop(2), tmp_path / "s", migrate="refuse")
