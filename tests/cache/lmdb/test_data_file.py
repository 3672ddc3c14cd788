"""Open data files that are empty, cut short or replaced."""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
import pytest

from penstock.cache.errors import StoreReplaced
from penstock.cache.lmdb.data_file import DATA, empty_file
from penstock.cache.lmdb.lmdb_environment import is_open
from penstock.cache.lmdb.lmdb_store import open_lmdb
from tests.cache.lmdb.test_lmdb_store import put, rows
from tests.cache.processes import heard, process


@pytest.fixture
def made(store_path: Path) -> Path:
    """Return a closed store of some hundred pages."""
    store = open_lmdb(store_path)
    for part in range(4):
        put(store, f"part {part}", **{f"{n:04}": b"x" * 2000 for n in range(15)})
    store.close()
    return store_path


def test_an_empty_store_equals_that_of_lmdb(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path), map_size=1 << 20).close()
    assert (tmp_path / DATA).read_bytes() == empty_file()


def test_a_file_that_was_cut_short_is_refused_at_every_length(made: Path) -> None:
    """Use a child process, because a signal could end it."""
    whole = (made / DATA).read_bytes()
    code = """
import os
import re
from collections.abc import Callable
from functools import partial
from penstock.cache.errors import StoreDamaged
from penstock.cache.lmdb.lmdb_store import open_lmdb
folder, file = sys.argv[1], sys.argv[1] + "/data.mdb"
refused = opened = 0
for size in reversed(range(0, os.path.getsize(file), 4096)):
    for cut in (size + 1000, size) if size < 20480 else (size,):
        os.truncate(file, cut)
        for readonly in (True, False):
            try:
                store = open_lmdb(folder, readonly)
            except StoreDamaged as error:
                assert f"cut to {cut} bytes" in str(error), error
                refused += 1
            else:  # the pages beyond the end are free
                with store.read() as snap:
                    assert all(len(list(snap.scan(name))) == 15 for name in snap.names())
                store.close()
                opened += 1
say(refused > 10 * opened)
"""
    with process(code, made) as child:
        assert heard(child) == "True"
    (made / DATA).write_bytes(whole)
    store = open_lmdb(made)
    assert len(rows(store, "part 3")) == 15
    store.close()


def test_free_pages_beyond_the_end_are_no_damage(made: Path) -> None:
    """LMDB never reads free pages, so a file without its last free pages is sound."""
    store = open_lmdb(made)
    put(store, "last", **{f"{n:04}": b"x" * 3000 for n in range(15)})
    for _ in range(2):  # pages are free once no meta page refers to them
        with store.write() as txn:
            txn.clear("last")
    used = store.info()["bytes"]
    store.close()
    os.truncate(made / DATA, used - 4096)
    store = open_lmdb(made, readonly=True)
    assert len(rows(store, "part 3")) == 15
    store.close()


def test_the_next_transaction_refuses_an_open_file_that_was_cut_short(made: Path) -> None:
    code = """
import os
import re
from collections.abc import Callable
from functools import partial
from penstock.cache.errors import StoreDamaged
from penstock.cache.lmdb.lmdb_store import open_lmdb
for readonly in (False, True):
    store = open_lmdb(sys.argv[1], readonly)
    store.read().close()
    file = sys.argv[1] + "/data.mdb"
    whole = open(file, "rb").read()
    os.truncate(file, 0)
    for begin in (store.read, store.info) if readonly else (store.read, store.write):
        try:
            begin()
        except StoreDamaged as error:
            say(error)
    open(file, "r+b").write(whole)
    store.close()
"""
    with process(code, made) as child:
        for _ in range(4):
            assert re.search(f"{made}.* was cut to 0 bytes", heard(child))


def test_a_kill_during_creation_leaves_no_empty_file(store_path: Path) -> None:
    """Kill after each system call that changes the disk. The next opening creates the store."""
    ended, count = 9, 0
    while ended == 9:
        count += 1
        ended = killed_after(count, lambda: open_lmdb(store_path).close())
        assert ended in (0, 9)
        file = store_path / DATA
        assert not file.exists() or file.stat().st_size >= len(empty_file())
        store = open_lmdb(store_path)
        put(store, "rows", Joe=b"1")
        store.close()
        file.unlink()
    assert count > 3


def killed_after(calls: int, act: Callable[[], object]) -> int:
    """Return the exit code of a child that ends after so many system calls. It is 0 if the act ended first."""
    child = os.fork()
    if not child:
        left = [calls]

        def counted(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            out = call(*args, **kwargs)
            left[0] -= 1
            if not left[0]:
                os._exit(9)
            return out

        os.open, os.rename, os.fsync = (partial(counted, call) for call in (os.open, os.rename, os.fsync))
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_commit_into_a_deleted_file_is_refused(made: Path, tmp_path: Path, how: str) -> None:
    store = open_lmdb(made)
    (tmp_path / "other").write_bytes((made / DATA).read_bytes())

    def lose() -> None:
        (made / DATA).rename(tmp_path / "former")
        if how == "replaced":
            (tmp_path / "other").rename(made / DATA)

    def put_and_lose() -> None:
        with store.write() as txn:
            txn.put_many("rows", [(b"Joe", b"1")])
            lose()

    with pytest.raises(StoreReplaced, match=str(made)):
        put_and_lose()
    with pytest.raises(StoreReplaced):
        put(store, "rows", Sue=b"2")
    store.close()
    if how == "replaced":
        store = open_lmdb(made)
        assert rows(store, "rows") == {}
        put(store, "rows", Joe=b"1")
        store.close()


def test_a_reader_notices_another_file_within_a_second(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("penstock.cache.lmdb.data_file.time.monotonic", lambda: now[0])
    store = open_lmdb(made, readonly=True)
    store.read().close()
    data = (made / DATA).read_bytes()
    (made / DATA).rename(made / "former")
    (made / DATA).write_bytes(data)
    store.read().close()
    now[0] += 1.1
    with pytest.raises(StoreReplaced):
        store.read()
    store.close()


def test_lent_rows_of_a_deleted_store_do_not_block_its_path(made: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(made, tmp_path / "copy")
    store = open_lmdb(made)
    snap = store.read()
    lent = snap.floor("part 0", b"0003")
    assert lent is not None
    store.close()
    shutil.rmtree(made)
    shutil.copytree(copy, made)
    store = open_lmdb(made)
    put(store, "part 0", **{"0003": b"new"})
    assert lent[1] == b"x" * 2000
    del lent, snap
    gc.collect()
    assert rows(store, "part 0")[b"0003"] == b"new"
    store.close()
    assert not is_open(str(made))
