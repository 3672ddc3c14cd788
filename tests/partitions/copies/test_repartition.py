"""Repartitioning: its reports, the errors that it raises, and the files that remain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import DefinitionError, StoreInUse, open_lmdb
from penstock.core.metadata.store_layout import read_layout
from penstock.engine import open_on, opening, repartition
from penstock.recovery import OUT

DOCS = [{"id": i, "name": f"n{i % 9}"} for i in range(40)]


def app(other: bool = False) -> ps.App:
    shop = ps.App("shop")
    users = shop.table("users", key="id")
    users.view("names", key="id" if other else "name", reduce=ps.count())
    return shop


@pytest.fixture
def filled(store_path: Path) -> Path:
    with ps.open(app(), store_path, listen=False) as engine:
        engine.put_many("users", DOCS)
    return store_path


def test_it_says_what_it_did(filled: Path) -> None:
    told: list[tuple[str, int, int]] = []
    done = repartition(filled, 3, lambda *own: told.append(own))
    assert (done.before, done.after, sum(done.documents)) == (1, 3, 40)
    assert len(done.bytes) == 3
    assert {what for what, _, _ in told} == {"moving", "checking"}
    moved = [(passed, of) for what, passed, of in told if what == "moving"]
    assert moved == sorted(moved)
    assert moved[-1][0] == moved[-1][1]
    assert done.data()["documents"] == done.documents
    assert repartition(filled, 3).before == 3


@pytest.mark.parametrize("to", [0, -1, 257, True, "2", 1.5])
def test_a_number_that_is_none_is_refused(filled: Path, to: Any) -> None:
    with pytest.raises(DefinitionError, match="write a number from 1 to 256"):
        repartition(filled, to)


def test_a_store_that_somebody_has_is_left_alone(filled: Path) -> None:
    with ps.open(app(), filled, listen=False), pytest.raises(StoreInUse):
        repartition(filled, 2)
    reader = ps.open(app(), filled, readonly=True)
    with reader, pytest.raises(ps.PenstockError, match=f"process {os.getpid()} has the store .* open to read it"):
        repartition(filled, 2)
    assert read_layout(str(filled)) is None


def test_what_partitions_owe_each_other_is_waited_for(filled: Path) -> None:
    repartition(filled, 2)
    store = open_lmdb(filled / "1-1")
    with store.write() as writer:
        writer.put_many(OUT, [(b"key", b"row")])
    store.close()
    with pytest.raises(ps.PenstockError, match=r"partition 1 has 1 production.*open the store"):
        repartition(filled, 3)
    layout = read_layout(str(filled))
    assert layout is not None
    assert [part.folder for part in layout.parts] == ["1-0", "1-1"]


def test_views_that_are_being_built_are_waited_for(filled: Path) -> None:
    engine, _ = open_on(app(other=True), open_lmdb(filled))  # which builds nothing by itself
    engine.close()
    with pytest.raises(ps.PenstockError, match="'names' is being built anew; run `penstock migrate`"):
        repartition(filled, 2)


def test_who_opens_it_just_then_finds_it_where_it_is(filled: Path) -> None:
    before = read_layout(str(filled))
    for to in (3, 2, 1):
        repartition(filled, to)
        now = read_layout(str(filled))
        late = mock.patch.object(opening, "read_layout", side_effect=[before, before, now, now])
        with late, ps.open(app(), filled, readonly=True) as engine, engine.snapshot() as snap:
            assert len(snap.table("users")) == 40
            assert len(snap.parts) == to
        before = now


def test_positions_from_before_are_expired_whatever_their_shape(filled: Path) -> None:
    positions: list[Any] = []
    for to in (3, 1, 3):
        with ps.open(app(), filled, readonly=True) as engine, engine.snapshot() as snap:
            positions.append(snap.position)
        repartition(filled, to)
        with ps.open(app(), filled, readonly=True) as engine:
            for since in positions:
                with pytest.raises(ps.PositionExpired):
                    engine.changes(since=since)
            with engine.snapshot() as snap:
                assert list(engine.changes(since=snap.position)) == []


def test_the_source_goes_on_where_it_was(filled: Path) -> None:
    with ps.open(app(), filled, listen=False) as engine:
        engine.ingest([ps.Record("users", 1, DOCS[1], offset=4)], source="file:a", resume=5)
    for to in (2, 1):
        repartition(filled, to)
        with ps.open(app(), filled, readonly=True) as engine, engine.snapshot() as snap:
            assert snap.sources == {"file:a": 5}
    with ps.open(app(), filled, listen=False) as engine:
        assert engine.ingest([ps.Record("users", 1, DOCS[2], offset=4)], source="file:a", resume=5).late == 1
