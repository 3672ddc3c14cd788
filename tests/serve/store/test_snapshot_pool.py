"""Snapshots that a front uses again: each read shows every answered write, and none stays open for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.serve.store.snapshot_pool import SnapshotPool
from tests.serve.asgi import shop

Opened = list[ps.Snapshot]


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["lmdb", "memory", "partitions"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ps.Engine]:
    where = tmp_path / "store" if request.param == "lmdb" else None
    more = {"partitions": 2} if request.param == "partitions" else {}
    with ps.open(shop(), where, **more) as made:
        yield made


def counted(engine: ps.Engine) -> tuple[Callable[[], ps.Snapshot], Opened]:
    """Return a function that opens a snapshot, and the list of all snapshots that it opened."""
    opened: Opened = []

    def make() -> ps.Snapshot:
        opened.append(engine.snapshot())
        return opened[-1]

    return make, opened


def put(engine: ps.Engine, key: int) -> None:
    engine.put("orders", {"id": key, "ts": 1, "country": "NO", "amount": 1})


def groups(pool: SnapshotPool, eventual: bool = False) -> int:
    with pool.use(eventual) as snap:
        return len(snap.table("orders"))


def test_a_snapshot_is_used_again_until_the_next_commit(engine: ps.Engine) -> None:
    make, opened = counted(engine)
    pool = SnapshotPool(make, Clock())
    put(engine, 1)
    assert [groups(pool) for _ in range(5)] == [1] * 5
    assert len(opened) == 1
    put(engine, 2)
    assert [groups(pool) for _ in range(5)] == [2] * 5
    assert len(opened) == 2
    pool.close()


def test_an_eventual_read_is_checked_only_after_a_moment(engine: ps.Engine) -> None:
    clock = Clock()
    pool = SnapshotPool(engine.snapshot, clock)
    put(engine, 1)
    assert groups(pool, eventual=True) == 1
    put(engine, 2)
    assert groups(pool, eventual=True) == 1
    clock.now += 0.02
    assert groups(pool, eventual=True) == 2
    pool.close()


def test_an_old_snapshot_is_closed(engine: ps.Engine) -> None:
    clock = Clock()
    make, opened = counted(engine)
    pool = SnapshotPool(make, clock)
    assert groups(pool) == 0
    pool.close_old()
    assert not closed(opened[0])
    clock.now += 2
    pool.close_old()
    assert closed(opened[0])
    assert groups(pool) == 0
    pool.close()
    assert closed(opened[1])


def closed(snap: ps.Snapshot) -> bool:
    try:
        snap.reader()
    except ps.Closed:
        return True
    return False


def test_two_threads_never_share_a_snapshot(engine: ps.Engine) -> None:
    make, opened = counted(engine)
    pool = SnapshotPool(make, Clock())
    both = threading.Barrier(2, timeout=60)
    seen: list[int] = []

    def read() -> None:
        with pool.use() as snap:
            both.wait()
            seen.append(id(snap))
            both.wait()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == len(opened) == 2
    pool.close()
    assert all(map(closed, opened))


def test_a_pool_that_never_looks_for_commits_is_found(engine: ps.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ps.Snapshot, "is_newest", lambda self: True)
    with pytest.raises(AssertionError):
        test_a_snapshot_is_used_again_until_the_next_commit(engine)
    engine.snapshot()
