"""A full disk, a full map, or a missing permission: the engine stops, names the next step, and resumes without a loss.

Writers put numbered batches until one is refused. Then the store must show the acknowledged batches of the oracle. The
same holds after the writers get room, and continue in the store that they have open.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import open_lmdb
from penstock.engine import open_on
from tests.cache.processes import in_fork
from tests.core.crash import crash_writer as writer
from tests.faults import shop
from tests.faults.smalldisk import ROOM, Disk, small_disk
from tests.harness.worlds import TINY

SIZE = 30
MOST = 400
MORE = 3  # batches to put after room was made
FULL = "(No space left on device|File too large|Input/output error, its disk is full.*)"
UNDONE = "; what was being written is undone; free some space and put it again"


def until_refused(engine: Any, done: int = 0) -> tuple[int, str]:
    """Put batches until one is refused. Return the number of acknowledged batches in all, and the error."""
    put = writer.write(engine, done, MOST, SIZE)
    try:
        while True:
            done = next(put)
    except ps.StoreFull as error:
        return done, str(error)


def shows(engine: Any, done: int) -> None:
    """Check that the store has these batches and no others."""
    with engine.snapshot() as snap:
        assert snap.sources == {writer.SOURCE: done}
    shop.check_shown(engine, shop.model_after(done, SIZE))


def fills_up(engine: Any, make_room: Callable[[], object]) -> str:
    """Fill the store, make room, and continue. Return the error of the full store."""
    done, said = until_refused(engine)
    assert done > 2
    shows(engine, done)
    done, again = until_refused(engine, done)
    assert again == said
    make_room()
    assert list(writer.write(engine, done, done + MORE, SIZE))[-1] == done + MORE
    shows(engine, done + MORE)
    assert engine.check().ok
    return said


def on_small_disk(disk: Disk, path: Path, act: Callable[[Callable[[], object]], object]) -> str:
    """Do something on a small disk, in a process of its own. Return its output."""

    def run() -> object:
        with small_disk(disk, path) as make_room:
            return act(make_room)

    return in_fork(run)


def test_a_small_disk_is_soon_full_and_then_has_room(disk: Disk, tmp_path: Path) -> None:
    for way in {disk, Disk.LIMITED}:
        file = tmp_path / way.name / "filler"

        def fill(file: Path = file) -> bool:
            with suppress(OSError), open(file, "wb", buffering=0) as filler:
                while filler.tell() < 2 * ROOM:
                    filler.write(b"x" * 4096)
            return file.stat().st_size > ROOM

        def act(make_room: Callable[[], object], fill: Callable[[], bool] = fill) -> list[bool]:
            before = fill()
            make_room()
            return [before, fill()]

        assert on_small_disk(way, file.parent, act) == "[False, True]", way


def test_a_full_disk_refuses_a_batch_and_no_more(disk: Disk, store_path: Path) -> None:
    def act(make_room: Callable[[], object]) -> str:
        with shop.opened(store_path) as engine:
            said = fills_up(engine, make_room)
            digest = engine.digest()
        with shop.opened(store_path) as engine:
            assert engine.digest() == digest
        return said

    said = on_small_disk(disk, store_path, act)
    assert re.fullmatch(rf'"the store at {store_path} can\'t grow: {FULL}{UNDONE}"', said), said


def test_a_full_disk_fails_tickets_and_no_more(disk: Disk, store_path: Path) -> None:
    def act(make_room: Callable[[], object]) -> int:
        with shop.opened(store_path, "group") as engine:
            acknowledged, refused = 0, ""
            while not refused:
                ticket = engine.put("users", writer.document(acknowledged) | {"more": "x" * 9_999})
                try:
                    acknowledged += ticket.result().applied
                except ps.StoreFull as error:
                    refused = str(error)
            assert refused.endswith(UNDONE)
            with engine.snapshot() as snap:
                assert sorted(key for key, _ in snap.table("users").items()) == list(range(acknowledged))
                assert sum(row.value for row in snap.view("namecount").items()) == acknowledged
            make_room()
            assert engine.put("users", writer.document(acknowledged)).result().applied == 1
            assert engine.check().ok
            return acknowledged

    assert int(on_small_disk(disk, store_path, act)) > 10


def test_a_store_on_a_full_disk_can_be_read(disk: Disk, store_path: Path) -> None:
    def act(make_room: Callable[[], object]) -> bool:
        with shop.opened(store_path) as engine:
            done, _ = until_refused(engine)
        with suppress(OSError), open(store_path / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
        with ps.open(shop.WORLD.app(), store_path, readonly=True) as reader:
            shows(reader, done)
        (store_path / "filler").unlink()
        make_room()
        with shop.opened(store_path) as engine:
            shows(engine, done)
        return True

    assert on_small_disk(disk, store_path, act) == "True"


def test_a_full_map_refuses_a_batch_and_no_more(store_path: Path) -> None:
    store = open_lmdb(store_path, map_size=1 << 19, patience=0.01)
    engine, _ = open_on(shop.WORLD.app(), store, TINY)
    with engine:
        snap = engine.snapshot()
        said = fills_up(engine, snap.close)
    assert "its map of" in said
    assert "close it first" in said or "close them first" in said
    assert said.endswith(UNDONE)


class _Head(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def like_anyone(act: Callable[[], object]) -> str:
    """Do something in a process that must obey file permissions, even as root. Return its output."""

    def run() -> object:
        libc = ctypes.CDLL(None, use_errno=True)
        head, rights = _Head(0x20080522, 0), (_Rights * 2)()
        assert not libc.capget(ctypes.byref(head), rights), os.strerror(ctypes.get_errno())
        rights[0].effective &= ~(1 << 1 | 1 << 2 | 1 << 3)  # rights to bypass permissions of files, folders and owners
        assert not libc.capset(ctypes.byref(head), rights), os.strerror(ctypes.get_errno())
        return act()

    return in_fork(run)


def opening(path: Path, readonly: bool = False) -> str:
    """Open a store. Return "opened", or the error."""
    try:
        with ps.open(shop.WORLD.app(), path, readonly=readonly, listen=False) as engine:
            shows(engine, MORE)
        return "opened"
    except ps.PenstockError as error:
        return str(error)


@pytest.fixture
def filled(store_path: Path) -> Path:
    with shop.opened(store_path) as engine:
        for _ in writer.write(engine, 0, MORE, SIZE):
            pass
    return store_path


@pytest.mark.parametrize("file", ["owner", "data.mdb", "lock.mdb", "."])
def test_without_permission_the_file_and_the_step_are_named(filled: Path, file: str) -> None:
    """With the permission restored, the store has all batches."""
    path = filled / file
    mode = path.stat().st_mode
    path.chmod(0o500 if file == "." else 0o400)
    said = like_anyone(lambda: opening(filled))
    path.chmod(0)
    refused = [said, like_anyone(lambda: opening(filled, readonly=True))] if file != "owner" else [said]
    path.chmod(mode)
    for one in refused if file != "." else refused[1:]:
        assert str(filled) in one
        assert "permission" in one.lower()
        assert re.search(r"; (give this user the right|this user must be able)", one), one
    assert like_anyone(lambda: opening(filled)) == "'opened'"
    assert like_anyone(lambda: opening(filled, readonly=True)) == "'opened'"


def test_no_store_is_made_where_nothing_may_be(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = like_anyone(lambda: opening(tmp_path / "deep" / "store"))
    tmp_path.chmod(0o700)
    assert str(tmp_path) in said
    assert "give this user the right to write there, or choose another path" in said
    assert os.listdir(tmp_path) == []
