"""Builds survive a kill at every commit. At the end the store has the content of a build without a kill."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import penstock as ps
from penstock.cache import MemoryStore, open_lmdb
from penstock.engine import open_on
from penstock.spout import Record
from tests.core.crash.crash_points import AFTER, BEFORE, FILE, killed_at, unsynced
from tests.generations.app_pair import SEED, Moving, second, shown, take
from tests.generations.crash import build_crash_points as points
from tests.generations.crash import crash_build
from tests.harness.histories import Failed
from tests.harness.worlds import TINY
from tests.tidy.tree import ROOT

KEYS = 2_000
KILLED = 8


@dataclass(frozen=True)
class Run:
    """A store before the change of the app, and each later commit: the file on both sides, and the stored batches."""

    base: Path
    files: dict[tuple[int, str], bytes]
    done: dict[bytes, int]
    kinds: set[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("sweep")
    run = Run(folder / "base", {}, {}, set())
    points.begin(run.base)
    shutil.copytree(run.base, folder / "store")
    done = points.BEGUN

    def image(point: int, side: str, kind: str) -> None:
        file = run.files[point, side] = (folder / "store" / FILE).read_bytes()
        run.done[file] = done
        run.kinds.add(kind)

    for number in points.go_on(folder / "store", image):
        done = number
    return run


def test_every_commit_is_survived(whole: Run, tmp_path: Path) -> None:
    parts = points.batches()
    wanted: dict[int, tuple[object, str]] = {}
    fresh, _ = open_on(second(), MemoryStore(), None, SEED)
    names = [view.name for view in second().views()]
    for number in range(len(parts) + 1):
        wanted[number] = shown(fresh, names), fresh.digest()
        if number < len(parts):
            take(fresh, parts[number])
    came_to: set[int] = set()
    phases: set[tuple[bool, bool, bool]] = set()
    store = tmp_path / "again"
    for file, least in whole.done.items():
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        (store / FILE).write_bytes(file)
        with unsynced():
            engine, core = open_on(second(), open_lmdb(store), TINY, SEED)
            built = None if core.build is None else core.build.built
            phases.add((built is None, built is not None and bool(built.rows), bool(core.catalog.trash)))
            while core.build_step(2):
                pass
            found = [n for n in (least, least + 1) if n in wanted and wanted[n][1] == engine.digest()]
            assert found, f"after {least} batches the content is another"
            assert shown(engine, names) == wanted[found[0]][0]
            came_to.update(found)
            engine.close()
    assert came_to >= set(range(points.BEGUN, len(parts) + 1)), "every batch was in flight at some kill"
    assert len(phases) == 4, "before any row, within rows, while databases are emptied, and at the end"
    assert whole.kinds >= {"_documents", "_rows", "switch", "empty_trash", "_agree"}, whole.kinds


def test_an_image_is_what_a_kill_leaves(whole: Run, tmp_path: Path) -> None:
    last = max(point for point, _ in whole.files)
    killed = sorted({1, 2, *range(last, 2, -(last // KILLED))})
    program = [
        sys.executable,
        "-m",
        "tests.generations.crash.build_crash_points",
        str(whole.base),
        str(tmp_path / "store"),
    ]
    subprocess.run([*program, *map(str, killed)], cwd=ROOT, check=True)
    for point in killed:
        for side in (BEFORE, AFTER):
            left = killed_at(tmp_path / "store", point, side) / FILE
            assert left.read_bytes() == whole.files[point, side], f"{side} commit {point}"


def test_a_process_that_dies_in_every_commit_goes_on_with_the_next() -> None:
    """In memory: each commit fails once, and the caches are lost."""
    parts = points.batches()
    moving = Moving(parts[: points.BEGUN])
    died, done = 0, False
    while not done:
        moving.store.fails_in = 0
        with pytest.raises(Failed):
            moving.open()
        moving.store.fails_in = 1  # the commit of the epoch
        with suppress(Failed):
            moving.open()
        moving.store.fails_in = -1
        moving.open()
        moving.store.fails_in = 0
        with pytest.raises(Failed):
            moving.core.build_step(2)
        died += 1
        moving.store.fails_in = -1
        moving.open()
        done = not moving.core.build_step(2)
    assert died > 10
    moving.check()


def test_a_writer_that_is_killed_again_and_again(tmp_path: Path) -> None:
    path, choose = tmp_path / "store", Random(1)
    program = [sys.executable, "-m", "tests.generations.crash.crash_build", str(path), str(KEYS)]
    subprocess.run(program, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    acknowledged, kills, built = KEYS, 0, False
    while not built:
        with subprocess.Popen([*program, "on"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(choose.randrange(1, 4) if kills < 4 else 1 << 30):
                line = child.stdout.readline().strip()
                if line in ("built", ""):
                    built = line == "built"
                    break
                acknowledged = int(line)
            else:
                child.kill()
                kills += 1
        assert built or kills, "it ended by itself"
    assert kills >= 2
    with ps.open(crash_build.app(True), path, listen=False) as engine:
        with engine.snapshot() as snap:
            done = snap.sources[crash_build.SOURCE]
        assert done in (acknowledged, acknowledged + crash_build.BATCH)
        with ps.open(crash_build.app(True), None) as fresh:
            fresh.ingest(crash_build.records(0, done, KEYS), source=crash_build.SOURCE, resume=done)
            assert engine.digest() == fresh.digest()


@pytest.mark.parametrize("batch", [1, 40])
def test_large_segments_are_told_in_parts(batch: int) -> None:
    """A build stores the emissions of a large segment in parts. Writes read them before they are complete."""
    docs = [{"id": i, "g": "Sue", "tags": ["a", "b"][: i % 3], "v": i} for i in range(40)]
    moving = Moving()
    for a in range(0, 40, batch):
        moving.take([Record("plain", doc["id"], doc) for doc in docs[a : a + batch]])
    moving.open()
    key = 0
    while moving.core.build is not None:
        moving.core.build_step(3)
        moving.core.tables["plain"].forget()
        moving.take([Record("plain", key % 40, {**docs[key % 40], "tags": ["c"]})])
        key += 7
    moving.finish()
    moving.check()
