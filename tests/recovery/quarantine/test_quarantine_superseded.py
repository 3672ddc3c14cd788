"""Rejected records of a table without ts: a retry applies them only if no later record of their key was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.cache import Limits
from penstock.engine import open_engine
from tests.recovery.quarantine.test_quarantine_records import PLAIN, app, entries, names, plant


@pytest.fixture
def engine(place: Path | None) -> Iterator[ps.Engine]:
    with ps.open(app(), place) as opened:
        yield opened


def overwritten(engine: ps.Engine) -> None:
    engine.put(PLAIN, {"id": 1, "name": "now"})


def taken_back(engine: ps.Engine) -> None:
    engine.put(PLAIN, {"id": 1, "name": "now"})
    engine.put(PLAIN, {"id": 1, "name": "before"})


def deleted(engine: ps.Engine) -> None:
    engine.delete(PLAIN, 1)


def nothing(engine: ps.Engine) -> None:
    engine.put(PLAIN, {"id": 3, "name": "other"})


def many(engine: ps.Engine) -> None:
    for n in range(40):
        engine.put_many(PLAIN, [{"id": i, "name": f"n{n}"} for i in range(10, 30)])


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize(
    ("since", "wins"),
    [(overwritten, False), (taken_back, False), (deleted, False), (nothing, True), (many, True)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_without_ts_a_record_is_taken_if_its_key_is_unwritten(
    place: Path | None, since: Callable[[ps.Engine], None], wins: bool, compacted: bool
) -> None:
    with ps.open(app(), place) as engine:
        engine.put_many(PLAIN, [{"id": 1, "name": "before"}, {"id": 2, "name": "two"}])
        plant(engine, PLAIN, {"id": 1, "name": "planted"})
        since(engine)
        for _ in range(2 * compacted):
            engine.put_many(PLAIN, [{"id": 99, "name": "a"}, {"id": 98, "name": "b"}])
            engine.put_many(PLAIN, [{"id": 99, "name": "c"}, {"id": 98, "name": "d"}])
            engine.compact()
        settled = engine.retry()
        assert (settled.applied, settled.left) == (int(wins), int(not wins)), settled
        assert names(engine, PLAIN).get("planted", 0) == int(wins)
        if not wins and not (compacted and since is deleted):
            assert "superseded" in settled.why[0].reason
        assert len(entries(engine)) == int(not wins)


def test_a_key_that_never_was_is_taken_without_ts(place: Path | None) -> None:
    with ps.open(app(), place) as engine:
        plant(engine, PLAIN, {"id": 1, "name": "first"}, {"id": "text", "name": "Sue"}, {"id": 1, "name": "last"})
        many(engine)
        assert engine.retry().applied == 3
        assert {n: c for n, c in names(engine, PLAIN).items() if not n.startswith("n")} == {"last": 1, "Sue": 1}


def test_of_several_the_last_wins_however_many_steps(engine: ps.Engine) -> None:
    for n in range(3):
        plant(engine, PLAIN, *({"id": i, "name": f"v{n}"} for i in range(700)))
    engine.retry()
    assert names(engine, PLAIN) == {"v2": 700}


def test_the_number_before_is_noted_only_while_it_is_needed(store_path: Path) -> None:
    limits = Limits(fold_least=16, space=1.1, entries=4)
    with open_engine(app(), store_path, limits=limits) as engine:
        engine.put(PLAIN, {"id": 1, "name": "before"})
        plant(engine, PLAIN, {"id": 1, "name": "planted"})
        moved = f"moved:{engine.store.core.tables[PLAIN].number}"
        for _ in range(3):
            many(engine)
        with engine.snapshot() as snap:
            assert snap.reader().count(moved)
        assert engine.retry().applied == 1
        for _ in range(3):
            many(engine)
        engine.compact()
        with engine.snapshot() as snap:
            assert snap.reader().count(moved) == 0
