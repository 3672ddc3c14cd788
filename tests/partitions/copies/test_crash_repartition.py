"""A repartitioning killed at counted points leaves the old store or the new one, and the next run completes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.core.metadata.store_layout import read_layout
from penstock.engine import repartition
from tests.harness.planting import Bug
from tests.mapreduce.trees.tree_worlds import TREES

EVERY = 9
DOCS = [{"id": i, "g": "AB"[i % 2], "h": i % 3, "v": i % 5, "w": i, "ts": 1, "gs": ["A"]} for i in range(60)]


def filled(path: Path) -> str:
    """Make a store with rows of every kind; return its digest."""
    with ps.open(TREES.app(), path, listen=False) as engine:
        for table in ("users", "plain", "patched"):
            engine.put_many(table, DOCS)
        return engine.digest()


def stands(path: Path) -> tuple[int, str]:
    """Return the number of partitions and the digest."""
    with ps.open(TREES.app(), path, readonly=True) as engine, engine.snapshot() as snap:
        return len(snap.parts), engine.digest()


def files(path: Path) -> set[str]:
    """Return the files in the store's folder, without those that a lock or a reader leaves."""
    return set(os.listdir(path)) - {"owner", "lock.mdb"}


def wanted(path: Path, partitions: int) -> set[str]:
    """Return the expected files."""
    layout = read_layout(str(path))
    if layout is None:
        assert partitions == 1
        return {"data.mdb"}
    assert len(layout.parts) == partitions
    return {"partitions", *(part.folder for part in layout.parts)}


@pytest.mark.parametrize(("before", "to"), [(1, 3), (3, 2), (3, 1)])
def test_a_kill_leaves_the_store_as_it_was_or_as_it_is_to_be(before: int, to: int, tmp_path: Path) -> None:
    path = tmp_path / "store"
    digest = filled(path)
    if before > 1:
        repartition(path, before)
    command = [sys.executable, "-m", "tests.partitions.copies.crash_repartition", str(path), str(to), str(EVERY)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    kinds = [line.split()[1] for line in said]
    assert {"commit", "mkdir", "unlink", "rename" if to == 1 else "replace"} <= set(kinds)
    seen: list[int] = []
    for point in range(len(kinds)):
        copy = Path(f"{path}-{point}")
        partitions, found = stands(copy)
        assert found == digest, f"killed before {said[point]}"
        seen.append(partitions)
        done = repartition(copy, to)
        assert done.after == to
        assert stands(copy) == (to, digest)
        assert files(copy) == wanted(copy, to), f"killed before {said[point]}"
    assert seen == sorted(seen, key=lambda partitions: partitions == to), "it is the old one until it is the other one"
    assert {before, to} == set(seen)


def synced_first(path: Path) -> None:
    """Assert that each new store is synced after its last write, before the file `partitions` changes."""
    filled(path)
    for to, switch in ((3, "replace"), (1, "unlink")):
        told: list[tuple[str, str]] = []
        real = LmdbWriter._commit

        def commit(own: LmdbWriter, told: list[tuple[str, str]] = told, real: Any = real) -> None:
            told.append(("commit", f"{own._opening.env.path}/data.mdb"))
            real(own)

        calls = _heard(told, ("fsync", "replace", "rename", "unlink"))
        with mock.patch.multiple(os, **calls), mock.patch.object(LmdbWriter, "_commit", commit):
            repartition(path, to)
        names = [(kind, os.path.basename(name).removesuffix(".new")) for kind, name in told]
        before = told[: names.index((switch, "partitions"))]
        for part in range(to):
            file = f"{path}/{1 if to == 3 else 2}-{part}/data.mdb"
            written = max(i for i, own in enumerate(before) if own == ("commit", file))
            assert ("fsync", file) in before[written:]
            assert ("fsync", os.path.dirname(file)) in before[written:]
        assert ("fsync", str(path)) in before
        gone = [name for kind, name in before if kind == "unlink" and name.endswith("data.mdb")]
        assert not gone, "nothing goes before the switch"


def test_all_is_on_the_disk_before_the_switch(tmp_path: Path) -> None:
    synced_first(tmp_path / "store")


@pytest.mark.parametrize(
    "bug",
    [
        Bug(
            "stores are not synced",
            "partitions.copies.repartition_target:RepartitionTarget.finish",
            "synced(self.folder)",
            "pass",
        ),
        Bug(
            "the folder is not synced",
            "partitions.copies.repartition_job:_Repartition._fill",
            "sync_folder(self._path)",
            "pass",
        ),
    ],
    ids=lambda bug: bug.name,
)
def test_a_planted_bug_is_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        synced_first(tmp_path / "store")


def _heard(told: list[tuple[str, str]], names: tuple[str, ...]) -> dict[str, Any]:
    """Record calls, each with its file or folder."""

    def heard(kind: str, real: Any) -> Any:
        def called(what: Any, *args: Any, **options: Any) -> Any:
            told.append((kind, os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else os.fspath(what)))
            return real(what, *args, **options)

        return called

    return {name: heard(name, getattr(os, name)) for name in names}
