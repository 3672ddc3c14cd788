"""A switch of views over partitions, cut off after each of its commits. Tests must find the bugs planted in it.

An image of all partitions after a commit is a store whose processes were killed there. Readers of an image see one
generation of every view, and the feed shows the switch only with the other generation.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.core import generation_switch
from penstock.core.commit import Core
from penstock.core.reading.store_snapshot import Snapshot
from penstock.engine import Catalog, PartitionedStore, partitioned_opening
from penstock.generations import build_progress
from penstock.mapreduce import small_trees
from penstock.partitions.copies.partitioned_copies import copy_any
from penstock.partitions.union import union_feed, union_snapshot
from penstock.partitions.union.view_building import PartitionedBuilding
from tests.core.crash.crash_points import AFTER, Counted, unsynced
from tests.generations.app_pair import first, followed, second, shown
from tests.partitions.stores import placed
from tests.partitions.union.test_union_generations import documents, put, whole_of

PARTS = 3
OLD = [view.name for view in first().views()]
NEW = [view.name for view in second().views()]
COMMITS = ("_agree", "switch", "_finish")
DOCS = documents(Random(11), 90, 1)
MORE = documents(Random(12), 20, 2)


@dataclass(frozen=True)
class Image:
    """A store as a commit of this kind left it."""

    path: Path
    kind: str
    switched: int


@dataclass(frozen=True)
class Switched:
    """The images of one switch, with the position, rows and digest from before it and the digest after it."""

    images: list[Image]
    since: Any
    rows: Any
    digest: str
    became: str

    def begun(self) -> str:
        """Return the digest after all partitions began to build. It lacks the emissions of these views' functions."""
        with ps.open(second(), self.images[PARTS - 1].path, readonly=True) as engine:
            return engine.digest()


def migrated(folder: Path) -> Switched:
    """Fill a store with the first app and open it with the second. Copy an image after each commit of the switch."""
    with unsynced(), small_trees(), placed():
        return _migrated(folder)


def _migrated(folder: Path) -> Switched:
    path, images, done = folder / "s", list[Image](), 0
    with ps.open(first(), path, partitions=PARTS, processes=False) as partitioned:
        put(partitioned, DOCS)
        partitioned.settle()
        since, rows, digest = partitioned.status()["position"], shown(partitioned, OLD), partitioned.digest()

    def at(point: int, side: str, kind: str) -> None:
        nonlocal done
        if side != AFTER or kind not in COMMITS:
            return
        done += kind == "switch"
        target = folder / f"{point}-{kind}"
        shutil.copytree(
            path, target, ignore=lambda _, names: [n for n in names if n in ("owner", "lock.mdb", "socket")]
        )
        images.append(Image(target, kind, done))

    with Counted(at).counting(), ps.open(second(), path, processes=False) as partitioned:
        partitioned.migrate()
    return Switched(images, since, rows, digest, whole_of(DOCS))


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with unsynced(), small_trees():
        yield


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Switched:
    return migrated(tmp_path_factory.mktemp("switch"))


def copied(path: Path, to: Path) -> Path:
    """Copy the image to another folder for writes."""
    shutil.copytree(path, to)
    return to


def catalogs(partitioned: ps.Engine) -> list[Catalog]:
    """Return the catalogs of all partitions."""
    assert isinstance(partitioned.store, PartitionedStore)
    return [core.catalog for core in partitioned.store.reading.cores]


def base(of: Switched) -> dict[tuple[str, Any], Any]:
    """Return all rows from before the switch, by view and group."""
    return {(view, row[0]): row[1] for view in OLD for row in of.rows[view]}


def must_read(of: Switched, image: Image) -> Any:
    """Check that readers see the generation that the number of switched partitions implies. Return their position."""
    with ps.open(second(), image.path, readonly=True) as engine, engine.snapshot() as snap:
        changes = list(engine.changes(since=of.since))
        if image.switched < PARTS:
            assert shown(engine, OLD) == of.rows
            if image.kind == "switch":
                assert engine.digest() == of.begun()
            assert changes == []
            assert [one.key for one in snap.view("kept").why("Joe")], "what the former generation keeps is there"
        else:
            assert engine.digest() == of.became
            assert followed(changes, base(of)) == {
                (v, row[0]): row[1] for v, own in shown(engine, NEW).items() for row in own
            }
        return snap.position


def must_end(of: Switched, image: Image, at: Any, path: Path) -> None:
    """Check that the next opening finishes the switch. A reader that follows from before or between misses nothing."""
    with ps.open(second(), copied(image.path, path), processes=False) as partitioned:
        partitioned.migrate()
        assert partitioned.digest() == of.became
        now = {(view, row[0]): row[1] for view, own in shown(partitioned, NEW).items() for row in own}
        assert followed(partitioned.changes(since=of.since), base(of)) == now
        if image.switched < PARTS:
            assert followed(partitioned.changes(since=at), base(of)) == now
        put(partitioned, MORE)
        partitioned.settle()
        digest = partitioned.digest()
        assert not any(catalog.unfinished or catalog.trash for catalog in catalogs(partitioned))
    assert digest == whole_of(DOCS + MORE)


def test_each_image_shows_one_generation_and_the_next_opening_ends_it(once: Switched, tmp_path: Path) -> None:
    assert [image.kind for image in once.images] == [kind for kind in COMMITS for _ in range(PARTS)]
    for i, image in enumerate(once.images[1::2]):
        must_end(once, image, must_read(once, image), tmp_path / f"{i}")


def must_turn(of: Switched, image: Image, path: Path) -> None:
    """Check that an opening with another app finishes the switch first, and then begins to build for that app."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(PartitionedBuilding, "begin", lambda self: None)
        with (
            ps.open(first(), copied(image.path, path), processes=False) as partitioned,
            ps.open(second(), None) as whole,
        ):
            put(whole, DOCS)
            assert not any(catalog.unfinished for catalog in catalogs(partitioned))
            assert shown(partitioned, NEW) == shown(whole, NEW)
            partitioned.migrate()
            assert partitioned.digest() == of.digest
            assert followed(partitioned.changes(since=of.since), base(of)) == base(of)


def test_another_app_than_the_one_that_was_switching_to(once: Switched, tmp_path: Path) -> None:
    for i, image in enumerate(once.images):
        if image.kind == "switch":
            must_turn(once, image, tmp_path / f"{i}")


def test_a_copy_of_an_image_is_finished_too(once: Switched, tmp_path: Path) -> None:
    image = next(image for image in once.images if image.switched == 1)
    copy_any(str(image.path), str(tmp_path / "copy"))
    with ps.open(second(), tmp_path / "copy", processes=False) as partitioned:
        partitioned.migrate()
        assert partitioned.digest() == once.became


def test_processes_finish_it(once: Switched, tmp_path: Path) -> None:
    image = next(image for image in once.images if image.switched == 1)
    with ps.open(second(), copied(image.path, tmp_path / "s")) as partitioned:
        partitioned.migrate()
        assert partitioned.digest() == once.became


def test_a_switch_that_fails_at_one_partition_is_finished_before_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ps.open(first(), tmp_path / "s", partitions=PARTS, processes=False) as partitioned:
        put(partitioned, DOCS)
    plain, left = generation_switch.switched, 1

    def fails(*args: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            raise ps.StoreFull("s", "there is no room left")
        return plain(*args, **named)

    monkeypatch.setattr("penstock.generations.build.switched", fails)
    monkeypatch.setattr(PartitionedBuilding, "begin", lambda self: None)
    with ps.open(second(), tmp_path / "s", processes=False) as partitioned:
        left = 2
        with pytest.raises(ps.StoreFull):
            partitioned.migrate()
        was = partitioned.status()["position"]
        assert list(partitioned.changes(since=was)) == []
        put(partitioned, MORE)
        partitioned.settle()
        assert partitioned.digest() == whole_of(DOCS + MORE)
        assert {change.view for change in partitioned.changes(since=was)} >= {"sums", "fresh"}


# -- planted bugs


def _the_former_generation_is_emptied_at_once(m: pytest.MonkeyPatch) -> None:
    def left(core: Core) -> bool:
        return bool((core.build is not None and not core.build.waits) or core.catalog.trash)

    plain = Core._build_step
    m.setattr(Core, "has_step", property(left))
    done = build_progress.take_build_step

    def by(core: Core, limit: int | None, do: Any = None, of: str = "") -> Any:
        out = done(core, limit, do, of)
        while do == "switch" and core.catalog.trash:
            core.between(lambda: plain(core, 1 << 12))
        return out

    m.setattr("penstock.partitions.member.take_build_step", by)


def _readers_see_each_partition_as_it_is(m: pytest.MonkeyPatch) -> None:
    m.setattr(Snapshot, "show_former", lambda self: None)


def _the_feed_shows_a_switch_at_once(m: pytest.MonkeyPatch) -> None:
    m.setattr(union_feed, "_shown_of", lambda look, i: lambda: 1 << 60)


def _the_position_counts_the_switch(m: pytest.MonkeyPatch) -> None:
    m.setattr("penstock.core.reading.store_snapshot.former_state", lambda state, unfinished: state)


def _an_opening_does_not_finish_it(m: pytest.MonkeyPatch) -> None:
    m.setattr(partitioned_opening, "_complete_switches", lambda folders, feed: None)


def _only_the_first_is_let_go_of(m: pytest.MonkeyPatch) -> None:
    m.setattr(generation_switch, "finished", lambda catalog: catalog)


def _a_view_that_one_has_begun_is_another_generation(m: pytest.MonkeyPatch) -> None:
    def unlike(catalogs: Any) -> Any:
        names = [set(own.entries) for own in catalogs]
        return next(((i, "fresh") for i, own in enumerate(names) if own != names[0]), None)

    m.setattr(union_snapshot, "unlike", unlike)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    _the_former_generation_is_emptied_at_once,
    _readers_see_each_partition_as_it_is,
    _the_feed_shows_a_switch_at_once,
    _the_position_counts_the_switch,
    _an_opening_does_not_finish_it,
    _only_the_first_is_let_go_of,
    _a_view_that_one_has_begun_is_another_generation,
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__.strip("_"))
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, once: Switched, tmp_path: Path
) -> None:
    bug(monkeypatch)
    of = migrated(tmp_path / "own") if bug is _the_former_generation_is_emptied_at_once else once
    with pytest.raises((AssertionError, ps.PenstockError)):
        must_hold(of, tmp_path)


def must_hold(of: Switched, folder: Path) -> None:
    """Check all images until the switch is finished."""
    for i, image in enumerate(of.images):
        if image.kind != "_finish":
            must_end(of, image, must_read(of, image), folder / f"{i}")
            if image.kind == "switch":
                must_turn(of, image, folder / f"{i}-other")
