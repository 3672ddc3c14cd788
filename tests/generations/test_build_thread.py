"""The build thread, and the fair lock that lets it work beside frequent writers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import StoreFull
from penstock.core.input.fair_lock import FairLock
from penstock.generations.build_thread import BuildPace, Turn, start_build
from tests.waiting import PATIENCE


def app(field: str) -> ps.App:
    shop = ps.App("shop")
    shop.table("users", key="id").view("names", key=field, reduce=ps.count())
    return shop


def fill(path: Path, documents: int = 5_000) -> None:
    with ps.open(app("name"), path) as engine:
        engine.put_many("users", [{"id": i, "name": f"name{i % 10}", "city": i % 7} for i in range(documents)])


def built(engine: ps.Engine) -> bool:
    """Return True if the engine's thread ends its build before a deadline."""
    sweeper = engine.store.building.sweeper
    assert sweeper is not None
    sweeper._thread.join(PATIENCE)
    return not sweeper._thread.is_alive()


def test_a_thread_builds_views_by_itself(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    with ps.open(app("city"), tmp_path / "s") as engine:
        assert engine.status()["building"] is not None
        assert built(engine)
        with engine.snapshot() as snap:
            assert len(snap.view("names")) == 7
        assert engine.status()["building"] is None
    with ps.open(app("city"), tmp_path / "s") as engine:
        assert engine.store.building.sweeper is None, "there is nothing left to do"


def test_it_ends_with_its_engine_and_goes_on_with_the_next(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    engine = ps.open(app("city"), tmp_path / "s")
    thread = engine.store.building.sweeper._thread if engine.store.building.sweeper is not None else threading.Thread()
    engine.close()
    assert not thread.is_alive()
    with ps.open(app("city"), tmp_path / "s") as again:
        again.migrate()
        with again.snapshot() as snap:
            assert len(snap.view("names")) == 7


def test_a_writer_and_the_thread_go_on_together(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    with ps.open(app("city"), tmp_path / "s") as engine:
        batches = 0
        while engine.status()["building"] is not None:
            engine.put("users", {"id": batches % 5_000, "name": "Sue", "city": 7})
            batches += 1
            assert batches < 100_000, "it is passed over"
        with engine.snapshot() as snap:
            counted = dict(snap.view("names").items())
        assert counted[7] == min(batches, 5_000)
        assert sum(counted.values()) == 5_000


class Engine:
    """A stand-in for an engine whose steps fail at times."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.said: list[str | None] = []
        self.limits: list[int] = []

    def build_once(self, limit: int) -> Turn:
        self.limits.append(limit)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        more, took, busy = step
        return Turn(more, took, 0.0, busy)

    def build_failure(self, reason: str | None) -> None:
        self.said.append(reason)


def run(engine: Engine) -> list[float]:
    """Run a thread for an engine until it ends. Return its pauses."""
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return False

    sweeper = start_build(engine, wait)
    sweeper._thread.join(PATIENCE)
    assert not sweeper._thread.is_alive()
    return pauses


def test_what_fails_is_said_and_tried_again_ever_more_seldom(caplog: pytest.LogCaptureFixture) -> None:
    full = StoreFull("state", "no space left on device")
    engine = Engine(full, full, (True, 0.01, False), full, (False, 0.01, False))
    assert run(engine) == [1.0, 2.0, 0.0, 1.0]
    assert [why is None for why in engine.said] == [False, False, True, False, True]
    assert "no space left" in str(engine.said[0])
    assert len(caplog.records) == 3


def test_a_closed_engine_ends_it() -> None:
    assert run(Engine((True, 0.01, False), ps.Closed("the engine"))) == [0.0]


def paced(busy: bool, waited: float = 0.0) -> BuildPace:
    """Return the pace after steps with 10 µs per document."""
    pace = BuildPace()
    for _ in range(20):
        pace.after(Turn(True, pace.limit * 10e-6, waited, busy))
    return pace


def test_steps_follow_what_they_take() -> None:
    pace = paced(busy=False)
    assert pace.pause == 0
    assert 15e-3 < pace.limit * 10e-6 < 25e-3, "while nobody writes"
    pace = paced(busy=True)
    took = pace.limit * 10e-6
    assert took < 10e-3, "while others write"
    assert took / (took + pace.pause) < 0.25, "of the time at most"
    pace.after(Turn(True, 10.0, 0.0, True))
    assert pace.limit >= 64, "what takes long is not made ever smaller"


def test_beside_long_batches_a_step_does_more() -> None:
    for waited in (0.01, 0.1, 0.15):
        pace = paced(busy=True, waited=waited)
        took = pace.limit * 10e-6
        assert 0.15 < took / (took + waited + pace.pause) < 0.25, "writers keep most of the time, and no more"
    pace = paced(busy=True, waited=5.0)
    assert (pace.pause, pace.limit * 10e-6 < 0.06) == (0, True), "a writer waits no longer for a step"


# -- the lock


def test_who_comes_seldom_is_not_passed_over() -> None:
    lock = FairLock()
    stop, had = threading.Event(), threading.Event()
    taken = 0

    def often() -> None:
        nonlocal taken
        while not stop.is_set() and taken < 1_000_000:
            with lock:
                taken += 1

    def seldom() -> None:
        for _ in range(50):
            with lock.next():
                pass
        had.set()

    threads = [threading.Thread(target=often), threading.Thread(target=often), threading.Thread(target=seldom)]
    for thread in threads:
        thread.start()
    assert had.wait(PATIENCE)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert lock.taken == taken


def test_a_thread_takes_it_several_times() -> None:
    lock = FairLock()
    with lock:
        asking = threading.Thread(target=lambda: lock.next().__enter__())
        asking.start()
        for _ in range(10_000):
            if lock._asked:
                break
            asking.join(0.001)
        with lock, lock:
            assert lock.taken == 1, "who has it waits for nobody"
    asking.join(PATIENCE)
    assert not asking.is_alive()


def test_what_raises_lets_it_go() -> None:
    lock = FairLock()
    with pytest.raises(ValueError, match="so"), lock:
        raise ValueError("so")
    with pytest.raises(ValueError, match="so"), lock.next():
        raise ValueError("so")
    other = threading.Thread(target=lock.__enter__)
    other.start()
    other.join(PATIENCE)
    assert not other.is_alive()
