"""A backfill that is killed leaves no store. The next run starts again, and leaves only the store.

A driver is killed with signal 9 at each stage. At each report of progress the folder is also copied, as a kill at that
moment would leave it. Tasks run in the test or the driver. `test_commands.py` kills one with a real Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

import penstock as ps
from penstock.spark import backfill
from tests.partitions.copies.copied import mark_again
from tests.spark.inprocess import InProcess

ROOT = Path(__file__).parents[3]
STAGES = ("looking", "documents", "loading documents", "views", "loading views")


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("names", key="name", reduce=ps.count())
    users.view("largest", key="name", value="ts", reduce=ps.max())
    names.view("sizes", key="value", reduce=ps.count())
    return app


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the input file of the store."""
    docs = [{"id": i % 40, "name": f"n{i % 7}", "ts": i} for i in range(90)]
    path = tmp_path / "users.jsonl"
    path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return path


def put_back(image: Path, place: Path) -> None:
    """Replace a folder with an image of it."""
    shutil.rmtree(place)
    shutil.copytree(image, place)
    mark_again(place)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside the store", "elsewhere"])
def test_at_each_stage_nothing_is_there_and_the_next_run_is_clean(tmp_path: Path, file: Path, elsewhere: bool) -> None:
    place, staging = tmp_path / "place", tmp_path / "staging"
    images: dict[str, Path] = {}
    place.mkdir()

    def tell(what: str, done: int, total: int) -> None:
        stage = f"{what}, {len(images)}"
        images[stage] = tmp_path / f"killed-{len(images)}"
        shutil.copytree(place, images[stage] / "place")
        if elsewhere:
            shutil.copytree(staging, images[stage] / "staging")

    more = {"staging": staging} if elsewhere else {}
    backfill(shop(), place / "store", spark=InProcess(), progress=tell, users=file, **more)
    assert {stage.partition(",")[0] for stage in images} == set(STAGES)
    with ps.open(shop(), place / "store", readonly=True) as engine:
        whole = engine.digest()
    for stage, image in images.items():
        assert os.listdir(image / "place") == ["store.partial"], stage
        put_back(image / "place", place)
        if elsewhere:
            put_back(image / "staging", staging)
        done = backfill(shop(), place / "store", spark=InProcess(), users=file, **more)
        assert done.documents == {"users": 40}
        assert os.listdir(place) == ["store"], stage
        assert not elsewhere or os.listdir(staging) == [], stage
        with ps.open(shop(), place / "store") as engine:
            assert engine.digest() == whole, stage
            assert engine.check().ok


@pytest.mark.parametrize("stage", STAGES)
def test_a_driver_that_is_killed_leaves_nothing_that_the_next_one_minds(tmp_path: Path, file: Path, stage: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    child = [sys.executable, "-m", "tests.spark.backfill_job.killed_driver", str(place / "store"), str(file), stage]
    assert subprocess.run(child, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert os.listdir(place) == ["store.partial"]
    backfill(shop(), place / "store", spark=InProcess(), users=file)
    assert os.listdir(place) == ["store"]
    with ps.open(shop(), place / "store") as engine, ps.open(shop(), None) as other:
        other.put_many("users", file.read_bytes())
        assert engine.digest() == other.digest()


def test_what_others_have_in_the_same_staging_stays(tmp_path: Path, file: Path) -> None:
    store, staging = tmp_path / "store", tmp_path / "staging"
    own = staging / f"runs-{crc32(os.fsencode(store)):08x}-dead"
    others = [staging / "runs-00000000-alive", staging / "notes"]
    for folder in (own, *others):
        folder.mkdir(parents=True)
    backfill(shop(), store, spark=InProcess(), staging=staging, users=file)
    assert sorted(staging.iterdir()) == sorted(others)
