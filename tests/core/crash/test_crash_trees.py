"""Kills of a writer of trees at every commit: the next opening restores the nodes of the node log, byte for byte.

The test opens a store from each image. Rows and nodes equal those of an engine that was never killed. No node has a
fault, and the views equal the oracle's. Some batches later all this holds again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.mapreduce import TreeReduce, node_log_db, nodes_db
from tests.core.crash import crash_points as points
from tests.core.crash import tree_crash_points as writer
from tests.core.crash.after_crash import ROOT
from tests.harness.checks import Picture
from tests.mapreduce.trees.tree_histories import faults_of, nodes_of

BATCHES, SIZE = 26, 8
GO_ON = 2
KILLED = 3


def counted(path: Path, *at: int) -> str:
    """Run the writer and return its output."""
    program = [sys.executable, "-m", "tests.core.crash.tree_crash_points", str(path), str(BATCHES), str(SIZE)]
    return subprocess.run([*program, *map(str, at)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


@dataclass(frozen=True)
class Run:
    """A run:

    the folder of its images, the acknowledged batches by image, the last point, and the image of each point.
    """

    folder: Path
    images: dict[str, int]
    last: int
    at: dict[tuple[int, str], str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("points")
    said = [json.loads(line) for line in counted(folder / "store").splitlines()]
    images: dict[str, int] = {}
    for point in said:
        images[point["image"]] = max(point["done"], images.get(point["image"], 0))
    return Run(folder, images, said[-1]["point"], {(p["point"], p["side"]): p["image"] for p in said})


class Course:
    """The content of an undisturbed engine after each number of batches."""

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self.nodes: list[dict[str, Any]] = []
        self.digests: list[str] = []
        model = writer.WORLD.model()
        with ps.open(writer.WORLD.app(), None) as engine:
            for number in range(BATCHES + 1):
                self.pictures.append(Picture(model))
                self.nodes.append(nodes_of(engine))
                self.digests.append(engine.digest())
                if number < BATCHES:
                    model.ingest(list(writer.records(number, SIZE)), writer.SOURCE, number + 1)
                    engine.ingest(writer.batch(number, SIZE), source=writer.SOURCE, resume=number + 1)

    def check(self, engine: Any, done: int) -> None:
        """Check that an engine equals the undisturbed one after this number of batches."""
        with engine.snapshot() as snap:
            found = self.pictures[done].differences(snap)
        assert not found, "\n".join(found)
        assert not faults_of(engine)
        assert nodes_of(engine) == self.nodes[done]
        assert engine.digest() == self.digests[done]


def test_nodes_that_were_behind_survive_every_commit(whole: Run, store_path: Path) -> None:
    with writer.WRITING.under(), points.unsynced():
        course, came_to, logs = Course(), set(), set()
        for image, acknowledged in whole.images.items():
            shutil.rmtree(store_path, ignore_errors=True)
            if image:
                os.makedirs(store_path)
                shutil.copyfile(whole.folder / image, store_path / points.FILE)
            with ps.open(writer.WORLD.app(), store_path) as engine:
                with engine.snapshot() as snap:
                    done = snap.sources.get(writer.SOURCE, 0)
                    logs.add(rows_behind(engine, snap))
                assert acknowledged <= done <= acknowledged + 1
                came_to.add(done)
                course.check(engine, done)
                end = min(done + GO_ON, BATCHES)
                for _ in writer.write(engine, done, end, SIZE):
                    pass
                course.check(engine, end)
    assert came_to == set(range(BATCHES + 1)), "every batch was in flight at some kill"
    written = {nodes > 0 for _, nodes in logs}
    lengths = {log for log, _ in logs}
    assert written == {True, False}, "nodes were written in some images, and in some not yet"
    assert 0 in lengths, "there was nothing behind just after nodes were written"
    assert max(lengths) > 2, "several batches were behind"


def rows_behind(engine: Any, snap: Any) -> tuple[int, int]:
    """Return the number of rows in the node log of one view, and the number of written nodes."""
    tree = engine.store.core.views["greatest"].reduce
    assert isinstance(tree, TreeReduce)
    return snap.reader().count(node_log_db(tree.number)), snap.reader().count(nodes_db(tree.number))


def test_an_image_is_what_a_kill_leaves(whole: Run, store_path: Path) -> None:
    killed = sorted({3, *range(whole.last, 3, -(whole.last // KILLED))})
    counted(store_path, *killed)
    for point in killed:
        for side in (points.BEFORE, points.AFTER):
            left = points.killed_at(store_path, point, side) / points.FILE
            assert left.read_bytes() == (whole.folder / whole.at[point, side]).read_bytes(), f"{side} commit {point}"
