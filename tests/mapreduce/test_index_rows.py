"""Rows of a plain index: each has its rank. A store of an earlier version gets the ranks when its index is rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import decode_key, encode_entry
from penstock.mapreduce import emissions_db, plain_index
from penstock.views import ABSENT, Kind, View
from tests.recovery.damage import overwrite

LONG = "k" * 450
DOCS: list[dict[str, Any]] = [
    {"id": 1, "tags": ["a", "b", "a"]},
    {"id": 2, "tags": ["a"]},
    {"id": (3, 4), "tags": [LONG, LONG]},
    {"id": 5, "tags": []},
]
ROWS = {
    ("a", 1, 0): 0,
    ("a", 1, 1): 2,
    ("a", 2, 0): 0,
    ("b", 1, 0): 1,
    (LONG, (3, 4), 0): 0,
    (LONG, (3, 4), 1): 1,
}


def shop() -> ps.App:
    app = ps.App("shop")
    docs = app.table("docs", key="id")

    @docs.view(reduce=None)
    def places(doc: dict[str, Any]) -> Iterator[Any]:
        for place, tag in enumerate(doc["tags"]):
            yield tag, place

    @places.view(reduce=ps.count())
    def seconds(row: Any) -> Iterator[Any]:
        tag, _, *rank = row.key
        if rank and rank[0]:
            yield tag

    docs.view("ids", key="id", value="tags", reduce=None)
    return app


@contextmanager
def of_an_earlier_version() -> Iterator[None]:
    """Write rows without a rank of 0, and definitions without the form of row names."""
    describe: Callable[[View], dict[str, object]] = View.describe

    def entry(group: Any, key: bytes, rank: int) -> bytes:
        whose = decode_key(key)
        return encode_entry((group, whose, rank) if rank else (group, whose))

    def described(view: View) -> dict[str, object]:
        return {name: part for name, part in describe(view).items() if name != "rows"}

    with mock.patch.object(plain_index, "_entry", entry), mock.patch.object(View, "describe", described):
        yield


def shown(engine: Any, view: str = "places") -> dict[Any, Any]:
    with engine.snapshot() as snap:
        return dict(snap.view(view).items())


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_row_has_the_rank(partitions: int) -> None:
    with ps.open(shop(), None, partitions=partitions) as engine:
        with engine.snapshot() as snap:
            begin = snap.position
        engine.put_many("docs", DOCS)
        engine.settle()
        assert shown(engine) == ROWS
        assert shown(engine, "ids") == {(doc["id"], doc["id"], 0): doc["tags"] for doc in DOCS}
        assert shown(engine, "seconds") == {"a": 1, LONG: 1}
        assert {change.group: change.new for change in engine.changes("places", since=begin)} == ROWS
        engine.put("docs", {"id": 1, "tags": ["b"]})
        engine.settle()
        assert shown(engine) == {key: value for key, value in ROWS.items() if key[1] != 1} | {("b", 1, 0): 0}
        assert engine.check().ok


def test_a_key_without_a_rank_names_the_first_value() -> None:
    with ps.open(shop(), None) as engine:
        engine.put_many("docs", DOCS)
        with engine.snapshot() as snap:
            view = snap.view("places")
            assert view["a", 1] == view["a", 1, 0] == 0
            assert view["a", 1, 1] == 2
            assert view[LONG, [3, 4]] == 0
            assert view.row(("b", 1)) == (("b", 1, 0), 1)
            asked: list[Any] = [("a", 1), ("a", 1, 1), ("a", 1, 2), ("a", 9), "a", ("a", 2), (LONG, (3, 4), 1), None]
            assert view.get_many(asked) == [0, 2, None, None, None, 0, 1, None]
            assert ("b", 1) in view
            assert ("b", 2) not in view
            with pytest.raises(KeyError):
                view.row(("b", 2))
            assert [row.key[1:] for row in view.items(prefix=("a", 1))] == [(1, 0), (1, 1)]
            assert [row.key[1:] for row in view.items(start=("a", 1, 1), through=("a", 2))] == [(1, 1), (2, 0)]
            assert [row.key[0] for row in view.items(start=("a", 2), stop=("b", 1))] == ["a"]


def test_of_other_views_a_pair_is_a_group() -> None:
    app = ps.App("shop")
    app.table("docs", key="id").view("n", key=("a", "b", "c"), reduce=ps.count())
    with ps.open(app, None) as engine:
        engine.put("docs", {"id": 1, "a": 1, "b": 2, "c": 0})
        with engine.snapshot() as snap:
            assert snap.view("n").get((1, 2)) is None


def test_a_store_of_an_earlier_version_is_built_anew(tmp_path: Path) -> None:
    with of_an_earlier_version(), ps.open(shop(), tmp_path / "s") as engine:
        engine.put_many("docs", DOCS)
        older = shown(engine)
        assert ("a", 1) in older
        with engine.snapshot() as snap:
            position = snap.position
    with ps.open(shop(), tmp_path / "s", readonly=True) as engine, engine.snapshot() as snap:
        assert snap.view("places")["a", 1] == 0
        assert len(snap.view("places").why("a")) == 3
    with pytest.raises(ps.DefinitionChanged, match=r"rows were \(group, key\).* and are \(group, key, rank\)"):
        ps.open(shop(), tmp_path / "s", migrate="refuse")
    with ps.open(shop(), tmp_path / "s") as engine:
        changes = engine.migrate().changes
        assert {change.view: change.kind for change in changes} in (
            {},  # the build is complete by then
            {"places": Kind.CHANGED, "ids": Kind.CHANGED, "seconds": Kind.FOLLOWS},
        )
        assert shown(engine) == ROWS
        assert shown(engine, "seconds") == {"a": 1, LONG: 1}
        assert engine.check().ok
        given = {change.group: change.new for change in engine.changes("places", since=position)}
        assert given[("a", 1)] is ABSENT
        assert given[("a", 1, 0)] == 0
        assert ("a", 1, 1) not in given
        with ps.open(shop(), None) as other:
            other.put_many("docs", DOCS)
            assert other.digest() == engine.digest()


def test_a_held_document_is_held_in_each_of_its_rows(tmp_path: Path) -> None:
    def held(engine: Any) -> list[tuple[int, bool]]:
        with engine.snapshot() as snap:
            return [(row.key[1], row.held) for row in snap.view("places").items(prefix=("a",))]

    with of_an_earlier_version(), ps.open(shop(), tmp_path / "s") as engine:
        engine.put_many("docs", DOCS)
        engine.put("docs", {"id": 1, "tags": 7})
    with ps.open(shop(), tmp_path / "s", readonly=True) as engine:
        assert held(engine) == [(1, True), (1, True), (2, False)]
    with ps.open(shop(), None) as engine:
        engine.put_many("docs", DOCS)
        engine.put("docs", {"id": 1, "tags": 7})
        assert held(engine) == [(1, True), (1, True), (2, False)]


def test_a_restatement_names_each_row_of_a_document(tmp_path: Path) -> None:
    with ps.open(shop(), None) as engine:
        engine.put_many("docs", DOCS)
        db = emissions_db(engine.store.core.views["places"].number)
        with engine.snapshot() as snap:
            rows = dict(snap.reader().scan(db))
        overwrite(engine, db, {key: row[:-1] + bytes([row[-1] ^ 1]) for key, row in rows.items()})
        engine.store.core.forget()
        assert {one.group for one in engine.restate("places")} == ROWS.keys()
        assert engine.check().ok
