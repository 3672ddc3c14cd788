"""Flip each bit of both meta pages, in stores of several histories: an opening serves the last commit or refuses."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.cache import META, PenstockError, copy_snapshot, open_lmdb
from penstock.cache.encoding.checksum import seal, unseal
from penstock.cache.lmdb.lmdb_store import LmdbStore

PAGE = 4096
EVERY = int(os.environ.get("PENSTOCK_META_FLIPS", "0"))
"""1 turns every bit, in stores of all histories."""
FIELDS = {
    "header": (0, 16),
    "magic and version": (16, 24),
    "address": (24, 32),
    "map size": (32, 40),
    "free list": (40, 88),
    "list of databases": (88, 136),
    "last page": (136, 144),
    "transaction": (144, 152),
}


def commit(store: LmdbStore, n: int) -> None:
    with store.write() as txn:
        txn.put_many(META, [(b"state", seal(b"state", b"%d" % n))])
        txn.put_many("log", [(key := b"%06d" % n, seal(key, b"x" * 300))], append=True)


def some_commits(path: Path, commits: int) -> int:
    store = open_lmdb(path, sync=False)
    for n in range(1, commits + 1):
        commit(store, n)
    store.close()
    return commits


def a_copy(path: Path, commits: int, more: int) -> int:
    """A copy has no free list, and its transaction numbers start again."""
    some_commits(path / "of", commits)
    store = open_lmdb(path / "of", readonly=True)
    with store.read() as snap:
        copy_snapshot(snap, str(path / "copy"), lambda *_: None)
    store.close()
    shutil.rmtree(path / "of")
    shutil.move(path / "copy" / "data.mdb", path / "data.mdb")
    store = open_lmdb(path, sync=False)
    for n in range(commits + 1, commits + more + 1):
        commit(store, n)
    store.close()
    return commits + more


def with_a_reader(path: Path, commits: int) -> int:
    """An open snapshot keeps all pages that were freed since it began."""
    store = open_lmdb(path, sync=False)
    commit(store, 1)
    with store.read():
        for n in range(2, commits + 1):
            commit(store, n)
    store.close()
    return commits


HISTORIES: dict[str, Callable[[Path], int]] = {
    "one commit": lambda path: some_commits(path, 1),
    "two commits": lambda path: some_commits(path, 2),
    "three commits": lambda path: some_commits(path, 3),
    "64 commits": lambda path: some_commits(path, 64),
    "65 commits": lambda path: some_commits(path, 65),
    "a copy": lambda path: a_copy(path, 7, 0),
    "a copy and one commit": lambda path: a_copy(path, 7, 1),
    "a copy and three commits": lambda path: a_copy(path, 7, 3),
    "beside a reader": lambda path: with_a_reader(path, 40),
}


def flips(whole: bytes, begin: int, end: int) -> Iterator[tuple[str, bytes]]:
    for page in (0, 1):
        for bit in range(8 * begin, 8 * end):
            turned = bytearray(whole)
            turned[page * PAGE + bit // 8] ^= 1 << bit % 8
            yield f"meta page {page}, bit {bit}", bytes(turned)


def states(store: LmdbStore) -> tuple[bytes, int]:
    with store.read() as snap:
        [state] = snap.get_many(META, [b"state"])
        assert state is not None
        return unseal(b"state", state, META), sum(1 for _ in snap.scan("log"))


def opened_with(path: Path, turned: bytes, readonly: bool) -> LmdbStore | None:
    """Open the store with this file. Return None if it is refused with its path."""
    (path / "data.mdb").write_bytes(turned)
    (path / "lock.mdb").unlink(missing_ok=True)
    try:
        return open_lmdb(path, readonly=readonly, sync=False)
    except PenstockError as error:
        message = str(error)
    assert str(path) in message
    assert "no memory" not in message
    return None


def check_flips(path: Path, last: int, field: str, every: int) -> int:
    """Return how many flips of a field are refused. No other flip may lose a commit, now or later."""
    refused = 0
    whole = (path / "data.mdb").read_bytes()
    for name, turned in list(flips(whole, *FIELDS[field]))[::every]:
        store = opened_with(path, turned, readonly=True)
        if store is None:
            assert opened_with(path, turned, readonly=False) is None, name
            refused += 1
            continue
        assert states(store) == (b"%d" % last, last), name
        store.close()
        store = opened_with(path, turned, readonly=False)
        if store is None:
            continue
        for n in (1, 2, 3):
            commit(store, last + n)
        store.close()
        store = open_lmdb(path, sync=False)
        assert states(store) == (b"%d" % (last + 3), last + 3), name
        store.close()
    return refused


@pytest.mark.parametrize("history", HISTORIES)
def test_no_flipped_bit_of_a_transaction_number_loses_a_commit(history: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.mkdir()
    refused = check_flips(path, HISTORIES[history](path), "transaction", EVERY or 1)
    assert refused >= 60, "a greater number is refused at least, of one page"


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("history", HISTORIES if EVERY == 1 else ["65 commits"])
def test_no_flipped_bit_of_a_meta_page_loses_a_commit(history: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.mkdir()
    check_flips(path, HISTORIES[history](path), field, EVERY or 9)
