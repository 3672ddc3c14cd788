"""Folders of other programs, at every path where a command deletes or replaces a folder: they lose nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

import penstock as ps
from penstock.cache import CopyFailed, ForeignFolder, make_folder
from penstock.engine import copy_any, repartition, restore_any, shrink
from penstock.recovery.repair.scratch_store import folder_store
from penstock.remote.socket_wire import connect
from tests.partitions.copies.copied import digest, filled

TEXT = "the only copy"


def precious(folder: Path) -> Path:
    """Make a folder of a user."""
    folder.mkdir(parents=True)
    (folder / "letter.txt").write_text(TEXT)
    (folder / "copy").mkdir()
    (folder / "copy" / "data.mdb").write_text(TEXT)
    return folder


def intact(folder: Path) -> bool:
    return (folder / "letter.txt").read_text() == (folder / "copy" / "data.mdb").read_text() == TEXT


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make stores to copy: of one partition, of two, and with much free space."""
    folder = tmp_path_factory.mktemp("stores")
    filled(folder / "one", rounds=1)
    filled(folder / "free")
    shutil.copytree(folder / "one", folder / "two")
    repartition(folder / "two", 2)
    return folder


@pytest.fixture
def place(stores: Path, tmp_path: Path) -> Path:
    """Copy these stores to a folder of the test."""
    shutil.copytree(stores, tmp_path, dirs_exist_ok=True)
    return tmp_path


def snapshot_of(tmp: Path) -> tuple[Callable[[], object], Path]:
    return lambda: copy_any(str(tmp / "one"), str(tmp / "target")), tmp / "target.partial"


def snapshot_of_two(tmp: Path) -> tuple[Callable[[], object], Path]:
    return lambda: copy_any(str(tmp / "two"), str(tmp / "target")), tmp / "target.partial"


def restored(tmp: Path) -> tuple[Callable[[], object], Path]:
    copy_any(str(tmp / "one"), str(tmp / "backup"))
    return lambda: restore_any(str(tmp / "backup"), str(tmp / "target")), tmp / "target" / "restored.partial"


def shrunk(tmp: Path) -> tuple[Callable[[], object], Path]:
    return lambda: shrink(str(tmp / "free")), tmp / "free" / "smaller.partial"


def parted(tmp: Path) -> tuple[Callable[[], object], Path]:
    return lambda: repartition(tmp / "one", 2), tmp / "one" / "2024-10"


def restored_of_two(tmp: Path) -> tuple[Callable[[], object], Path]:
    make, _ = snapshot_of_two(tmp)
    make()
    return lambda: restore_any(str(tmp / "target"), str(tmp / "fresh")), tmp / "fresh" / "1-0"


CASES = [snapshot_of, snapshot_of_two, restored, shrunk, parted, restored_of_two]


@pytest.mark.parametrize("case", CASES)
def test_a_folder_without_a_mark_is_refused(
    case: Callable[[Path], tuple[Callable[[], object], Path]], place: Path
) -> None:
    run, where = case(place)
    precious(where)
    with pytest.raises(ForeignFolder, match=f"^{where}: .*move it elsewhere or delete it, and run this again$"):
        run()
    assert intact(where)
    shutil.rmtree(where)
    run()


@pytest.mark.parametrize("case", CASES)
def test_no_symlink_is_followed(case: Callable[[Path], tuple[Callable[[], object], Path]], place: Path) -> None:
    run, where = case(place)
    mine = precious(place / "mine")
    where.parent.mkdir(exist_ok=True)
    where.symlink_to(mine)
    with pytest.raises(ForeignFolder, match=f"^{where}: it is a symlink; "):
        run()
    assert intact(mine)
    assert where.is_symlink()


@pytest.mark.parametrize("case", CASES)
def test_a_foreign_file_in_a_marked_folder_is_refused(
    case: Callable[[Path], tuple[Callable[[], object], Path]], place: Path
) -> None:
    run, where = case(place)
    where.parent.mkdir(exist_ok=True)
    make_folder(str(where))
    (where / "copy").mkdir()
    (where / "copy" / "letter.txt").write_text(TEXT)
    with pytest.raises(ForeignFolder, match=r"'copy/letter\.txt' is in it"):
        run()
    assert (where / "copy" / "letter.txt").read_text() == TEXT


@pytest.mark.parametrize("case", CASES)
def test_a_symlink_in_a_marked_folder_is_refused(
    case: Callable[[Path], tuple[Callable[[], object], Path]], place: Path
) -> None:
    run, where = case(place)
    mine = precious(place / "mine")
    where.parent.mkdir(exist_ok=True)
    make_folder(str(where))
    (where / "copy").symlink_to(mine / "copy")
    with pytest.raises(ForeignFolder, match="'copy' is in it"):
        run()
    assert intact(mine)


@pytest.mark.parametrize("case", CASES)
def test_what_a_killed_run_left_is_deleted(
    case: Callable[[Path], tuple[Callable[[], object], Path]], place: Path
) -> None:
    run, where = case(place)
    where.parent.mkdir(exist_ok=True)
    make_folder(str(where))
    (where / "copy").mkdir()
    (where / "copy" / "data.mdb").write_text("half of it")
    run()
    assert not where.exists() or "copy" not in os.listdir(where)


@pytest.mark.parametrize("move", [shutil.copytree, shutil.move])
def test_a_mark_that_was_copied_or_moved_is_void(move: Callable[..., object], place: Path) -> None:
    run, where = snapshot_of(place)
    (place / "elsewhere").mkdir()
    made = place / "elsewhere" / "made"
    make_folder(str(made))
    (made / "data.mdb").write_text(TEXT)
    move(made, where)
    with pytest.raises(ForeignFolder, match="it has no mark"):
        run()
    assert (where / "data.mdb").read_text() == TEXT


def test_a_target_that_is_a_symlink_is_refused(place: Path) -> None:
    run, _ = snapshot_of(place)
    (place / "empty").mkdir()
    (place / "target").symlink_to(place / "empty")
    with pytest.raises(CopyFailed, match="there already"):
        run()


def test_a_file_that_came_meanwhile_stays(place: Path) -> None:
    (place / "target.partial").mkdir()

    def put_there(*_: object) -> None:
        (place / "target.partial" / "letter.txt").write_text(TEXT)

    copy_any(str(place / "one"), str(place / "target"), put_there)
    assert (place / "target.partial" / "letter.txt").read_text() == TEXT
    assert digest(place / "target") == digest(place / "one")


def test_a_repair_leaves_folders_of_others_alone(place: Path) -> None:
    mine = precious(place / "one" / "repair-notes")
    left = place / "one" / "repair-0badcafe"
    make_folder(str(left))
    (left / "data.mdb").write_text("half of it")
    with folder_store(str(place / "one")):
        assert intact(mine)
    assert sorted(path.name for path in (place / "one").glob("repair-*")) == ["repair-notes"]


def test_a_data_file_beside_partitions_that_is_not_their_former_one_stays(place: Path) -> None:
    (place / "two" / "data.mdb").write_text(TEXT)
    for to in (1, 3):
        with pytest.raises(ForeignFolder, match=r"'data.mdb' lies beside the partitions"):
            repartition(place / "two", to)
    assert (place / "two" / "data.mdb").read_text() == TEXT


def test_a_partition_with_a_foreign_file_is_not_deleted(place: Path) -> None:
    before = digest(place / "two")
    (place / "two" / "1-1" / "letter.txt").write_text(TEXT)
    with pytest.raises(ForeignFolder, match=r"1-1: 'letter\.txt' is in it"):
        repartition(place / "two", 3)
    assert (place / "two" / "1-1" / "letter.txt").read_text() == TEXT
    assert digest(place / "two") == before


@pytest.mark.parametrize("name", [None, b"letters"])
def test_the_file_of_another_program_is_not_restored_over(name: bytes | None, place: Path) -> None:
    copy_any(str(place / "one"), str(place / "backup"))
    with lmdb.open(str(place / "other"), max_dbs=1) as env, env.begin(write=True) as txn:
        txn.put(b"letter", TEXT.encode(), db=env.open_db(name, txn))
    with pytest.raises(CopyFailed, match="there is a store with content"):
        restore_any(str(place / "backup"), str(place / "other"))
    with lmdb.open(str(place / "other"), max_dbs=1) as env, env.begin() as txn:
        assert txn.get(b"letter", db=env.open_db(name, txn, create=False)) == TEXT.encode()


def test_a_repartitioned_store_has_no_mark(place: Path) -> None:
    for to in (2, 3, 1):
        repartition(place / "one", to)
        assert not list((place / "one").rglob("made-by-penstock"))
    assert digest(place / "one")


@pytest.mark.parametrize("name", ["owner", "lock.mdb", "data.mdb.new"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_folder_with_the_file_of_another_program_gets_no_store(name: str, partitions: int, tmp_path: Path) -> None:
    place = tmp_path / "store"
    folder = place if partitions == 1 or name == "owner" else place / "0-0"
    folder.mkdir(parents=True)
    (folder / name).write_text(TEXT)
    app = ps.App("foreign")
    app.table("t", key="id")
    with pytest.raises(ps.PenstockError, match=f"{name} is a file of another program, .*; move it away"):
        ps.open(app, place, partitions=partitions, processes=False)
    assert (folder / name).read_text() == TEXT
    (folder / name).unlink()
    ps.open(app, place, partitions=partitions, processes=False).close()


def test_a_file_named_socket_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = ps.App("foreign")
    app.table("t", key="id")
    (tmp_path / "socket").write_text(TEXT)
    with ps.open(app, tmp_path) as engine:
        engine.put("t", {"id": 1})
    assert (tmp_path / "socket").read_text() == TEXT
    assert "another program has a file 'socket' there" in caplog.text


def test_the_socket_on_which_another_program_listens_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = ps.App("foreign")
    app.table("t", key="id")
    with contextlib.chdir(tmp_path), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as theirs:
        theirs.bind("socket")
        theirs.listen(64)
        with ps.open(app, tmp_path) as engine:
            engine.put("t", {"id": 1})
        assert "another program listens on 'socket' there" in caplog.text
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect("socket")  # it is still theirs
    with ps.open(app, tmp_path):
        connect(str(tmp_path), 60.0).close()
