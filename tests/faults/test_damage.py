"""Run a few trials of every kind of damage, and a planted bug that the campaign finds. `make damage` runs more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

import penstock as ps
from penstock.cache import META, encode_key, stored_key
from penstock.cache.lmdb import lmdb_databases
from penstock.cache.lmdb.lmdb_page import Pages
from penstock.cache.store.key_digests import DIGESTS
from penstock.engine import damaged_pages_at
from penstock.mapreduce import FEED
from tests.cache.lmdb import test_lmdb_page
from tests.faults import damage, flips
from tests.harness.planting import Bug, Edit

FEW = {"flips": 3, "nodes": 4, "rows": 4, "cuts": 2}
NO_DIGEST = Edit("cache.lmdb.page_scrub:Scrub.run", "if written is not None and", "if False and")


def astray(file: bytes, folder: Path) -> bytes:
    """Return a file in which a view's root page misleads look-ups: a separator has a wrong byte, in the right order."""
    (folder / "data.mdb").write_bytes(file)
    with Pages(str(folder)) as pages:
        tree = next(tree for name, tree in pages.databases(pages.new_marks()).items() if name.startswith("view:"))
    at = test_lmdb_page.node(file, tree.root * test_lmdb_page.PAGE, 1) + 10
    return test_lmdb_page.put(file, at, "B", file[at] + 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the sound stores of all campaigns here."""
    return tmp_path_factory.mktemp("damage")


@pytest.mark.parametrize("kind", FEW)
def test_damage_is_named_or_changes_nothing(kind: str, folder: Path) -> None:
    said: list[str] = []
    assert list(damage.campaign({kind: FEW[kind]}, 1, said.append, folder)) == []
    assert said[0].startswith(f"{kind}: ")


def test_the_campaign_finds_lost_rows_of_the_feed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = flips.worlds(folder)[1]
    (tmp_path / "data.mdb").write_bytes(world.file)
    with lmdb.open(str(tmp_path), max_dbs=50) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(FEED.encode(), txn=txn), delete=False)
    assert damage.in_child(lambda: flips.outcome(world, tmp_path)) == "named by the check"
    (tmp_path / "data.mdb").write_bytes(world.file)
    with lmdb.open(str(tmp_path), max_dbs=50) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(FEED.encode(), txn=txn), delete=False)
    Bug("no digest is compared", NO_DIGEST.where, NO_DIGEST.old, NO_DIGEST.new).plant(monkeypatch)
    with pytest.raises(damage.Failed, match=r"served after a clean check: \['feed'\]"):
        damage.in_child(lambda: flips.outcome(world, tmp_path))


def test_the_campaign_finds_signals_and_other_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def abort() -> str:
        raise SystemError("LMDB")

    with pytest.raises(damage.Failed, match="SystemError: LMDB"):
        damage.in_child(abort)
    with pytest.raises(damage.Failed, match="ended by SIGABRT"):
        damage.in_child(flips.abort)


_PAGES = "cache.lmdb.lmdb_page:Pages"
PAGE_BUGS = [
    Bug("a gap between nodes", f"{_PAGES}.page", "if total != size - upper or", "if False and"),
    Bug(
        "a separator", "cache.lmdb.lmdb_page:_check_keys", "if keys[0] < low or (high is not None and", "if (False and"
    ),
    Bug("a page of two parents", f"{_PAGES}._mark", "if any(seen[number : number + pages]):", "if False:"),
    Bug("an overflow page", f"{_PAGES}.extent", "if (own, pad, flags, count) !=", "if False and (own,) !="),
]
BY: list[Callable[[bytes, Path], None]] = [
    lambda sound, path: test_lmdb_page.test_a_damaged_leaf_is_named("one node less", sound, path),
    test_lmdb_page.test_a_wrong_separator_is_named,
    test_lmdb_page.test_a_child_that_is_named_twice_is_named,
    test_lmdb_page.test_an_overflow_page_must_match_its_node,
]


@pytest.mark.parametrize("place", range(len(PAGE_BUGS)), ids=[bug.name for bug in PAGE_BUGS])
def test_a_walk_that_misses_damage_is_found(place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = test_lmdb_page.sound_file(tmp_path / "made")
    BY[place](sound, tmp_path)
    PAGE_BUGS[place].plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        BY[place](sound, tmp_path)


def test_check_walks_pages_before_anything_else(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage a separator of a branch page: each page has the right order, but look-ups miss rows of a view."""
    monkeypatch.setattr(lmdb_databases, "_FIRST", 0)
    world = flips.worlds(folder)[1]
    (tmp_path / "data.mdb").write_bytes(world.file)
    (tmp_path / "data.mdb").write_bytes(astray(world.file, tmp_path))
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


def test_a_put_after_a_lost_key_does_not_hide_it(folder: Path, tmp_path: Path) -> None:
    """Reads cannot notice a lost row. A check finds it despite later puts, and `fix` restores it."""
    world = flips.worlds(folder)[1]
    path = tmp_path / "store"
    path.mkdir()
    (path / "data.mdb").write_bytes(world.file)
    with world.opened(path) as engine:
        name = next(iter(engine.snapshot().view("names"))).key
        number = engine.store.core.views["names"].number
        count = engine.snapshot().view("names")[name]
    with lmdb.open(str(path), max_dbs=50) as env, env.begin(write=True) as txn:
        assert txn.delete(stored_key(encode_key(name)), db=env.open_db(b"view:%d" % number, txn=txn))
    with world.opened(path) as engine:
        engine.put("users", {"id": 9_999, "name": name, "amount": 1, "ts": 9})
        assert engine.snapshot().view("names")[name] == 1
        report = engine.check()
        assert [one.group for one in report.wrong] == [name]
        [said] = report.damaged
        assert said.startswith("damaged row: view 'names', rows were lost or added; run `penstock check --fix`")
        fixed = engine.check(fix=True)
        assert fixed.ok
        assert "view 'names', its keys" in fixed.anew
        assert engine.snapshot().view("names")[name] == count + 1
        assert engine.check().ok


@pytest.mark.parametrize("lost", [DIGESTS, b"catalog", b"state"])
def test_what_a_store_says_of_itself_is_missed(lost: bytes, folder: Path, tmp_path: Path) -> None:
    world = flips.worlds(folder)[1]
    (tmp_path / "data.mdb").write_bytes(world.file)
    with lmdb.open(str(tmp_path), max_dbs=50) as env, env.begin(write=True) as txn:
        assert txn.delete(lost, db=env.open_db(META.encode(), txn=txn))
    with pytest.raises(ps.StoreDamaged, match=r"what the store says of itself, its digests|meta, it has other rows"):
        world.opened(tmp_path).__enter__()


def test_a_store_whose_feed_is_renamed_or_that_says_nothing_is_refused(folder: Path, tmp_path: Path) -> None:
    world = flips.worlds(folder)[1]
    for name, said in ((FEED, "feed, the database is lost"), (META, "says of itself, its rows are lost")):
        path = tmp_path / name
        path.mkdir()
        (path / "data.mdb").write_bytes(world.file)
        with lmdb.open(str(path), max_dbs=50) as env, env.begin(write=True) as txn:
            txn.drop(env.open_db(name.encode(), txn=txn))
        with pytest.raises(ps.StoreDamaged, match=said):
            world.opened(path).__enter__()
