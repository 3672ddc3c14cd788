"""Kills of a store that receives from a Wallaroo worker: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.planting import Bug, assert_found
from tests.spout.wallaroo_worker import (
    BEFORE_PHASE_1,
    BEFORE_PHASE_2,
    Killed,
    Phases,
    Store,
    Worker,
    expected,
    found,
    kill_at,
    message,
)

_IDLE = 0.05  # share of the places without a commit where the store is killed


def run(path: Path, seed: int, partitions: int | None, rounds: int = 6, phases: Phases | None = None) -> int:
    """Run transactions with cuts and kills at random places; return the number of kills that struck."""
    choose = random.Random(f"wallaroo {seed}")
    struck: Phases = Counter() if phases is None else phases
    before = struck.total()
    with Worker() as worker:
        while worker.decided < rounds:
            commit = choose.randrange(1, 10 if partitions is None else 30) if choose.random() < 0.7 else None
            with Store(path, partitions) as store:
                with kill_at(commit), suppress(OSError):
                    try:
                        _work(worker, store, rounds, choose)
                    except Killed as killed:
                        struck["participant", str(killed)] += 1
                if store.stop():
                    struck["participant", store.phase] += 1
        with Store(path, partitions) as store:
            worker.connect(store.address)
            worker.fence()
            assert found(store.engine) == expected(worker.sent)
    return struck.total() - before


def _work(worker: Worker, store: Store, rounds: int, choose: random.Random) -> None:
    """Send transactions until the store is killed. `Killed` ends a store that has no step to commit."""
    worker.connect(store.address)
    while worker.decided < rounds:
        if choose.random() < 0.2:
            worker.connect(store.address)
        worker.send(*(message(len(worker.sent) + i) for i in range(choose.randrange(9))))
        if choose.random() < _IDLE:
            raise Killed(BEFORE_PHASE_1)
        assert worker.prepare(), "the worker keeps to the protocol"
        if choose.random() < _IDLE:
            raise Killed(BEFORE_PHASE_2)
        worker.decide(reach=choose.random() < 0.8)
        if worker.is_cut:
            worker.connect(store.address)


def test_kills_of_one_store_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    assert sum(run(tmp_path / str(seed), seed, None) for seed in range(12)) > 6


def test_kills_between_partitions_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    assert sum(run(tmp_path / str(seed), seed, 2) for seed in range(8)) > 4


def one_partition_ahead(path: Path) -> None:
    """Kill the store between the partitions of a vote, and decide another transaction after that."""
    with Worker() as worker:
        with Store(path, 2) as store:
            worker.connect(store.address)
            worker.send(*map(message, range(5)))
            with kill_at(2), pytest.raises(ConnectionError):
                worker.prepare()
            assert store.stop()
        with Store(path, 2) as store:
            worker.connect(store.address)
            worker.send(*map(message, range(5, 9)))
            assert worker.prepare()
            worker.decide(reach=False)
        with Store(path, 2) as store:
            worker.connect(store.address)
            worker.fence()
            assert found(store.engine) == expected(worker.sent)


def test_a_vote_that_reached_some_partitions_has_no_effect(tmp_path: Path) -> None:
    one_partition_ahead(tmp_path / "store")


def test_a_vote_of_some_partitions_that_stays_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = "spout.wallaroo_state:StoredWorker.restore"
    Bug("it stays", where, "not self._certain and self._row.vote is None", "False").plant(monkeypatch)
    with pytest.raises((AssertionError, OSError)):
        one_partition_ahead(tmp_path / "store")


BUGS = [
    Bug(
        "a commit does not take its documents",
        "spout.wallaroo_state:StoredWorker.commit",
        "self._store(row, self._row.bodies)",
        "self._store(row)",
    ),
    Bug(
        "a vote does not store its messages",
        "spout.wallaroo_state:StoredWorker.prepare",
        "vote=vote, forced=False, bodies=bodies",
        "vote=vote, forced=False, bodies=()",
    ),
    Bug(
        "a session continues before its step is durable",
        "spout.wallaroo_spout:WallarooSpout._save",
        "self._changed.wait_for(lambda: self._closed or self._waiting.get(source) is not batch)",
        "self._waiting.pop(source)",
    ),
    Bug(
        "a lost decision is forgotten",
        "spout.wallaroo_state:StoredWorker.restore",
        "self._cut()",
        "self._cut(); self._row = WorkerRow(self.prepared)",
    ),
]


PARTITIONED_BUGS = [
    Bug(
        "a step does not count",
        "spout.wallaroo_state:StoredWorker._store",
        "self._step if again else self._step + 1",
        "self._step",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_are_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(lambda path, seed: run(path, seed, None), tmp_path, range(12), OSError)


@pytest.mark.parametrize("bug", PARTITIONED_BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_are_found_between_partitions(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(lambda path, seed: run(path, seed, 2), tmp_path, range(30), OSError)
