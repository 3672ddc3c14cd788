"""Restore a store if it or the copy has several partitions: completely or not at all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import penstock as ps
from penstock.cache import CopyFailed, PenstockError, StoreMissing
from penstock.engine import copy_any, repartition, restore_any
from tests.core.crash.crash_points import unsynced
from tests.harness.planting import Bug
from tests.mapreduce.trees.tree_worlds import TREES
from tests.partitions.copies.crash_repartition import counted
from tests.partitions.copies.test_crash_repartition import files, filled, stands, wanted

EVERY = 1_000  # no commit of a store is a point: a restore has none
MORE = [{"id": 1_000 + i, "g": "C", "h": 1, "v": i, "w": i, "ts": 2, "gs": ["C"]} for i in range(9)]


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with unsynced():
        yield


def parted(path: Path, partitions: int, more: bool = False) -> str:
    """Make a store with this number of partitions; return its digest."""
    digest = filled(path)
    if more:
        with ps.open(TREES.app(), path, listen=False) as engine:
            engine.put_many("users", MORE)
            digest = engine.digest()
    repartition(path, partitions)
    return digest


def pair(folder: Path, copied: int, partitions: int) -> tuple[Path, str, Path, str]:
    """Make a copy, and a store with other content, each with its digest."""
    digest = parted(folder / "of", copied)
    copy_any(str(folder / "of"), str(folder / "copy"))
    return folder / "copy", digest, folder / "store", parted(folder / "store", partitions, more=True)


@pytest.mark.parametrize(("copied", "partitions"), [(2, 3), (3, 2), (2, 2), (1, 3), (3, 1)])
def test_a_copy_takes_the_place_of_a_store(copied: int, partitions: int, tmp_path: Path) -> None:
    copy, digest, store, before = pair(tmp_path, copied, partitions)
    with pytest.raises(CopyFailed, match=r"there is a store with content; .*--force"):
        restore_any(str(copy), str(store))
    assert stands(store) == (partitions, before)
    done = restore_any(str(copy), str(store), force=True)
    assert stands(store) == (copied, digest)
    assert files(store) == wanted(store, copied)
    with ps.open(TREES.app(), store, processes=False) as engine:
        assert done.position == engine.snapshot().position
        engine.put_many("users", MORE)
        engine.settle()
        assert engine.digest() == before
    assert stands(copy) == (copied, digest), "the copy stays"


def test_it_goes_where_no_store_is_and_where_one_is_empty(tmp_path: Path) -> None:
    copy, digest, _, _ = pair(tmp_path, 2, 2)
    ps.open(TREES.app(), tmp_path / "empty", partitions=3, processes=False).close()
    for name in ("empty", "nothing"):
        restore_any(str(copy), str(tmp_path / name))
        assert stands(tmp_path / name) == (2, digest)


def test_a_store_that_is_read_and_a_copy_that_is_damaged(tmp_path: Path) -> None:
    copy, _, store, before = pair(tmp_path, 2, 3)
    reader = "import sys, penstock as ps; from tests.mapreduce.trees.tree_worlds import TREES\n"
    reader += "engine = ps.open(TREES.app(), sys.argv[1], readonly=True); print('open', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", reader, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    with pytest.raises(PenstockError, match=f"process {process.pid} has the store at .* open to read it"):
        restore_any(str(copy), str(store), force=True)
    process.communicate("")
    [file] = list(copy.glob("*-1/data.mdb"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2 :] = b"?" * (len(data) - len(data) // 2)
    file.write_bytes(data)
    with pytest.raises(PenstockError):
        restore_any(str(copy), str(store), force=True)
    with pytest.raises(CopyFailed, match="it is the copy itself"):
        restore_any(str(store), str(store), force=True)
    with pytest.raises(StoreMissing):
        restore_any(str(tmp_path / "none"), str(store), force=True)
    assert stands(store) == (3, before)


def test_the_partition_of_another_store_in_a_copy(tmp_path: Path) -> None:
    copy, _, store, before = pair(tmp_path, 2, 2)
    [own], [other] = list(copy.glob("*-1/data.mdb")), list(store.glob("*-1/data.mdb"))
    shutil.copyfile(other, own)
    with pytest.raises(PenstockError, match="of another store"):
        restore_any(str(copy), str(store), force=True)
    assert stands(store) == (2, before)


def at_each_point(folder: Path, copied: int, partitions: int) -> None:
    """Kill before each change of a file or folder: the former or the new store remains, and a second run ends it."""
    copy, digest, store, before = pair(folder, copied, partitions)
    command = [sys.executable, "-m", "tests.partitions.copies.crash_repartition", str(store), str(copy), str(EVERY)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(said) > 10
    seen: list[str] = []
    for point in range(len(said)):
        own = Path(f"{store}-{point}")
        found = stands(own)
        assert found in ((partitions, before), (copied, digest)), f"killed before {said[point]}"
        seen.append(found[1])
        if point % 5 == 0:
            restore_any(str(copy), str(own), force=True)
            assert stands(own) == (copied, digest)
            assert files(own) == wanted(own, copied), f"killed before {said[point]}"
    assert seen == sorted(seen, key=lambda own: own == digest)
    assert {before, digest} == set(seen)


@pytest.mark.parametrize(("copied", "partitions"), [(1, 2), (2, 1)])
def test_a_kill_leaves_the_former_store_or_the_new_one(copied: int, partitions: int, tmp_path: Path) -> None:
    at_each_point(tmp_path, copied, partitions)


def images(folder: Path) -> None:
    """Check that a kill at each point leaves the former store or the new one."""
    copy, digest, store, before = pair(folder, 2, 3)
    kept: list[Path] = []
    inside = False

    def at(point: int, kind: str) -> None:
        nonlocal inside
        if not inside:
            inside = True
            kept.append(folder / f"{point}-{kind}")
            shutil.copytree(store, kept[-1], ignore=lambda _, names: [n for n in names if n in ("owner", "lock.mdb")])
            inside = False

    with counted(EVERY, at):
        restore_any(str(copy), str(store), force=True)
    for image in kept:
        assert stands(image) in ((3, before), (2, digest)), image.name


def test_each_moment_shows_the_former_store_or_the_new_one(tmp_path: Path) -> None:
    images(tmp_path)


def not_asked_for(folder: Path) -> None:
    """Check that a store with content is replaced only on request."""
    copy, _, store, before = pair(folder, 2, 2)
    with suppress(CopyFailed):
        restore_any(str(copy), str(store))
    assert stands(store) == (2, before)


BUGS = [
    (
        images,
        Bug(
            "the former store goes first",
            "partitions.copies.store_replacement:StoreReplacement.take",
            "if alone:",
            "clear_leftovers(self._path, after)\n        if alone:",
        ),
    ),
    (
        images,
        Bug(
            "the file is written before the partitions are there",
            "partitions.copies.store_restore:_restored",
            "size, positions = 0, list[int]()",
            "from penstock.core import write_layout\n"
            "    size, positions = 0, list[int]()\n"
            "    write_layout(path, after)",
        ),
    ),
    (
        not_asked_for,
        Bug(
            "a store with content is replaced",
            "partitions.copies.store_restore:restore_any",
            "not force and any",
            "False and any",
        ),
    ),
]


@pytest.mark.parametrize(("story", "bug"), BUGS, ids=lambda own: own.name if isinstance(own, Bug) else "")
def test_a_planted_bug_is_found(
    story: Callable[[Path], None], bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, PenstockError)):
        story(tmp_path / "wrong")
