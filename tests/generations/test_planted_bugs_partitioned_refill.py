"""Bugs planted in the refill of a partitioned store: its tests must find each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.schema import described
from penstock.mapreduce import small_trees
from tests.core.crash.crash_points import unsynced
from tests.generations import test_refill
from tests.generations.crash import test_crash_refill
from tests.generations.refills import in_small_steps
from tests.generations.test_refill import SOURCE, docs, elsewhere, shop
from tests.harness.planting import Bug


def content(folder: Path) -> None:
    """Refill from a store that lacks a record put after the refill began, and a record put again."""
    app = shop()
    with test_crash_refill.live_at(folder / "live") as live:
        seed = live.begin_refill(["users"], described(app))
        live.put_many("users", test_crash_refill.SINCE)
        assert live.put_many("users", docs(5, 6, "old")).equal == 1
        live.refill(elsewhere(app, folder / "fresh", seed, docs(0, 5)))
        with live.snapshot() as snap:
            assert {row.key for row in snap.table("users")} == set(range(26))
        assert live.check().ok


def sources(folder: Path) -> None:
    test_refill.test_where_a_source_goes_on(folder, test_refill.PARTITIONS, 60, 80, 50, 50, (SOURCE,))


def images(folder: Path) -> None:
    cut = test_crash_refill.cut(folder)
    for i, image in enumerate(cut.images):
        if image.kind == "switch" or i == len(cut.images) // 2:
            test_crash_refill.must_read(cut, image)
            test_crash_refill.must_end(cut, image, folder / f"again-{i}", cut.fresh)


BUGS: list[tuple[Bug, Callable[[Path], None]]] = [
    (Bug("its views take no contributions", "core.commit:Core.fill", ", *views]", "]"), content),
    (
        Bug(
            "its views are fed at once",
            "core.catalog_nodes:filling_nodes",
            "view.building = HiddenGeneration()",
            "pass",
        ),
        images,
    ),
    (
        Bug(
            "each partition gives numbers of its own",
            "generations.refill_steps:_open",
            "run.allot(first)",
            "run.allot(first + 9 * core.catalog.partition.number)",
        ),
        content,
    ),
    (
        Bug(
            "the last records are left out",
            "engine.partitioned_refill:PartitionedRefill._switched",
            'self._step_each("carry", None)',
            "pass",
        ),
        content,
    ),
    (
        Bug(
            "records that change nothing are left out",
            "engine.partitioned_refill:PartitionedRefill._switched",
            'self._step_each("repeat")',
            "pass",
        ),
        content,
    ),
    (
        Bug(
            "former offsets are remembered",
            "engine.partitioned_refill:PartitionedRefill._switched",
            "self._store.writing.stands.sure = False",
            "pass",
        ),
        sources,
    ),
    (
        Bug(
            "an opening discards a refill to which another partition switched",
            "core.generation_switch:complete_switches",
            "(first is None or not decides(first, catalog))",
            "True",
        ),
        images,
    ),
    (
        Bug(
            "readers see the offsets of the refill early",
            "core.generation_switch:switch_refill",
            ".position, state)",
            ".position)",
        ),
        images,
    ),
    (
        Bug(
            "the mark of a former log stays",
            "core.discarded_generations:empty_trash",
            "else [mark]",
            "else []",
        ),
        images,
    ),
]


@pytest.mark.parametrize(("bug", "check"), BUGS, ids=[bug.name for bug, _ in BUGS])
def test_a_planted_bug_is_found(
    bug: Bug, check: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_small_steps(monkeypatch, 64)
    bug.plant(monkeypatch)
    with unsynced(), small_trees(), pytest.raises(BaseException):  # noqa: B017, PT011 - whatever shows it
        check(tmp_path)
