"""Views that are being built survive a kill at every commit, and the store is at last what it would be without one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import penstock as ps
from penstock.cache import MemoryStore, open_lmdb
from penstock.engine import open_on
from penstock.spout import Record
from tests.engine import crash_sweep
from tests.engine.crash_points import FILE, Counted, unsynced
from tests.engine.migrating import SEED, Moving, first, second, shown, take
from tests.engine.worlds import TINY
from tests.tidy.tree import ROOT

KEYS = 6_000
Image = tuple[bytes, int]  # a file, and how many batches were acknowledged


def batches() -> list[list[Record]]:
    """What is put: some before the apps change, some between any two steps."""
    choose = Random(3)
    out: list[list[Record]] = []
    for ts in range(26):
        batch: list[Record] = []
        for _ in range(choose.randrange(1, 5)):
            table, key = choose.choice(["users", "orders", "plain", "few"]), choose.randrange(9)
            doc = {"id": key, "g": choose.choice(["Sue", "Joe", None]), "h": choose.choice([1, 2]), "v": ts}
            own = {"ts": ts} if table in ("users", "few") else {}
            gone = choose.random() < 0.15
            batch.append(Record(table, key, None if gone else doc | own | {"tags": ["a", "b"]}, own.get("ts")))
        out.append(batch)
    return out


def images(path: Path, parts: list[list[Record]]) -> Iterator[Image]:
    """The store at every commit, from the opening under the second app on until its views are built."""
    with unsynced():
        engine, core = open_on(first(), open_lmdb(path), TINY, SEED)
        for part in parts[:12]:
            take(engine, part)
        engine.close()
        found: list[Image] = []
        done = 12

        def image(point: int, side: str, kind: str) -> None:
            found.append(((path / FILE).read_bytes(), done))

        with Counted(image).counting():
            engine, core = open_on(second(), open_lmdb(path), TINY, SEED)
            for part in parts[12:]:
                core.sweep_step(3)
                take(engine, part)
                done += 1
            while core.sweep_step(3):
                pass
            engine.close()
    yield from dict.fromkeys(found)


def test_every_commit_is_survived(tmp_path: Path) -> None:
    parts = batches()
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
    for file, least in images(tmp_path / "first", parts):
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        (store / FILE).write_bytes(file)
        with unsynced():
            engine, core = open_on(second(), open_lmdb(store), TINY, SEED)
            built = None if core.sweep is None else core.sweep.built
            phases.add((built is None, built is not None and bool(built.rows), bool(core.catalog.trash)))
            while core.sweep_step(2):
                pass
            found = [n for n in (least, least + 1) if n in wanted and wanted[n][1] == engine.digest()]
            assert found, f"after {least} batches the content is another"
            assert shown(engine, names) == wanted[found[0]][0]
            came_to.update(found)
            engine.close()
    assert came_to >= set(range(12, len(parts) + 1)), "every batch was in flight at some kill"
    assert len(phases) == 4, "before any row, within rows, while databases are emptied, and at the end"


def test_a_writer_that_is_killed_again_and_again(tmp_path: Path) -> None:
    path, choose = tmp_path / "store", Random(1)
    program = [sys.executable, "-m", "tests.engine.crash_sweep", str(path), str(KEYS)]
    subprocess.run(program, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    acknowledged, kills, built = KEYS, 0, False
    while not built:
        with subprocess.Popen([*program, "on"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(choose.randrange(2, 9) if kills < 4 else 1 << 30):
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
    with ps.open(crash_sweep.app(True), path, listen=False) as engine:
        with engine.snapshot() as snap:
            done = snap.sources[crash_sweep.SOURCE]
        assert done in (acknowledged, acknowledged + crash_sweep.BATCH)
        with ps.open(crash_sweep.app(True), None) as fresh:
            fresh.ingest(crash_sweep.records(0, done, KEYS), source=crash_sweep.SOURCE, resume=done)
            assert engine.digest() == fresh.digest()


@pytest.mark.parametrize("batch", [1, 40])
def test_large_segments_are_told_in_parts(batch: int) -> None:
    """What functions yielded for a segment is remembered part by part, and read while it is only begun."""
    docs = [{"id": i, "g": "Sue", "tags": ["a", "b"][: i % 3], "v": i} for i in range(40)]
    moving = Moving()
    for a in range(0, 40, batch):
        moving.take([Record("plain", doc["id"], doc) for doc in docs[a : a + batch]])
    moving.open()
    key = 0
    while moving.core.sweep is not None:
        moving.core.sweep_step(3)
        moving.core.tables["plain"].forget()
        moving.take([Record("plain", key % 40, {**docs[key % 40], "tags": ["c"]})])
        key += 7
    moving.finish()
    moving.check()
