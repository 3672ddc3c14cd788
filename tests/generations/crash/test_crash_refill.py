"""A refill over partitions: cut off after each commit, or a process is killed at counted steps.

An image of all partitions after a commit is a store whose processes were killed there. Readers of an image see the
former tables or the new ones, with the sources that belong to them. The next opening shows either the former or the new
tables in all partitions.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import META, PenstockError
from penstock.core.schema import described
from penstock.engine import Engine, PartitionedStore, repartition
from penstock.generations.refill_steps import refill_step
from penstock.mapreduce import small_trees
from penstock.partitions.copies.partitioned_copies import copy_any
from penstock.partitions.partition_process import PartitionProcess
from tests.core.crash.crash_points import AFTER, Counted, unsynced
from tests.generations.app_pair import followed, shown
from tests.generations.refills import in_small_steps
from tests.generations.test_refill import SOURCE, docs, elsewhere, shop
from tests.partitions.stores import placed

PARTS = 3
VIEWS = [view.name for view in shop().views()]
SINCE = [{"id": i, "name": f"s{i % 3}", "amount": 1, "ts": 500} for i in range(6, 26)]
READ = [*docs(0, 9), b'{"id": 4, ']
BEFORE, NOW = {SOURCE: 10}, {SOURCE: 50}


@dataclass(frozen=True)
class Image:
    """A store after a commit of this kind, and the number of partitions that have switched."""

    path: Path
    kind: str
    switched: int


@dataclass(frozen=True)
class Cut:
    """The images of one refill, the store that it took over, and content and position from before and after it."""

    images: list[Image]
    fresh: Path
    since: Any
    rows: list[Any]
    digests: list[str]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    in_small_steps(monkeypatch, 16)
    with unsynced(), small_trees():
        yield


def live_at(path: Path, partitions: int = PARTS, processes: bool = False) -> Any:
    """Return a live store with documents from before a refill."""
    live: Any = ps.open(shop(), path, partitions=partitions, processes=processes)
    live.put_many("users", docs(0, 20, "old"))
    live.put_many("orders", [{"id": 1, "amount": 7}])
    live.ingest([], source=SOURCE, resume=10)
    return live


def begun(live: Any, folder: Path) -> str:
    """Begin a refill and put more documents. Return the folder of the other store."""
    seed = live.begin_refill(["users"], described(shop()))
    live.put_many("users", SINCE)
    live.settle()
    return elsewhere(shop(), folder, seed, READ, 50)


def everything(engine: Any) -> Any:
    """Return all documents and rows that readers see, the sources, and the number of rejected records."""
    with engine.snapshot() as snap:
        users = sorted((row.key, row.value["name"]) for row in snap.table("users"))
        sources, rejected = snap.sources, engine.status()["tables"]["users"]["rejected"]
    return users, shown(engine, VIEWS), sources, rejected


def cut(folder: Path) -> Cut:
    """Refill a store, and copy an image after each commit that changes it."""
    path, images, switched = folder / "live", list[Image](), 0
    with placed(), live_at(path) as live:
        fresh = begun(live, folder / "fresh")
        repartition(fresh, PARTS)
        since, before = live.status()["position"], (everything(live), live.digest())

        def at(point: int, side: str, kind: str) -> None:
            nonlocal switched
            if side != AFTER:
                return
            switched += kind == "switch"
            target = folder / f"{point}-{kind.strip('_')}"
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("owner", "lock.mdb", "socket"))
            images.append(Image(target, kind, switched))

        with pytest.MonkeyPatch.context() as m, Counted(at).counting():
            m.setattr(Engine, "_build_on", lambda self: None)
            live.refill(fresh)
        after = everything(live), live.digest()
    return Cut(images, Path(fresh), since, [before[0], after[0]], [before[1], after[1]])


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Cut:
    with pytest.MonkeyPatch.context() as m, unsynced(), small_trees():
        in_small_steps(m, 16)
        return cut(tmp_path_factory.mktemp("cut"))


def must_read(of: Cut, image: Image) -> None:
    """Check that readers see all of the refill or nothing, and that the feed shows the switch with the new rows."""
    with ps.open(shop(), image.path, readonly=True) as engine:
        new = image.switched == PARTS
        assert everything(engine) == of.rows[new]
        rows = followed(list(engine.changes(since=of.since)), rows_of(of.rows[0]))
        assert rows == rows_of(of.rows[new])


def rows_of(seen: Any) -> dict[tuple[str, Any], Any]:
    return {(view, row[0]): row[1] for view, own in seen[1].items() for row in own}


def must_end(of: Cut, image: Image, path: Path, fresh: Path) -> None:
    """Check that the next opening has the new content if a partition switched. Otherwise run the refill again."""
    shutil.copytree(image.path, path)
    with ps.open(shop(), path, processes=False) as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        new = image.switched > 0
        assert partitioned.digest() == of.digests[new]
        assert everything(partitioned) == of.rows[new]
        assert partitioned.check().ok
        if not new:
            partitioned.refill(fresh)
            assert partitioned.digest() == of.digests[1]
        rows = followed(list(partitioned.changes(since=of.since)), rows_of(of.rows[0]))
        assert rows == rows_of(of.rows[1])
        partitioned.migrate()
        for core in partitioned.store.reading.cores:
            assert core.catalog.refill is None
            assert not core.catalog.trash
            assert strays(core) == []
        partitioned.put("users", {"id": 7, "name": "again", "ts": 900})
        partitioned.settle()
        with partitioned.snapshot() as snap:
            assert snap.view("names")["again"] == 1


def strays(core: Any) -> list[str]:
    """Return the databases with rows, and the marks of logs, without an entry in the catalog.

    Ignore rows of the feed.
    """
    numbers = {entry.number for entry in core.catalog.entries.values()}
    with core.store.read() as reader:
        found = [key.decode() for key, _ in reader.scan(META) if key.startswith(b"log:")]
        found += [db for db in reader.names() if not db.startswith("view:") and reader.count(db)]
        return [db for db in found if ":" in db and int(db.partition(":")[2]) not in numbers]


@pytest.mark.usefixtures("quick")
def test_each_image_shows_one_content_and_the_next_opening_keeps_it(once: Cut, tmp_path: Path) -> None:
    kinds = [image.kind for image in once.images]
    assert [kind for kind in kinds if kind in ("switch", "_finish")] == ["switch"] * PARTS + ["_finish"] * PARTS
    last = kinds.index("switch")
    for i, image in enumerate(once.images):
        must_read(once, image)
        if i >= last - 2 or i % 9 == 0:
            must_end(once, image, tmp_path / f"{i}", once.fresh)


@pytest.mark.usefixtures("quick")
def test_a_copy_of_an_image_is_finished_too(once: Cut, tmp_path: Path) -> None:
    image = next(image for image in once.images if image.switched == 1)
    copy_any(str(image.path), str(tmp_path / "copy"))
    with ps.open(shop(), tmp_path / "copy", processes=False) as partitioned:
        assert partitioned.digest() == once.digests[1]


STEPS = ("carry", "ready", "switch")


def test_a_partition_that_is_killed_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refill fails, and readers see nothing of it. Once all partitions are ready, it succeeds."""
    plain, kill = PartitionProcess.repair, ""

    def repair(self: PartitionProcess, do: str, *what: Any) -> Any:
        nonlocal kill
        if do == "refill" and self.partition == 1 and what[0] == kill:
            kill = ""
            assert self.pid is not None
            os.kill(self.pid, signal.SIGKILL)
        return plain(self, do, *what)

    monkeypatch.setattr(PartitionProcess, "repair", repair)
    with live_at(tmp_path / "live", 2, processes=True) as live:
        for step in STEPS:
            fresh, before = begun(live, tmp_path / step), (live.digest(), everything(live))
            kill = step
            if step == "switch":
                live.refill(fresh)
                with live.snapshot() as snap:
                    assert {row.key for row in snap.table("users")} == set(range(26))
                    assert snap.sources == NOW
            else:
                with pytest.raises(PenstockError, match=r"run the backfill again|no refill under way"):
                    live.refill(fresh)
                assert (live.digest(), everything(live)) == before
            assert not kill, f"the step {step} never came"
        assert live.check().ok


@pytest.mark.usefixtures("quick")
def test_a_switch_that_fails_at_one_partition_is_finished_before_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with live_at(tmp_path / "live") as live:
        fresh, left = begun(live, tmp_path / "fresh"), 2

        def step(core: Any, do: str, *what: Any) -> Any:
            nonlocal left
            left -= do == "switch"
            if not left:
                left = 100
                raise ps.StoreFull("s", "there is no room left")
            return refill_step(core, do, *what)

        monkeypatch.setattr("penstock.recovery.repair.repair_steps.refill_step", step)
        monkeypatch.setattr(Engine, "_build_on", lambda self: None)  # it would finish the refill
        before = everything(live)
        with pytest.raises(ps.StoreFull):
            live.refill(fresh)
        assert everything(live) == before
        live.put("orders", {"id": 2, "amount": 1})
        live.settle()
        with live.snapshot() as snap:
            assert (snap.view("names")["n0"], snap.view("total")[()]) == (2, 8)
            assert snap.sources == NOW
        assert live.ingest([], source=SOURCE, resume=20).late == 0
        assert live.remembered(SOURCE).offset == 50
        assert live.check().ok
