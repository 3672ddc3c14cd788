"""Ids of records: repeated records change nothing, for the time of `ids=`, in any cut and over restarts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import PenstockError
from penstock.engine import open_on
from penstock.flow import recent_ids
from penstock.testing import TestEngine
from tests.flow.histories import SECOND, Clock
from tests.harness.histories import Failed, LastingStore
from tests.harness.planting import Bug, assert_found


def app_of() -> ps.App:
    app = ps.App("web")
    app.stream("s", ts="at", id="event.id", ids="40s").view("counts", key="k", reduce=ps.count())
    return app


def record(id: Any, k: str = "a") -> dict[str, Any]:
    return {"at": 1, "k": k, "event": {"id": id}}


def test_a_repeated_record_counts_as_equal_and_changes_nothing() -> None:
    with TestEngine(app_of()) as engine:
        assert str(engine.put("s", record(1), record("1"), record(1, "b"))) == "2 applied, 1 equal"
        assert str(engine.put("s", record("1"), record(2))) == "1 applied, 1 equal"
        assert engine.view("counts") == {"a": 3}
        assert engine.engine.watermarks()[0].records == 3
        engine.wait("60s")
        assert str(engine.put("s", record(1))) == "1 applied"


def test_a_record_without_an_id_is_rejected() -> None:
    with ps.open(app_of(), None) as engine:
        assert str(engine.put("s", {"at": 1, "k": "a"})).startswith("1 rejected")
        [entry] = engine.quarantine()
        assert entry.reason.startswith("no key in field 'event.id'")


def test_the_field_of_ids_is_fixed_and_their_time_is_not(store_path: Path) -> None:
    ps.open(app_of(), store_path).close()
    other = ps.App("web")
    other.stream("s", ts="at", id="event.id", ids="1h").view("counts", key="k", reduce=ps.count())
    ps.open(other, store_path).close()
    for id, message in ((None, "id was"), ("number", "id was")):
        wrong = ps.App("web")
        wrong.stream("s", ts="at", id=id).view("counts", key="k", reduce=ps.count())
        with pytest.raises(ps.DefinitionChanged, match=message):
            ps.open(wrong, store_path)


def run(seed: int) -> None:
    """Put drawn ids in drawn cuts, over restarts and failed commits, beside a dict of the slices of ids."""
    choose, clock, store = Random(seed), Clock(1000 * SECOND), LastingStore()
    app, seen, applied = app_of(), dict[int, int](), 0
    engine, _ = open_on(app, store, seed=1, clock=clock)
    for _ in range(60):
        clock.time += choose.choice((0, 0, 0, 1, 7, 10, 30)) * SECOND
        now = clock.time // (10 * SECOND)
        ids = [choose.randint(0, 60) for _ in range(choose.randint(1, 9))]
        wanted = 0
        for id in ids:
            if seen.get(id, now - 5) < now - 4:
                seen[id] = now
                wanted += 1
        if choose.random() < 0.2:
            store.fails_in = 0
            with pytest.raises(Failed):
                engine.put_many("s", [record(id) for id in ids])
            store.fails_in = -1
        if choose.random() < 0.2:
            engine.close()
            engine, _ = open_on(app, store, seed=1, clock=clock)
        counts = engine.put_many("s", [record(id) for id in ids])
        assert isinstance(counts, ps.Counts)
        assert (counts.applied, counts.equal) == (wanted, len(ids) - wanted)
        applied += wanted
    with engine.snapshot() as snap:
        assert snap.view("counts")["a"] == applied
        slices = {int.from_bytes(key[:8], "big") for key, _ in snap.reader().scan("ids:1")}
        assert len(slices) <= 5
    assert engine.check().ok


@pytest.mark.parametrize("seed", range(3))
def test_drawn_ids_agree_with_a_dict(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", range(2))
def test_a_filter_with_many_false_positives_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ids, "_LEAST", 8)
    monkeypatch.setattr(recent_ids, "_BITS", 2)
    run(seed)


BUGS = [
    Bug(
        "ids are forgotten one slice early",
        "flow.recent_ids:RecentIds._stored",
        "current - _SLICES",
        "current - _SLICES + 1",
    ),
    Bug(
        "slices are deleted early", "flow.recent_ids:RecentIds._note", "if own < current - _SLICES", "if own < current"
    ),
    Bug(
        "a positive of the filter is a repeated id",
        "flow.recent_ids:RecentIds.take",
        "fresh[maybe[self._stored(reader, pairs[maybe], current)]] = False",
        "fresh[maybe] = False",
    ),
    Bug("a restart forgets the filter", "flow.recent_ids:RecentIds.open", "self._filter.add(part)", "pass"),
    Bug("merged rows lose the older ids", "flow.recent_ids:RecentIds._note", "[*parts, pairs]", "[pairs]"),
    Bug("two equal ids of a batch are new", "flow.recent_ids:RecentIds.take", "fresh = np.zeros", "fresh = np.ones"),
]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_seeds_find(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    monkeypatch.setattr(recent_ids, "_LEAST", 8)
    monkeypatch.setattr(recent_ids, "_MERGED", 3)
    assert_found(lambda _, seed: run(seed), tmp_path, range(6), PenstockError, KeyError)
