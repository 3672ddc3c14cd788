"""Processes of partitions, and the one that serves them, killed and stopped; and how they begin and end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import penstock as ps
from penstock.cache import encode_key, writer_pid
from penstock.core.metadata.store_layout import read_layout
from penstock.spout import Remembered
from tests.partitions import partition_kills
from tests.partitions.partition_app import SOURCE, app, batch, order_stop
from tests.partitions.partition_kills import Parent, Taker, story, until
from tests.partitions.partition_parent import opened
from tests.waiting import PATIENCE


def pids(path: Path) -> list[int | None]:
    """Return the ids of the partitions' processes."""
    layout = read_layout(str(path))
    assert layout is not None
    return [writer_pid(folder) for folder in layout.folders(str(path))]


@pytest.fixture
def parent(store_path: Path) -> Iterator[Parent]:
    own = Parent(store_path, 2, store_path.with_suffix(".stop"))
    try:
        yield own
    finally:
        own.kill()


def test_nothing_acknowledged_is_lost_whoever_is_killed() -> None:
    killed = story(seed=1, kills=25, zombies=0, orphans=0)
    assert set(killed) == set(partition_kills.KILLS)


def test_a_partition_that_stops_changes_nothing_once_it_is_followed() -> None:
    assert story(seed=2, kills=0, zombies=3, orphans=1) == {"stopped": 3, "orphan": 1}


@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_is_struck_while_it_opens_its_store_is_followed(store_path: Path, which: signal.Signals) -> None:
    stop = store_path.with_suffix(".stop")
    order_stop(stop, which, 1)
    parent = Parent(store_path, 2, stop)
    try:
        taker = Taker(stop)
        assert taker.pid not in pids(store_path)
        taker.go_on()
        parent.work(1)
    finally:
        parent.kill()


def test_a_put_does_not_wait_for_a_partition_that_is_stopped(store_path: Path) -> None:
    """Partition 0 starts again while partition 1 is stopped and can't hear which batch is saved."""
    with opened(store_path, 2, partition_kills.PATIENCE) as engine:
        engine.ingest(batch(1), SOURCE, 2)
        engine.settle()
        killed, stopped = pids(store_path)
        assert killed is not None
        assert stopped is not None
        own = [key for key in range(20) if engine.store.ranges.of(encode_key(key)) == 0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            os.kill(killed, signal.SIGKILL)
            for ts in (10, 11):
                docs = [{"id": key, "user": name, "amount": ts, "ts": ts} for key in own for name in ("Sue", "Joe")]
                assert engine.put_many("orders", docs).applied == len(docs)
            assert pids(store_path)[1] == stopped
            about = Path(f"/proc/{stopped}/stat").read_text()
            assert about.rpartition(")")[2].split()[0] == "T", "the put has waited until it went on"
        finally:
            os.kill(stopped, signal.SIGCONT)
        engine.settle()
        with ps.open(app, None) as whole, engine.snapshot() as snap:
            whole.ingest(batch(1), SOURCE, 2)
            whole.put_many("orders", docs)
            with whole.snapshot() as same:
                assert dict(snap.view("listed").items()) == dict(same.view("listed").items())
        assert engine.check().ok


def test_partitions_end_with_the_process_that_serves_them(parent: Parent, store_path: Path) -> None:
    parent.work(2)
    assert all(pids(store_path))
    parent.kill()
    until(lambda: not any(pids(store_path)), "the partitions have ended")


def test_an_interrupt_ends_all_of_them_cleanly(parent: Parent, store_path: Path) -> None:
    parent.work(2)
    os.killpg(parent.process.pid, signal.SIGINT)
    parent.process.wait(PATIENCE)
    said = parent.log.read_text()
    assert "KeyboardInterrupt" in said
    assert "another one takes its place" not in said
    assert not any(pids(store_path)), "each was awaited"
    with ps.open(app, store_path, readonly=True) as engine, engine.snapshot() as snap:
        assert all(part.reader().count("out") == 0 for part in snap.parts)


def test_a_damaged_partition_is_named(store_path: Path) -> None:
    ps.open(app, store_path, partitions=2).close()
    folder = Path(read_layout(str(store_path)).folders(str(store_path))[1])  # type: ignore[union-attr]
    (folder / "data.mdb").write_bytes(b"no store" * 1024)
    with pytest.raises(ps.PenstockError, match=str(folder)):
        ps.open(app, store_path)
    assert pids(store_path) == [None, None], "none is left behind"


def test_it_is_closed_once_and_then_says_so(store_path: Path) -> None:
    engine = ps.open(app, store_path, partitions=2)
    engine.ingest(batch(1), SOURCE, 2)
    engine.close()
    engine.close()
    for use in (lambda: engine.put("users", {"id": 1}), engine.settle, engine.snapshot):
        with pytest.raises(ps.Closed):
            use()
    with ps.open(app, store_path) as again:
        assert again.remembered(SOURCE) == Remembered(2, b"")


def test_a_forked_child_can_neither_use_it_nor_end_it(store_path: Path) -> None:
    with ps.open(app, store_path, partitions=2) as engine:
        engine.ingest(batch(1), SOURCE, 2)
        before = pids(store_path)
        child = os.fork()
        if not child:
            code = 1
            with suppress(BaseException):
                code = _in_child(engine)
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        engine.ingest(batch(2), SOURCE, 3)
        engine.settle()
        assert pids(store_path) == before


def _in_child(engine: ps.Engine) -> int:
    for use in (lambda: engine.put("users", {"id": 1}), engine.snapshot):
        try:
            use()
        except ps.ForkedStore:
            continue
        return 1
    engine.close()
    return 0
