"""Kills of the writer just before and after every commit: of batches, and of the steps of work between batches.

A run leaves an image of its store at each of these points (`crash_points`). The test opens a store from each image. All
acknowledged batches are stored, and at most the one batch in flight more. The content and the digest equal those of an
engine that put the same batches, but was never killed, folded or compacted. They are equal again some batches later. At
a sample of the points the test really kills processes, and compares their files with the images.
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
from tests.core.crash import crash_points as points
from tests.core.crash import crash_writer as writer
from tests.core.crash.after_crash import ROOT
from tests.harness.checks import Picture
from tests.harness.worlds import SHOP, TINY

BATCHES, SIZE = 60, 12
GO_ON = 4
KILLED = 6


def counted(path: Path, *at: int) -> str:
    """Run `crash_points` and return its output."""
    program = [sys.executable, "-m", "tests.core.crash.crash_points", str(path), str(BATCHES), str(SIZE), *map(str, at)]
    return subprocess.run(program, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


@dataclass(frozen=True)
class Point:
    """One side of one commit, with the number of acknowledged batches and the image of the store."""

    point: int
    side: str
    kind: str
    done: int
    image: str


@dataclass(frozen=True)
class Run:
    """A whole run: the folder of its images, and its points in order."""

    folder: Path
    points: list[Point]

    def images(self) -> dict[str, list[Point]]:
        """Return the points by image. The image after a commit is the one before the next commit."""
        found: dict[str, list[Point]] = {}
        for point in self.points:
            found.setdefault(point.image, []).append(point)
        return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("points")
    said = counted(folder / "store")
    return Run(folder, [Point(**json.loads(line)) for line in said.splitlines()])


class Course:
    """The digest of an undisturbed engine, and the oracle's picture, after each number of batches."""

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self.digests: list[str] = []
        model = SHOP.model()
        with ps.open(SHOP.app(), None) as engine:
            for number in range(BATCHES + 1):
                self.pictures.append(Picture(model))
                self.digests.append(engine.digest())
                if number < BATCHES:
                    model.ingest(list(writer.records(number, SIZE)), writer.SOURCE, number + 1)
                    engine.ingest(writer.batch(number, SIZE), source=writer.SOURCE, resume=number + 1)

    def check(self, engine: Any, done: int) -> None:
        """Check that an engine equals the undisturbed one after this number of batches."""
        with engine.snapshot() as snap:
            found = self.pictures[done].differences(snap)
        assert not found, "\n".join(found)
        assert engine.digest() == self.digests[done], f"after {done} batches the content is another"

    def check_store(self, path: Path, least: int) -> int:
        """Check a store whose writer had acknowledged `least` batches. Return the number of stored batches."""
        with ps.open(SHOP.app(), path, limits=TINY) as engine:
            with engine.snapshot() as snap:
                done = snap.sources.get(writer.SOURCE, 0)
            assert least <= done <= least + 1, f"{least} batches were acknowledged, {done} are in"
            self.check(engine, done)
            end = min(done + GO_ON, BATCHES)
            for _ in writer.write(engine, done, end, SIZE):
                pass
            self.check(engine, end)
        return done


def test_every_commit_is_survived(whole: Run, store_path: Path) -> None:
    course, came_to = Course(), set()
    with points.unsynced():
        for image, passed in whole.images().items():
            shutil.rmtree(store_path, ignore_errors=True)
            if image:
                os.makedirs(store_path)
                shutil.copyfile(whole.folder / image, store_path / points.FILE)
            try:
                came_to.add(course.check_store(store_path, max(point.done for point in passed)))
            except BaseException as error:
                error.add_note(f"killed at {' or '.join(f'{p.side} commit {p.point}, {p.kind}' for p in passed)}")
                raise
    assert came_to == set(range(BATCHES + 1)), "every batch was in flight at some kill"


def test_every_kind_of_commit_was_counted(whole: Run) -> None:
    sides = [(point.point, point.side) for point in whole.points]
    every = range(1, whole.points[-1].point + 1)
    assert sides == [(number, side) for number in every for side in (points.BEFORE, points.AFTER)]
    assert len(every) > 2 * BATCHES
    kinds = {point.kind for point in whole.points}
    assert {"fold_step", "compact_step"} < kinds
    assert len(kinds) == 5, f"catalog, epoch, batch, folding, compacting: {kinds}"
    for before, after in zip(whole.points[::2], whole.points[1::2], strict=True):
        assert before.image != after.image, f"commit {before.point} changed nothing"


def test_an_image_is_what_a_kill_leaves(whole: Run, store_path: Path) -> None:
    last = whole.points[-1].point
    killed = sorted({1, 2, 3, *range(last, 3, -(last // KILLED))})
    counted(store_path, *killed)
    for point in whole.points:
        if point.point in killed:
            left = points.killed_at(store_path, point.point, point.side) / points.FILE
            wanted = (whole.folder / point.image).read_bytes() if point.image else b""
            assert (left.read_bytes() if left.exists() else b"") == wanted, f"{point.side} commit {point.point}"


def test_a_batch_that_was_lost_is_seen(whole: Run, store_path: Path) -> None:
    """Check that the checks find a store without an acknowledged batch, and a store with wrong content."""
    acknowledged = next(point for point in whole.points if point.done == 7)
    older = next(point for point in whole.points if point.done == 5)
    os.makedirs(store_path)
    shutil.copyfile(whole.folder / older.image, store_path / points.FILE)
    course = Course()
    with points.unsynced():
        with pytest.raises(AssertionError, match="7 batches were acknowledged"):
            course.check_store(store_path, acknowledged.done)
        course.digests[5] = course.digests[6]
        with pytest.raises(AssertionError, match="the content is another"):
            course.check_store(store_path, older.done)
