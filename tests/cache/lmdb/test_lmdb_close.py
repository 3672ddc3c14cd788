"""Close a store on disk while other threads read and write it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cache.errors import Closed
from penstock.cache.lmdb.lmdb_environment import is_open
from penstock.cache.lmdb.lmdb_store import LmdbStore, open_lmdb
from tests.cache.lmdb.test_lmdb_store import in_thread, put, rows
from tests.waiting import PATIENCE


@pytest.fixture
def store(store_path: Path) -> Iterator[LmdbStore]:
    """An open store with one row."""
    opened = open_lmdb(store_path)
    put(opened, "rows", Joe=b"1")
    yield opened
    opened.close()


def test_close_waits_for_a_read_of_another_thread(store: LmdbStore, store_path: Path) -> None:
    with store.write() as txn:
        txn.put_many("rows", [(b"%05d" % n, b"x" * 1000) for n in range(1000)])
    snap = store.read()
    out, into = os.pipe()  # too small for the copy: the read stays in LMDB until the pipe is read
    failed: list[object] = []
    copying = threading.Thread(target=lambda: failed.append(in_thread(lambda: snap.copy_to(into))))
    copying.start()
    first = os.read(out, 1)
    closing = threading.Thread(target=store.close)
    closing.start()
    with os.fdopen(out, "rb") as pipe:
        threading.Thread(target=lambda: (copying.join(), os.close(into))).start()
        copied = first + pipe.read()
    closing.join()
    assert failed == [None]
    assert len(copied) > 1_000_000
    with pytest.raises(Closed, match="the store at"):
        snap.count("rows")
    assert not is_open(str(store_path))


def test_a_lent_row_keeps_its_pages(store: LmdbStore, store_path: Path) -> None:
    put(store, "rows", Joe=b"1" * 100_000)
    snap = store.read()
    found = snap.floor("rows", b"Joe")
    assert found is not None
    part = found[1][10:20]
    del found
    store.close()
    assert bytes(part) == b"1" * 10
    assert is_open(str(store_path))
    other = open_lmdb(store_path)
    assert rows(other, "rows") == {b"Joe": b"1" * 100_000}
    other.close()
    del part
    assert not is_open(str(store_path))


def test_close_waits_for_a_transaction_of_another_thread(store: LmdbStore, store_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()

    def write() -> None:
        with store.write() as txn:
            txn.put_many("rows", [(b"Sue", b"2")])
            begun.set()
            end.wait(PATIENCE)
            txn.count("rows")

    got: list[object] = []
    writing = threading.Thread(target=lambda: got.append(in_thread(write)))
    writing.start()
    assert begun.wait(PATIENCE)
    store.close()
    assert is_open(str(store_path))
    end.set()
    writing.join()
    assert isinstance(got[0], Closed)
    assert not is_open(str(store_path))
    other = open_lmdb(store_path)
    assert rows(other, "rows") == {b"Joe": b"1"}
    other.close()
