"""A store on disk at the host's limits: a full disk, a map that must grow, an address space that ends."""

from __future__ import annotations

import logging
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.cache.errors import Closed, PenstockError, StoreFull
from penstock.cache.lmdb import lmdb_environment
from penstock.cache.lmdb.lmdb_store import LmdbStore, open_lmdb
from penstock.cache.store.protocol import Store
from tests.cache.processes import heard, process, send_line

SMALL = 1 << 18
FULL = "(File too large|No space left on device|Input/output error, its disk is full.*)"


def content(store: Store, db: str = "rows") -> dict[bytes, bytes]:
    with store.read() as snap:
        return dict(snap.scan(db))


def numbered(first: int, count: int, size: int = 1000) -> list[tuple[bytes, bytes]]:
    return [(b"%06d" % n, b"%d" % n * (size // 6)) for n in range(first, first + count)]


@contextmanager
def small(path: Path, patience: float = 30.0) -> Iterator[LmdbStore]:
    """A store with a small map, as if the host had refused a larger one."""
    store = open_lmdb(path, map_size=SMALL, patience=patience)
    yield store
    store.close()


FILL = """
import resource
from penstock.cache.errors import Closed, PenstockError, StoreFull
from penstock.cache.lmdb.lmdb_store import open_lmdb
store, n = open_lmdb(sys.argv[1]), 0
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    while n < 1000:
        with store.write() as txn: txn.put_many("rows", [(b"%06d.%d" % (n, i), b"x" * 500) for i in range(20)])
        n += 1
except StoreFull as error: say(error)
with store.read() as snap: say(snap.count("rows") == 20 * n > 0)
with store.write() as txn: txn.clear("rows")
with store.write() as txn: txn.put_many("rows", [(b"a", b"1")])
with store.read() as snap: say(dict(snap.scan("rows")))
"""


def test_a_full_disk_undoes_the_transaction_and_no_more(store_path: Path) -> None:
    with process(FILL, store_path, "limit") as writer:
        assert re.match(rf"the store at {store_path} can't grow: {FULL}; what was being written", heard(writer))
        assert heard(writer) == "True"
        assert heard(writer) == "{b'a': b'1'}"


def test_a_full_file_system_undoes_the_transaction_and_no_more(store_path: Path) -> None:
    store_path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", store_path], capture_output=True)
    try:
        with process(FILL, store_path, "limit" if mounted.returncode else "disk") as writer:
            assert re.match(rf"the store at {store_path} can't grow: {FULL}; what was being written", heard(writer))
            assert heard(writer) == "True"
            assert heard(writer) == "{b'a': b'1'}"
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", store_path], check=True)


def test_a_map_that_is_full_grows_under_the_transaction(store_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.cache"), small(store_path) as store:
        with store.write() as txn:
            txn.put_many("rows", numbered(0, 10))
        with store.write() as txn:
            txn.delete_many("rows", [b"%06d" % n for n in range(5)])
            txn.put_many("gone", numbered(0, 10))
            txn.clear("gone")
            for first in range(10, 1000, 10):
                txn.put_many("rows", numbered(first, 10))
        assert content(store) == dict(numbered(5, 995))
        assert content(store, "gone") == {}
        assert store.info()["map_size"] == 1 << 20
    assert [re.findall(r"it has (\d+) now", record.getMessage()) for record in caplog.records] == [
        [str(1 << 19)],
        [str(1 << 20)],
    ]


def test_a_scan_continues_while_the_map_grows(store_path: Path) -> None:
    with small(store_path) as store:
        with store.write() as txn:
            txn.put_many("rows", numbered(0, 50))
        with store.write() as txn:
            seen = []
            for n, (key, _) in enumerate(txn.scan("rows")):
                seen.append(key)
                txn.put_many("copy", numbered(n * 20, 20))
        assert seen == [key for key, _ in numbered(0, 50)]
        assert content(store, "copy") == dict(numbered(0, 1000))


def test_growth_waits_for_snapshots_of_other_threads(store_path: Path) -> None:
    with small(store_path) as store:
        with store.write() as txn:
            txn.put_many("rows", numbered(0, 100))
        snap = store.read()
        writer = threading.Thread(target=fill, args=(store,))
        writer.start()
        assert dict(snap.scan("rows")) == dict(numbered(0, 100))
        snap.close()
        writer.join()
        assert content(store) == dict(numbered(0, 1000))


def fill(store: Store) -> None:
    with store.write() as txn:
        txn.put_many("rows", numbered(100, 900))


def test_growth_gives_up_on_snapshots_that_stay_open(store_path: Path) -> None:
    with small(store_path, patience=0.01) as store:
        with store.write() as txn:
            txn.put_many("rows", numbered(0, 100))
        refused: list[StoreFull] = []

        def attempt() -> None:
            with pytest.raises(StoreFull) as caught:
                fill(store)
            refused.append(caught.value)

        with store.read() as snap:
            writer = threading.Thread(target=attempt)
            writer.start()
            writer.join()
            assert "1 snapshots stayed open" in str(refused[0])
            attempt()
            assert "this thread has a snapshot open; close it first" in str(refused[1])
            assert dict(snap.scan("rows")) == dict(numbered(0, 100))
        fill(store)
        assert content(store) == dict(numbered(0, 1000))


def test_a_reader_in_another_process_follows_the_map(store_path: Path) -> None:
    code = """
from penstock.cache.errors import PenstockError
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1], readonly=True, map_size=1 << 18)
held = store.read()
say(held.count("rows")); wait()
try: store.read()
except PenstockError as error: say(error)
held.close()
with store.read() as snap: say([snap.count("rows"), len(dict(snap.scan("rows")))])
"""
    with small(store_path) as store:
        with store.write() as txn:
            txn.put_many("rows", numbered(0, 100))
        with process(code, store_path) as other:
            assert heard(other) == "100"
            fill(store)
            send_line(other)
            assert "outgrown this map: this thread has a snapshot open; close it first" in heard(other)
            assert heard(other) == "[1000, 1000]"


def test_a_host_that_refuses_the_whole_map_gets_a_smaller_one(store_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1])
with store.write() as txn: txn.put_many("rows", [(b"a", b"1")])
with store.read() as snap: say([store.info()["map_size"], dict(snap.scan("rows"))])
"""
    with process(code, store_path) as other:
        assert heard(other) == f"[{1 << 31}, {{b'a': b'1'}}]"


def test_a_host_that_refuses_growth_is_named(store_path: Path) -> None:
    code = """
import resource
from penstock.cache.errors import Closed, PenstockError, StoreFull
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1], map_size=1 << 26)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 25), used + (1 << 25)))
try:
    for n in range(100):
        with store.write() as txn: txn.put_many("rows", [(b"%04d.%04d" % (n, i), b"x" * 1000) for i in range(1000)])
except StoreFull as error: say(error)
with store.write() as txn: txn.clear("rows")
with store.write() as txn: txn.put_many("rows", [(b"a", b"1")])
with store.read() as snap: say(dict(snap.scan("rows")))
"""
    with process(code, store_path) as other:
        assert "may not map more (ulimit -v)" in heard(other)
        assert heard(other) == "{b'a': b'1'}"


def test_a_thousand_stores_are_open_in_one_process(tmp_path: Path) -> None:
    code = """
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
from penstock.cache.lmdb.lmdb_store import open_lmdb
stores = [open_lmdb(f"{sys.argv[1]}/{n}", sync=False) for n in range(1000)]
for store in stores:
    with store.write() as txn: txn.put_many("rows", [(b"a", b"1")])
say(len(stores))
for store in stores: store.close()
say(open_lmdb(f"{sys.argv[1]}/999").info()["map_size"] == 1 << 40)
"""
    with process(code, tmp_path) as other:
        assert heard(other) == "1000"
        assert heard(other) == "True", "the largest map, once the others are closed"


def test_a_store_beside_many_others_grows_when_it_is_full(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cache.lmdb.address_space._FEW", 0)
    monkeypatch.setattr("penstock.cache.lmdb.address_space._SMALLER", 1 << 20)
    store = open_lmdb(store_path)
    rows = [(b"%04d" % n, b"x" * 1000) for n in range(5000)]
    for start in range(0, 5000, 500):
        with store.write() as txn:
            txn.put_many("rows", rows[start : start + 500])
    assert store.info()["map_size"] >= 1 << 22
    with store.read() as snap:
        assert list(snap.scan("rows")) == rows
    store.close()


def test_the_limit_of_open_files_is_named(tmp_path: Path) -> None:
    code = """
import resource
import penstock as ps
app = ps.App("shop"); app.table("users", key="id")
ps.open(app, sys.argv[1] + "/first").close()
for most in range(len(__import__("os").listdir("/proc/self/fd")), 10_000):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, 10_000))
    try: ps.open(app, sys.argv[1] + f"/{most}", listen=False).close()
    except ps.PenstockError as error: say(error)
    else: break
say("opened")
"""
    with process(code, tmp_path) as other:
        said = list(iter(lambda: heard(other), "opened"))
    assert len(said) > 2
    for words in said:
        assert re.search(r"too many open files for the store at .*; close other stores, or .*\(ulimit -n\)", words), (
            words
        )


def test_a_read_store_is_reopened_to_write_with_a_fitting_map(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside many stores of the process, maps are smaller, and they stay small."""
    open_lmdb(store_path).close()
    monkeypatch.setattr("penstock.cache.lmdb.address_space._FEW", 0)
    reader = open_lmdb(store_path, readonly=True)
    writer = open_lmdb(store_path)
    assert reader.info()["map_size"] == writer.info()["map_size"] == 1 << 36
    writer.close()
    reader.close()


@pytest.mark.parametrize("failures", [1, 2])
def test_a_failed_opening_to_write_keeps_or_closes_readers(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Its readers continue, or they report that it is closed. The next opening starts from the beginning."""
    first = open_lmdb(store_path)
    with first.write() as txn:
        txn.put_many("rows", numbered(0, 3))
    first.close()
    reader = open_lmdb(store_path, readonly=True)
    left, real = [1] * failures, lmdb_environment.open_file

    def failing(path: str, *options: Any) -> Any:
        if left:
            left.pop()
            raise PenstockError("no memory")
        return real(path, *options)

    monkeypatch.setattr(lmdb_environment, "open_file", failing)
    with pytest.raises(PenstockError, match="no memory"):
        open_lmdb(store_path)
    if failures == 1:
        assert len(content(reader)) == 3
    else:
        with pytest.raises(Closed, match="the store at"):
            reader.read()
        with pytest.raises(Closed, match="the store at"):
            reader.info()
    writer = open_lmdb(store_path)
    assert len(content(writer)) == 3
    reader.close()
    with writer.write() as txn:
        txn.put_many("rows", numbered(3, 1))
    assert len(content(writer)) == 4
    writer.close()
    assert not lmdb_environment.is_open(str(store_path))
