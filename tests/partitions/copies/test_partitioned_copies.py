"""Copies of a store of several partitions: complete and consistent, with any productions in flight."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import CopyFailed
from penstock.engine import Member, PartitionedStore, copy_any
from penstock.partitions.copies.partitioned_copies import consistent
from tests.partitions.union.test_union_repairs import document, like_one, shop


def test_a_copy_is_a_store_with_the_same_content(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "store", partitions=2, processes=False) as engine:
        engine.put_many("users", [document(i) for i in range(60)])
        done = engine.copy(tmp_path / "copy")
        assert isinstance(engine.store, PartitionedStore)
        with engine.snapshot() as snap:
            assert (done.app, done.position) == ("shop", snap.position)
        with pytest.raises(CopyFailed, match="not empty"):
            engine.copy(tmp_path / "copy")
        digest = engine.digest()
    with ps.open(shop(), tmp_path / "copy", processes=False) as copied:
        assert copied.digest() == digest
        copied.put("users", document(99))
        like_one(copied)
    assert not list(tmp_path.glob("*.partial"))


def test_a_store_that_is_open_to_be_read_is_copied(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "store", partitions=2, processes=False, listen=False) as engine:
        engine.put_many("users", [document(i) for i in range(20)])
        engine.settle()
        digest = engine.digest()
    with ps.open(shop(), tmp_path / "store", readonly=True) as reading:
        reading.copy(tmp_path / "copy")
    with ps.open(shop(), tmp_path / "copy", readonly=True) as copied:
        assert copied.digest() == digest


def test_what_is_on_its_way_is_in_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ps.open(shop(), tmp_path / "store", partitions=3, processes=False) as engine:
        with monkeypatch.context() as patch:  # nothing arrives
            patch.setattr(Member, "owed", lambda member, other: None)
            engine.put_many("users", [document(i) for i in range(60)])
            assert isinstance(engine.store, PartitionedStore)
            assert any(handle.standing().pending for handle in engine.store.handles)
            copy_any(str(tmp_path / "store"), str(tmp_path / "copy"))
        engine.settle()
        digest = engine.digest()
    with ps.open(shop(), tmp_path / "copy", processes=False) as copied:
        copied.settle()
        assert copied.digest() == digest
        like_one(copied)


def test_copies_beside_a_writer_fit_together(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "store", partitions=2, processes=False) as engine:
        done = threading.Event()

        def write() -> None:
            for now in range(1, 10_000):
                if done.is_set():
                    return
                engine.put_many("users", [document(i, g=f"g{(i + now) % 5}", ts=now) for i in range(12)])

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for n in range(3):
                copy_any(str(tmp_path / "store"), str(tmp_path / f"copy{n}"))
        finally:
            done.set()
            thread.join()
    for n in range(3):
        with ps.open(shop(), tmp_path / f"copy{n}", processes=False) as copied:
            copied.settle()
            like_one(copied)


def test_snapshots_that_do_not_fit_are_told() -> None:
    with ps.open(shop(), None, partitions=2) as engine:
        assert isinstance(engine.store, PartitionedStore)
        cores: Any = engine.store.reading.cores

        def fit(first: Any, second: Any) -> bool:
            return consistent([first.reader(), second.reader()], [first.state, second.state])

        with engine.snapshot() as old:
            engine.put_many("users", [document(i) for i in range(60)])
            engine.put_many("users", [document(i, g="other", ts=2) for i in range(60)])
            engine.settle()
            with engine.snapshot() as now:
                assert len(cores) == 2
                assert fit(*old.parts)
                assert fit(*now.parts)
                assert not fit(old.parts[0], now.parts[1]), "it has taken what was not given"
                assert not fit(now.parts[0], old.parts[1]), "what it was given is deleted"
