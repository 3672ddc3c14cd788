"""Restore a store from a copy, and shrink its file: completely or not at all, and never while others use it."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import CopyFailed, gate, open_lmdb
from penstock.engine import restore, restore_any, shrink
from tests.cache.processes import heard, process
from tests.partitions.copies.copied import digest, filled
from tests.remote.holding import held, shop
from tests.waiting import PATIENCE

_KILLED = """
import os, signal
from penstock.engine import restore
die = lambda what, done, of: what == sys.argv[3] and os.kill(os.getpid(), signal.SIGKILL)
restore(sys.argv[1], sys.argv[2], True, die)
"""


# -- restoring


def test_a_store_is_made_of_a_copy(tmp_path: Path, made: Path) -> None:
    done = restore(str(made), str(tmp_path / "store"))
    assert done.app == "shop"
    assert digest(tmp_path / "store") == digest(made)
    assert sorted(os.listdir(tmp_path / "store")) == ["data.mdb", "lock.mdb", "owner"]
    with ps.open(shop(), tmp_path / "store") as engine:
        assert engine.put("users", {"id": 1000, "name": "Sue", "ts": 1}).applied == 1


def test_content_is_only_replaced_where_that_was_asked_for(tmp_path: Path, made: Path) -> None:
    store = tmp_path / "store"
    ps.open(shop(), store).close()
    restore(str(made), str(store))  # a store without content may go
    filled(store, rounds=1)
    before = digest(store)
    with pytest.raises(CopyFailed, match=r"there is a store with content; .*--force"):
        restore(str(made), str(store))
    assert digest(store) == before
    restore(str(made), str(store), force=True)
    assert digest(store) == digest(made)
    (store / "data.mdb").write_bytes(b"?" * 8192)
    with pytest.raises(CopyFailed, match="with content"):
        restore(str(made), str(store))
    restore(str(made), str(store), force=True)
    assert digest(store) == digest(made)


def test_a_store_that_somebody_has_open_is_not_replaced(tmp_path: Path, made: Path) -> None:
    store = tmp_path / "store"
    filled(store)
    with held(store), pytest.raises(ps.StoreInUse):
        restore(str(made), str(store), force=True)
    with ps.open(shop(), store, readonly=True) as engine:
        with pytest.raises(CopyFailed, match=f"process {os.getpid()} reads it; end that one"):
            restore(str(made), str(store), force=True)
        assert shrink(str(store)) is None
        engine.digest()
    reading = (
        "import penstock as ps\nfrom tests.remote.holding import shop\n"
        "e = ps.open(shop(), sys.argv[1], readonly=True)\nsay('on')\nwait()"
    )
    with process(reading, store) as child:
        heard(child)
        with pytest.raises(CopyFailed, match=f"process {child.pid} reads it; end that one"):
            restore(str(made), str(store), force=True)
        assert shrink(str(store)) is None
    assert shrink(str(store)) is not None
    restore(str(made), str(store), force=True)


def test_what_is_no_copy_is_refused(tmp_path: Path, made: Path) -> None:
    for name in ("nothing", "empty"):
        with pytest.raises(ps.StoreMissing, match=name):
            restore(str(tmp_path / name), str(tmp_path / "store"))
        (tmp_path / "empty").mkdir(exist_ok=True)
    with pytest.raises(CopyFailed, match="the copy itself"):
        restore(str(made), str(made))


def test_a_copy_that_is_no_whole_store_replaces_nothing(tmp_path: Path) -> None:
    """The folder of one partition, and the copy of a store without content, are refused before the store goes."""
    before = filled(tmp_path / "store", rounds=1)
    ps.open(shop(), tmp_path / "two", partitions=2, processes=False).close()
    with pytest.raises(ps.PenstockError, match=r"0-1 is partition 1 of a store of several partitions; open the folder"):
        restore_any(str(tmp_path / "two" / "0-1"), str(tmp_path / "store"), force=True)
    open_lmdb(str(tmp_path / "bare")).close()
    with pytest.raises(ps.StoreMissing, match="bare"):
        restore_any(str(tmp_path / "bare"), str(tmp_path / "store"), force=True)
    assert digest(tmp_path / "store") == before


def test_a_store_can_be_restored_from_while_nobody_writes_it(tmp_path: Path) -> None:
    before = filled(tmp_path / "store")
    with held(tmp_path / "store"), pytest.raises(ps.StoreInUse):
        restore(str(tmp_path / "store"), str(tmp_path / "other"))
    restore(str(tmp_path / "store"), str(tmp_path / "other"))
    assert digest(tmp_path / "other") == before


@pytest.mark.parametrize("when", ["copying", "checking"])
def test_a_restore_that_is_killed_leaves_the_store_as_it_was(when: str, tmp_path: Path, made: Path) -> None:
    store = tmp_path / "store"
    before = filled(store, rounds=1)
    with process(_KILLED, made, store, when) as child:
        assert child.wait(PATIENCE) < 0
    assert digest(store) == before
    restore(str(made), str(store), force=True)
    assert digest(store) == digest(made)
    assert not (store / "restored.partial").exists()


# -- shrinking


def test_a_file_is_written_anew_without_what_is_free(tmp_path: Path) -> None:
    store = tmp_path / "store"
    before = filled(store, rounds=20)
    with ps.open(shop(), store) as engine:
        engine.compact()
        assert shrink_in_use(store)
    size = (store / "data.mdb").stat().st_size
    now = shrink(str(store))
    assert now is not None
    assert (store / "data.mdb").stat().st_size == now < size / 2
    assert digest(store) == before
    assert shrink(str(store)) is None
    with ps.open(shop(), store) as engine:
        engine.put("users", {"id": 5000, "name": "Sue", "ts": 1})
    with ps.open(shop(), store, readonly=True) as engine, engine.snapshot() as snap:
        assert snap.table("users")[5000]["name"] == "Sue"


def shrink_in_use(store: Path) -> bool:
    with pytest.raises(ps.StoreInUse):
        shrink(str(store))
    return True


def test_a_reader_that_comes_meanwhile_waits(tmp_path: Path) -> None:
    """A process that opens the store while its file is replaced reads the file that is there afterwards."""
    store = tmp_path / "store"
    before = filled(store, rounds=20)
    with ps.open(shop(), store) as engine:
        engine.compact()
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(digest(store)))
    rename = os.rename

    def renamed(old: str, new: str) -> None:
        if new.endswith("data.mdb"):
            reader.start()
            folder = os.open(store, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.close(folder)
        rename(old, new)

    with mock.patch("os.rename", renamed):
        assert shrink(str(store)) is not None
    reader.join(PATIENCE)
    assert found == [before]


def test_the_gate_lets_many_open_and_one_replace(tmp_path: Path) -> None:
    with gate(str(tmp_path)), gate(str(tmp_path)):
        folder = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
    with gate(str(tmp_path), alone=True):
        pass
