"""Handles and digests of an open environment follow the last commit, by any process and after any interruption."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from penstock.cache import META
from penstock.cache.errors import PenstockError
from penstock.cache.lmdb.lmdb_databases import Databases
from penstock.cache.lmdb.lmdb_store import LmdbStore, open_lmdb
from penstock.cache.lmdb.page_scrub import Scrub
from tests.cache.lmdb.test_lmdb_store import rows
from tests.cache.store.test_key_digests import scrubbed

from .processes import heard, process

WRITE = """
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1])
for n in range(3):
    with store.write() as txn:
        txn.put_many("meta", [(b"state", b"%d" % n)])
        txn.put_many("former", [(b"there %d" % n, b"1")])
        txn.put_many("fresh", [(b"there %d" % n, bytes(int(sys.argv[2])))])
store.close()
say("done")
"""


@pytest.fixture
def store(store_path: Path) -> Iterator[LmdbStore]:
    """An open store with one database."""
    opened = open_lmdb(store_path)
    put(opened, "former", b"here")
    yield opened
    opened.close()


def put(store: LmdbStore, db: str, *keys: bytes) -> None:
    with store.write() as txn:
        txn.put_many(META, [(b"state", b"")])
        txn.put_many(db, [(key, b"1") for key in keys])


def assert_sound(store: LmdbStore) -> None:
    found: Scrub = scrubbed(store)
    assert (found.lost, found.uncounted) == ({}, {})


def as_commit_returns(call: Callable[[], object]) -> None:
    """Interrupt the process where Python delivers a signal that arrived during a commit."""

    def look(_frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and function.__name__ == "commit":
            sys.setprofile(None)
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("db", ["former", "fresh"])
@pytest.mark.parametrize("reads", [False, True])
def test_an_interrupt_after_a_commit_loses_no_row(store: LmdbStore, store_path: Path, db: str, reads: bool) -> None:
    as_commit_returns(lambda: put(store, db, b"interrupted"))
    if reads:
        assert b"interrupted" in rows(store, db)
    put(store, db, b"interrupted", b"next")
    assert {b"interrupted", b"next"} <= rows(store, db).keys()
    assert_sound(store)
    store.close()
    again = open_lmdb(store_path)
    put(again, db, b"last")
    assert_sound(again)
    again.close()


def test_a_commit_that_changes_no_key_does_not_make_digests_stale(store: LmdbStore) -> None:
    for _ in range(2):
        with store.write():
            pass  # LMDB reuses its number for the next transaction
        put(store, "former", b"here")
    put(store, "former", b"next")
    assert_sound(store)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("size", [1, 1 << 18])
def test_another_process_writes_while_a_reader_keeps_the_environment(
    store_path: Path, readonly: bool, size: int
) -> None:
    """If the other process writes more than this process has mapped, the map grows with the next transaction."""
    first = open_lmdb(store_path, map_size=1 << 17)
    put(first, "former", b"here")
    if readonly:
        first.close()
    keeper = open_lmdb(store_path, readonly=True, map_size=1 << 17)
    first.close()
    with process(WRITE, store_path, size) as child:
        assert heard(child) == "done"
    if readonly:
        assert len(rows(keeper, "fresh")) == 3
    writer = open_lmdb(store_path, map_size=1 << 17)
    with writer.write() as txn:
        assert txn.count("fresh") == 3
        txn.put_many("fresh", [(b"there 1", b"2"), (b"here", b"1")])
    assert rows(keeper, "fresh").keys() == {b"there 0", b"there 1", b"there 2", b"here"}
    assert_sound(writer)
    writer.close()
    keeper.close()


def test_a_commit_is_known_if_the_name_can_not_be_checked(store: LmdbStore, store_path: Path, tmp_path: Path) -> None:
    """The folder is a link to itself, which no user can follow, not even root."""
    aside = tmp_path / "aside"

    def hidden() -> None:
        with store.write() as txn:
            txn.put_many("former", [(b"hidden", b"1")])
            txn.put_many("fresh", [(b"hidden", b"1")])
            store_path.rename(aside)
            store_path.symlink_to(store_path)

    with pytest.raises(PenstockError, match="the last put may be in the store, so put that again"):
        hidden()
    store_path.unlink()
    aside.rename(store_path)
    put(store, "former", b"hidden", b"next")
    put(store, "fresh", b"next")
    assert rows(store, "former").keys() == {b"here", b"hidden", b"next"}
    assert rows(store, "fresh").keys() == {b"hidden", b"next"}
    assert_sound(store)


def test_databases_are_listed_once_without_other_writers(store: LmdbStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, "former", b"first")
    read: list[int] = []
    monkeypatch.setattr(Databases, "read_digests", lambda *_: read.append(1))
    for n in range(5):
        put(store, "former", b"%d" % n)
        store.read().close()
    assert read == []
    assert_sound(store)
