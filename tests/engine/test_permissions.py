"""Permissions of the files of a store: this user alone may use them, by default."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache.files.writer_lock import WriterLock
from penstock.engine import repartition, shrink
from tests.cache.processes import heard, in_fork, process

LOCKED = """
import fcntl, os
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
say("locked"); wait()
"""


@pytest.fixture(params=[0o000, 0o077], ids=["open mask", "strict mask"])
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def app() -> ps.App:
    shop = ps.App("shop")
    users = shop.table("users", key="id")
    users.view("by_name", key="name", reduce=ps.count())
    return shop


def modes(folder: Path) -> dict[str, str]:
    """Return the permissions of a folder and all files in it. Skip sockets, which cannot be opened as files."""
    found = {".": folder, **{str(path.relative_to(folder)): path for path in folder.rglob("*")}}
    return {name: f"{stat.S_IMODE(path.stat().st_mode):o}" for name, path in found.items() if not path.is_socket()}


@pytest.mark.usefixtures("mask")
@pytest.mark.parametrize(
    ("how", "folder", "file", "lock"),
    [({}, "700", "600", "600"), ({"mode": 0o770}, "770", "660", "660"), ({"mode": 0o755}, "755", "644", "600")],
    ids=["by default", "a group writes", "all read"],
)
def test_what_is_made_has_the_permissions_that_were_told(
    store_path: Path, how: dict[str, Any], folder: str, file: str, lock: str
) -> None:
    with ps.open(app(), store_path, **how) as engine:
        engine.put("users", {"id": 1, "name": "Sue"})
        assert modes(store_path) == {".": folder, "data.mdb": file, "lock.mdb": file, "owner": lock}
    if how:
        (store_path / "owner").unlink()
        (store_path / "lock.mdb").unlink()
        with ps.open(app(), store_path):
            assert modes(store_path) == {".": folder, "data.mdb": file, "lock.mdb": file, "owner": lock}
    repartition(store_path, 2)
    with ps.open(app(), store_path, processes=False):
        own = {"data.mdb": file, "lock.mdb": file, "owner": lock}
        parts = {f"1-{i}/{name}": mode for i in range(2) for name, mode in own.items()}
        assert modes(store_path) == {
            ".": folder,
            "owner": lock,
            "partitions": file,
            "1-0": folder,
            "1-1": folder,
            **parts,
        }


@pytest.mark.usefixtures("mask")
def test_partitions_in_processes_have_them_too(store_path: Path) -> None:
    with ps.open(app(), store_path, partitions=2, mode=0o750):
        found = modes(store_path)
    assert {mode for name, mode in found.items() if (store_path / name).is_dir()} == {"750"}
    assert {mode for name, mode in found.items() if name.endswith((".mdb", "partitions"))} == {"640"}
    assert {mode for name, mode in found.items() if name.endswith("owner")} == {"600"}


@pytest.mark.usefixtures("mask")
def test_an_empty_folder_gets_them_and_one_with_files_keeps_its_own(tmp_path: Path) -> None:
    empty, used = tmp_path / "empty", tmp_path / "used"
    for path in (empty, used):
        path.mkdir()
        path.chmod(0o755)
    (used / "notes").touch()
    for path in (empty, used):
        ps.open(app(), path).close()
    assert modes(empty)["."] == "700"
    assert modes(used)["."] == "755"
    assert modes(used)["data.mdb"] == modes(used)["owner"] == "600"


@pytest.mark.usefixtures("mask")
def test_a_file_that_replaces_another_keeps_its_permissions(store_path: Path, tmp_path: Path) -> None:
    with ps.open(app(), store_path, mode=0o750) as engine:
        engine.put_many("users", [{"id": n, "name": "x" * 2000} for n in range(500)])
        for n in range(500):
            engine.delete("users", n)
        engine.copy(tmp_path / "copy")
        engine.compact()
    assert shrink(os.fspath(store_path)) is not None
    assert modes(store_path)["data.mdb"] == "640"
    assert modes(tmp_path / "copy") == {".": "700", "data.mdb": "600"}


@pytest.mark.parametrize("mode", [0o400, 0o1700, -1, True, "700"])
def test_permissions_that_are_none_are_refused(store_path: Path, mode: Any) -> None:
    with pytest.raises(ps.DefinitionError, match="mode="):
        ps.open(app(), store_path, mode=mode)


def test_another_user_can_no_longer_hold_the_lock_of_an_older_store(store_path: Path) -> None:
    WriterLock(store_path).close()
    (store_path / "owner").chmod(0o644)
    WriterLock(store_path).close()
    assert modes(store_path)["owner"] == "600"
    (store_path / "owner").chmod(0o666)
    WriterLock(store_path).close()
    assert modes(store_path)["owner"] == "666", "all users write it, and were told to"


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb", "owner"])
@pytest.mark.parametrize("kind", ["symlink", "named pipe", "folder"])
def test_anything_but_a_file_is_refused_by_name(store_path: Path, tmp_path: Path, name: str, kind: str) -> None:
    ps.open(app(), store_path).close()
    (store_path / name).rename(tmp_path / "elsewhere")
    if kind == "symlink":
        (store_path / name).symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        (store_path / name).mkdir()
    else:
        os.mkfifo(store_path / name)
    for readonly in (False, True) if name != "owner" else (False,):
        said = in_fork(lambda readonly=readonly: ps.open(app(), store_path, readonly=readonly))
        assert said.startswith(f"PenstockError: {store_path / name} is a {kind}, and")


def test_the_error_names_the_process_that_has_the_lock(store_path: Path) -> None:
    """The error does not name the process in the lock file, because that process may be gone."""
    WriterLock(store_path).close()
    with process(LOCKED, store_path / "owner") as other:
        assert heard(other) == "locked"
        with pytest.raises(ps.StoreInUse, match=f"process {other.pid} on .*python"):
            WriterLock(store_path)


def test_an_engine_closes_after_its_folder_has_lost_the_right_to_write(tmp_path: Path) -> None:
    engine = ps.open(app(), tmp_path / "store")
    engine.put("users", {"id": 1, "name": "Sue"})
    (tmp_path / "store").chmod(0o500)
    root = os.geteuid() == 0
    if root:
        os.chown(tmp_path / "store", 65534, 65534)
        os.seteuid(65534)
    try:
        engine.close()
    finally:
        if root:
            os.seteuid(0)
    (tmp_path / "store").chmod(0o700)
    with ps.open(app(), tmp_path / "store") as engine, engine.snapshot() as snap:
        assert snap.view("by_name")["Sue"] == 1
