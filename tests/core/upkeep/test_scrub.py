"""Scrubs of an open store: they find a flipped bit in a key, keep the result, and stop work that relies on damage."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec.structs import replace

import penstock as ps
from penstock.cache import COPY, META, DefinitionError, StoreDamaged, open_lmdb
from penstock.cache.lmdb.lmdb_page import Pages
from penstock.cache.store.key_digests import DIGESTS
from penstock.core.upkeep.scrub_result import read_result
from penstock.core.upkeep.scrub_thread import ScrubEnded, ScrubPace, start_scrubs
from penstock.engine import Scrubbing, damaged_pages_at, read_state, write_state
from tests.cache.lmdb import test_lmdb_page
from tests.harness.planting import Bug
from tests.waiting import PATIENCE

OFTEN = Scrubbing(every=0.01)
LOOK = 0.01
LOST = "rows were lost or added"


def shop() -> ps.App:
    app = ps.App("shop")
    app.table("users", key="id").view("names", key="name", reduce=ps.count())
    return app


def documents(n: int = 50) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"name{i % 9}"} for i in range(n)]


def fill(path: Path, n: int = 50, partitions: int | None = None) -> None:
    with ps.open(shop(), path, partitions=partitions, processes=False) as engine:
        engine.put_many("users", documents(n))


def folders(path: Path) -> list[Path]:
    return sorted(path.glob("*-*")) or [path]


def turn(folder: Path, kind: str) -> tuple[int, int]:
    """Flip a bit of the last key in a database of a kind, below LMDB.

    Return its byte and bit. The key stays the last.
    """
    data = folder / "data.mdb"
    with Pages(str(folder)) as pages:
        trees = pages.databases(pages.new_marks())
        db = next(name for name in trees if name.startswith(kind))
        page = list(pages.leaves(db, trees[db], pages.new_marks()))[-1]
    last = len(page.keys) - 1
    at = test_lmdb_page.node(data.read_bytes(), page.number * test_lmdb_page.PAGE, last) + 8 + len(page.keys[last]) - 1
    byte = page.keys[last][-1]
    bit = (byte + 1) & ~byte  # the lowest one that is not set
    flip(data, at, bit)
    return at, bit


def flip(data: Path, at: int, bit: int = 1) -> None:
    """Flip a bit of a byte in a file that others map."""
    with open(data, "r+b", buffering=0) as file:
        old = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([old ^ bit]), at)


def until(found: Callable[[], bool]) -> None:
    """Repeat a condition until it is true, with a deadline."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / LOOK)):
        if found():
            return
        pause.wait(LOOK)
    raise AssertionError("nothing came of it")


@contextmanager
def scrubbed(path: Path, **options: Any) -> Iterator[ps.Engine]:
    """Yield an engine that scrubs often, after its first scrub without damage."""
    with ps.open(shop(), path, scrub=OFTEN, **options) as engine:
        until(lambda: engine.status()["scrub"]["ended"] is not None)
        assert engine.status()["scrub"]["damaged"] == []
        yield engine


def damaged(engine: ps.Engine) -> list[str]:
    found: list[str] = engine.status()["scrub"]["damaged"]
    return found


# -- in the background


def test_a_running_engine_finds_a_turned_key_of_a_view(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    said = f"damaged row: view 'names', {LOST}; run `penstock check --fix`, or engine.check(fix=True)"
    with scrubbed(tmp_path) as engine:
        turn(tmp_path, "view:")
        until(lambda: damaged(engine) == [said])
        engine.put("users", {"id": 100, "name": "Sue"})  # the documents are sound, so the work continues
        engine.scrub_once()
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
            f"a scrub of {tmp_path} found damage: {said}. The documents are whole, so batches go on"
        ]
    with ps.open(shop(), tmp_path) as engine:
        assert damaged(engine) == [said], "the result is on the disk"
        report = engine.check(fix=True)
        assert report.ok
        assert damaged(engine) == []
        with engine.snapshot() as snap:
            assert sum(count for _, count in snap.view("names").items()) == 51


@pytest.mark.parametrize("processes", [False, True])
def test_each_partition_scrubs_its_own_folder(tmp_path: Path, processes: bool) -> None:
    fill(tmp_path, 200, partitions=2)
    with scrubbed(tmp_path, processes=processes) as engine:
        turn(folders(tmp_path)[1], "view:")
        until(lambda: len(damaged(engine)) == 1)
        assert LOST in damaged(engine)[0]
        with pytest.raises(ps.PenstockError, match="each partition scrubs itself"):
            engine.scrub_once()
    assert [bool(read_result(str(folder)).damaged) for folder in folders(tmp_path)] == [False, True]  # type: ignore[union-attr]


def test_damage_that_needs_a_copy_stops_the_work_also_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    said = f"damaged row: table 'users', {LOST}; {COPY}"
    with scrubbed(tmp_path) as engine:
        at, bit = turn(tmp_path, "log:")
        until(lambda: damaged(engine) == [said])
        with pytest.raises(StoreDamaged, match=LOST):
            engine.put("users", {"id": 100, "name": "Sue"})
        with pytest.raises(StoreDamaged, match=LOST):
            engine.put_many("users", documents())
        assert "Batches would build on it, so the store takes none" in caplog.text
    with pytest.raises(StoreDamaged, match=LOST):
        ps.open(shop(), tmp_path)
    with ps.open(shop(), tmp_path, readonly=True) as engine:
        assert damaged(engine) == [said]
    flip(tmp_path / "data.mdb", at, bit)  # as in the copy
    with ps.open(shop(), tmp_path) as engine:
        assert damaged(engine) == []
        engine.put("users", {"id": 100, "name": "Sue"})


def test_damage_before_the_first_database_is_damage_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    with scrubbed(tmp_path) as engine:
        flip(tmp_path / "data.mdb", 16)  # in the magic number of the first meta page
        until(lambda: bool(damaged(engine)))
        assert "meta page 0 has a wrong header; restore the store from a copy" in damaged(engine)[0]
        with pytest.raises(StoreDamaged, match="meta page 0"):
            engine.put("users", {"id": 100, "name": "Sue"})
        flip(tmp_path / "data.mdb", 16)
        until(lambda: not damaged(engine))
        engine.put("users", {"id": 100, "name": "Sue"})
    assert "Traceback" not in caplog.text


def test_the_opening_of_a_partition_is_refused_too(tmp_path: Path) -> None:
    fill(tmp_path, 200, partitions=2)
    turn(folders(tmp_path)[1], "log:")
    assert damaged_pages_at(str(tmp_path)) == [], "these are whole, and a key is not"
    for _ in range(2):  # the first one releases all locks
        with pytest.raises(StoreDamaged, match=LOST):
            ps.open(shop(), tmp_path, processes=False)


def test_a_bug_of_the_walk_is_seen_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    turn(tmp_path, "view:")
    with ps.open(shop(), tmp_path) as engine:
        engine.scrub_once()
        assert len(damaged(engine)) == 1
        Bug("no digest", "cache.lmdb.page_scrub:Scrub.run", "if written is not None and", "if False and").plant(
            monkeypatch
        )
        engine.scrub_once()
        assert damaged(engine) == []


# -- when, and how fast


def test_a_close_waits_for_no_walk(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path) as engine:
        engine.put_many("users", [{"id": i, "name": "x" * 400} for i in range(5_000)])
    engine = ps.open(shop(), tmp_path, scrub=Scrubbing(rate=1))
    scrubber = engine.store.scrubs.scrubber
    assert scrubber is not None
    engine.close()
    assert not scrubber._thread.is_alive()
    assert read_result(str(tmp_path)) is None


def test_a_scrub_that_is_not_due_waits(tmp_path: Path) -> None:
    fill(tmp_path)
    with ps.open(shop(), tmp_path) as engine:
        engine.check()
        assert engine.status()["scrub"]["ended"] is not None
    waits: list[float] = []
    with ps.open(shop(), tmp_path) as engine:
        asked = threading.Event()

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            asked.set()
            return True

        before = read_result(str(tmp_path))
        scrubber = start_scrubs(engine, Scrubbing(every=1e6), wait)
        assert asked.wait(PATIENCE)
        scrubber.close()
        assert read_result(str(tmp_path)) == before
    assert len(waits) == 1
    assert 0 < waits[0] <= 1e6


def test_the_rate_is_bounded_and_so_is_a_walk() -> None:
    pauses: list[float] = []
    now = [0.0]

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        now[0] += seconds
        return len(pauses) == 4

    pace = ScrubPace(4096 * 100, wait, lambda: now[0])
    pace(255, 1000)
    assert pauses == []
    pace(300, 1000)
    now[0] += 1.0  # it worked so long
    pace(600, 1000)
    assert pauses == [3.0, 2.0]
    pace(256, 60_000 * 256)  # a restarted walk of a large store: it may take ten minutes at most
    assert pauses[2] == 0.0
    with pytest.raises(ScrubEnded):
        pace(256 + 25_600, 60_000 * 256)
    assert pauses[3] == 1.0


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for wrong in (0, -1, float("nan"), float("inf"), True, "1"):
        with pytest.raises(DefinitionError, match="write a number above 0"):
            Scrubbing(every=wrong)  # type: ignore[arg-type]
    with pytest.raises(ps.PenstockError, match=r"give penstock\.engine\.Scrubbing"):
        ps.open(shop(), tmp_path, scrub=3)  # type: ignore[arg-type]


# -- the result


def test_a_store_without_digests_gets_them_with_the_first_scrub(tmp_path: Path) -> None:
    fill(tmp_path)
    store = open_lmdb(tmp_path)
    with store.write() as writer:
        write_state(writer, replace(read_state(writer), counted=False))
    store.close()
    with lmdb.open(str(tmp_path), max_dbs=50) as env, env.begin(write=True, db=env.open_db(META.encode())) as txn:
        txn.delete(DIGESTS)
    with ps.open(shop(), tmp_path, readonly=True) as reader:
        assert reader.status()["scrub"] == {"ended": None, "seconds": None, "damaged": [], "uncounted": 3}
    with ps.open(shop(), tmp_path) as engine:
        assert engine.status()["scrub"]["uncounted"] == 3
        engine.scrub_once()
        assert engine.status()["scrub"]["uncounted"] == 0
        assert damaged(engine) == []
        engine.put_many("users", documents(100))
        engine.scrub_once()
        assert damaged(engine) == []
    with ps.open(shop(), tmp_path) as engine:
        assert engine.status()["scrub"]["uncounted"] == 0


def test_a_result_counts_for_its_data_file_alone(tmp_path: Path) -> None:
    fill(tmp_path)
    with ps.open(shop(), tmp_path) as engine:
        engine.check()
    result = tmp_path / "scrub"
    assert result.stat().st_mode & 0o777 == (tmp_path / "data.mdb").stat().st_mode & 0o777
    assert read_result(str(tmp_path)) is not None
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / "data.mdb").read_bytes())
    copy.rename(tmp_path / "data.mdb")
    assert read_result(str(tmp_path)) is None
    result.write_bytes(b"{")
    assert read_result(str(tmp_path)) is None


def test_a_file_of_another_program_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    (tmp_path / "scrub").write_text("notes of a user")
    with ps.open(shop(), tmp_path) as engine:
        engine.scrub_once()
        assert engine.status()["scrub"]["ended"] is None
    assert (tmp_path / "scrub").read_text() == "notes of a user"
    assert "is a file of another program" in caplog.text
    (tmp_path / "scrub").unlink()
    os.mkfifo(tmp_path / "scrub")
    assert read_result(str(tmp_path)) is None


def test_a_store_in_memory_has_no_scrub() -> None:
    with ps.open(shop(), None, scrub=OFTEN) as engine:
        engine.scrub_once()
        assert engine.status()["scrub"] is None
    with ps.open(shop(), None, partitions=2, scrub=OFTEN) as engine:
        assert engine.status()["scrub"] is None
