"""Damage of every kind in small numbers, and a bug that the campaign finds; `make damage` runs more of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cache import lmdb_page
from penstock.cache.lmdb_page import Pages
from penstock.engine import damaged_pages_at
from tests.cache import test_lmdb_page
from tests.engine.planting import Bug
from tests.faults import damage, flips

FEW = {"flips": 4, "nodes": 6, "cuts": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sound stores of all campaigns here lie."""
    return tmp_path_factory.mktemp("damage")


@pytest.mark.parametrize("kind", FEW)
def test_damage_is_named_or_changes_nothing(kind: str, folder: Path) -> None:
    said: list[str] = []
    assert list(damage.campaign({kind: FEW[kind]}, 1, said.append, folder)) == []
    assert said[0].startswith(f"{kind}: ")


def test_the_campaign_finds_a_look_up_that_goes_astray(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Bug("the order of keys is not looked at", "cache.lmdb_page:_check_keys", "if not keys:", "if True:").plant(
        monkeypatch
    )
    (said,) = damage.campaign({"nodes": 1}, 20, print, folder)
    assert said.startswith("--nodes 1 --seed 20: Failed: served after a clean check")


def test_the_campaign_finds_signals_and_other_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def abort() -> str:
        raise SystemError("LMDB")

    with pytest.raises(damage.Failed, match="SystemError: LMDB"):
        damage.in_child(abort)
    with pytest.raises(damage.Failed, match="ended by SIGABRT"):
        damage.in_child(flips.abort)


_PAGES = "cache.lmdb_page:Pages"
PAGE_BUGS = [
    Bug("a gap between nodes", f"{_PAGES}.page", "if total != size - upper or", "if False and"),
    Bug("a separator", "cache.lmdb_page:_check_keys", "if keys[0] < low or (high is not None and", "if (False and"),
    Bug("a page of two parents", f"{_PAGES}._mark", "if any(seen[number : number + pages]):", "if False:"),
    Bug("an overflow page", f"{_PAGES}.extent", "if (own, pad, flags, count) !=", "if False and (own,) !="),
]
BY: list[Callable[[bytes, Path], None]] = [
    lambda sound, path: test_lmdb_page.test_a_damaged_leaf_is_named("one node less", sound, path),
    test_lmdb_page.test_a_separator_that_leads_elsewhere_is_named,
    test_lmdb_page.test_a_child_that_is_named_twice_is_named,
    test_lmdb_page.test_an_overflow_page_is_held_against_its_node,
]


@pytest.mark.parametrize("place", range(len(PAGE_BUGS)), ids=[bug.name for bug in PAGE_BUGS])
def test_a_walk_that_misses_damage_is_found(place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = test_lmdb_page.sound_file(tmp_path / "made")
    BY[place](sound, tmp_path)
    PAGE_BUGS[place].plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        BY[place](sound, tmp_path)


def test_check_walks_pages_before_anything_else(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separator of a branch page is damaged: each page is in order, and look-ups miss rows of a view."""
    monkeypatch.setattr(lmdb_page, "_FIRST", 0)
    world = flips.worlds(folder)[1]
    (tmp_path / "data.mdb").write_bytes(world.file)
    with Pages(str(tmp_path)) as pages:
        tree = next(tree for name, tree in pages.databases(pages.new_marks()).items() if name.startswith("view:"))
    at = test_lmdb_page.node(world.file, tree.root * test_lmdb_page.PAGE, 1) + 8
    (tmp_path / "data.mdb").write_bytes(test_lmdb_page.put(world.file, at + 2, "B", world.file[at + 2] + 1))
    with world.opened(tmp_path) as engine:
        report = engine.check()
    assert not report.ok
    assert report.rows == 0
    (said,) = report.damaged
    assert said.startswith("damaged row: view 'names', page")
    assert said.endswith(
        "keys that belong on another page; restore the store from a copy, or load its documents into a new path"
    )
    assert damaged_pages_at(str(tmp_path)) == [said]
