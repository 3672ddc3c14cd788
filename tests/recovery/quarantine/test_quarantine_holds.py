"""Documents that a view cannot accept and groups on which a reducer fails:

listed with their error, retried, dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine import writer
from tests.recovery.quarantine.held_worlds import Fails, rows, shown, world

GOOD = {"id": 1, "name": "a", "v": 4, "w": 2}
BAD = {"id": 1, "name": "b", "v": 5, "w": 4, "bad": True}


@pytest.fixture
def fails() -> Fails:
    return Fails()


@pytest.fixture
def engine(place: Path | None, fails: Fails) -> Iterator[ps.Engine]:
    with ps.open(world(fails, fails), place) as opened:
        opened.put("docs", GOOD)
        opened.put("docs", BAD)
        yield opened


def entries(engine: ps.Engine, **asked: Any) -> list[ps.Quarantined]:
    return list(engine.quarantine(**asked))


def test_a_held_document_is_shown_with_all_there_is(engine: ps.Engine) -> None:
    [entry] = entries(engine, view="names")
    assert (entry.kind, entry.table, entry.view, entry.key) == (ps.QuarantineKind.DOCUMENT, "docs", "names", 1)
    assert entry.reason == "RuntimeError: 1 is bad"
    assert "held_worlds.py" in entry.traceback
    assert "RuntimeError: 1 is bad" in entry.traceback
    assert entry.document == BAD
    assert entry.told == (("a", None), ("aa", None))
    assert [e.id for e in entries(engine, ids=entry.id)] == [entry.id]
    assert {e.view for e in entries(engine, kind="document")} == {"names", "tree", "index"}
    assert [e.view for e in entries(engine, kind="document", limit=2)] == ["names", "tree"]
    assert entries(engine, table="merged") == []


def test_a_held_row_of_a_view_of_a_view_is_shown(engine: ps.Engine, fails: Fails) -> None:
    engine.put("docs", {"id": 2, "name": "a", "v": 1})
    entry, other = entries(engine, view="lengths")
    assert (entry.key, entry.document, entry.told) == ("a", {"key": "a", "value": 2}, ((1, 1),))
    fails.now = False
    assert engine.retry(entry.id).released == 1
    assert shown(engine, "lengths") == {1: 2, 2: 1}
    assert entries(engine, view="lengths") == [other]


def test_a_held_group_is_shown_with_its_last_good_result(engine: ps.Engine) -> None:
    engine.put("docs", {"id": 2, "name": "b", "v": 1, "w": 3})
    owed, longest = entries(engine, kind="group")
    assert (owed.view, owed.key, owed.result) == ("owed", "b", {"own": 4, "n": 1})
    assert owed.reason == "ValueError: 3 is odd"
    assert (longest.view, longest.key, longest.result) == ("longest", "b", "4")
    assert owed.document is None
    with engine.snapshot() as snap:
        assert snap.view("owed").row("b").held


def test_retry_takes_the_current_document(engine: ps.Engine, fails: Fails) -> None:
    assert engine.retry(view="names").left == 1
    assert shown(engine, "names") == {"a": 1, "aa": 1}
    engine.put("docs", {**BAD, "name": "c"})
    fails.now = False
    settled = engine.retry(kind="document")
    assert (settled.released, settled.left) == (3, 0)
    assert shown(engine, "names") == {"c": 1, "cc": 1}
    assert shown(engine, "tree") == {"c": {"n": 1, "top": [5]}}
    assert entries(engine) == []
    engine.delete("docs", 1)
    assert all(not rows(engine, view) for view in ("names", "tree", "index", "lengths"))


def test_a_retry_tells_no_other_view(place: Path | None) -> None:
    calls: list[str] = []
    bad = Fails()
    app = ps.App("once")
    table = app.table("docs", key="id")

    @table.view(reduce=ps.count())
    def one(doc: dict[str, Any]) -> Iterator[Any]:
        calls.append("one")
        if bad.now:
            raise ValueError("no")
        yield doc["id"]

    @table.view(reduce=ps.count())
    def other(doc: dict[str, Any]) -> Iterator[Any]:
        calls.append("other")
        yield doc["id"], len(calls)

    with ps.open(app, place) as engine:
        engine.put_many("docs", [{"id": i} for i in range(5)])
        before = rows(engine, "other")
        calls.clear()
        bad.now = False
        assert engine.retry().released == 5
        assert calls == ["one"] * 5
        assert rows(engine, "other") == before
        assert shown(engine, "one") == dict.fromkeys(range(5), 1)
        engine.put_many("docs", [{"id": i, "n": 1} for i in range(5)])
        assert shown(engine, "other") == dict.fromkeys(range(5), 1)


def test_retry_reaches_only_what_is_asked(engine: ps.Engine, fails: Fails) -> None:
    fails.now = False
    assert engine.retry(view="tree").released == 1
    assert {e.view for e in entries(engine)} == {"names", "index"}
    [first, second] = entries(engine)
    assert engine.retry([second.id, first.id]).released == 2


def test_a_retried_group_shows_what_it_should(engine: ps.Engine, fails: Fails) -> None:
    engine.put_many("docs", [{"id": 2, "name": "b", "v": 1, "w": 3}, {"id": 3, "name": "c", "v": 1, "w": 3}])
    left = engine.retry(kind="group")
    assert (left.left, left.released) == (3, 0) or left.left == len(left.why)
    fails.now = False
    settled = engine.retry(kind="group")
    assert settled.left == 0
    assert settled.released == left.left
    assert shown(engine, "owed") == {"b": {"own": 7, "n": 2}, "c": {"own": 3, "n": 1}}
    assert shown(engine, "longest") == {"b": "4", "c": "3"}
    assert engine.status()["views"]["owed"]["held_groups"] == 0
    assert not entries(engine, kind="group")


def test_a_large_tree_whose_reducer_failed_is_retried(place: Path | None, fails: Fails) -> None:
    with ps.open(world(fails, fails), place) as engine:
        engine.put_many("docs", [{"id": i, "name": "b", "v": 1, "w": i} for i in range(300)])
        assert {e.view for e in entries(engine)} == {"owed", "longest"}
        fails.now = False
        assert engine.retry().released == 2
        assert shown(engine, "longest") == {"b": "99"}
        assert shown(engine, "owed")["b"]["own"] == sum(range(300))


def test_a_group_can_not_be_dropped(engine: ps.Engine) -> None:
    engine.put("docs", {"id": 2, "name": "b", "v": 1, "w": 3})
    before = engine.digest()
    settled = engine.drop(kind="group")
    assert (settled.dropped, settled.left) == (0, 2)
    assert "can't be dropped" in settled.why[0].reason
    assert engine.digest() == before


def test_dropping_takes_back_what_was_told(engine: ps.Engine) -> None:
    settled = engine.drop(kind="document")
    assert (settled.dropped, settled.left) == (3, 0)
    assert shown(engine, "names") == shown(engine, "tree") == shown(engine, "index") == shown(engine, "lengths") == {}
    assert entries(engine) == []
    resting = entries(engine, resting=True)
    assert [(e.view, e.resting, e.told, e.document) for e in resting] == [
        (view, True, (), BAD) for view in ("names", "tree", "index")
    ]
    about = engine.status()["views"]["names"]
    assert (about["held"], about["resting"], about["holds"]) == (0, 1, [])
    assert engine.drop(kind="document").entries == 0


@pytest.mark.parametrize("again", ["put", "delete", "bad", "retry"])
def test_what_rests_ends_with_the_next_version(place: Path | None, fails: Fails, again: str) -> None:
    with ps.open(world(fails, fails), place) as engine:
        engine.put_many("docs", [GOOD, {"id": 7, "name": "a", "v": 4, "w": 2}])
        engine.put_many("docs", [BAD, {**BAD, "id": 9}])
        engine.drop(kind="document")
        if again == "put":
            engine.put("docs", {**GOOD, "v": 6})
            assert shown(engine, "names") == {"a": 2, "aa": 2}
        elif again == "delete":
            engine.delete("docs", 1)
            assert shown(engine, "names") == {"a": 1, "aa": 1}
        elif again == "bad":
            engine.put("docs", {**BAD, "v": 8})
            assert [(e.key, e.told) for e in entries(engine, view="names")] == [(1, ())]
            assert shown(engine, "names") == {"a": 1, "aa": 1}
        else:
            fails.now = False
            ids = [e.id for e in entries(engine, resting=True)]
            assert engine.retry(ids).released == 6
            assert shown(engine, "names") == {"a": 1, "aa": 1, "b": 2, "bb": 2}
        left = {e.key for e in entries(engine, resting=True, view="names")}
        assert left == {"put": {9}, "delete": {9}, "bad": {1, 9}, "retry": set()}[again]


def test_field_views_drop_and_release(place: Path | None, fails: Fails) -> None:
    with ps.open(world(fails, fails), place) as engine:
        engine.put_many("docs", [{"id": i, "name": "a", "v": i, "w": 2} for i in range(6)])
        engine.put_many("docs", [{"id": i, "name": "b", "v": "many", "w": 2} for i in (0, 5)])
        assert shown(engine, "sums") == {"a": {"total": 15, "n": 6}}
        held = {(e.view, e.key) for e in entries(engine, kind="document") if e.view != "lengths"}
        assert held == {("sums", 0), ("sums", 5), ("tops", 5)}
        [five] = entries(engine, view="tops")
        assert "reads 'v' as a number" in five.reason
        assert engine.retry(view="sums").left == 2
        assert engine.drop(view="sums").dropped == 2
        assert shown(engine, "sums") == {"a": {"total": 10, "n": 4}}
        assert engine.drop(five.id).dropped == 1
        assert shown(engine, "tops") == {"a": {"most": 4, "total": 7}}
        engine.put_many("docs", [{"id": 0, "name": "b", "v": "more", "w": 2}, {"id": 5, "name": "c", "v": 1, "w": 2}])
        assert shown(engine, "sums") == {"a": {"total": 10, "n": 4}, "c": {"total": 1, "n": 1}}
        assert shown(engine, "tops") == {"a": {"most": 4, "total": 7}, "c": {"most": 1, "total": 1}}
        engine.delete("docs", 0)
        assert shown(engine, "sums") == {"a": {"total": 10, "n": 4}, "c": {"total": 1, "n": 1}}


def test_a_patched_document_is_retried(place: Path | None, fails: Fails) -> None:
    with ps.open(world(fails, fails), place) as engine:
        engine.put("merged", {"id": 1, "name": "a", "ts": 1})
        engine.put("merged", {"id": 1, "bad": True, "ts": 2})
        engine.put("merged", {"id": 1, "name": "b", "ts": 3})
        assert shown(engine, "patches") == {"a": 1}
        fails.now = False
        assert engine.retry().released == 1
        assert shown(engine, "patches") == {"b": 1}


def test_all_of_it_survives_reopening(store_path: Path, fails: Fails) -> None:
    with ps.open(world(fails, fails), store_path) as engine:
        engine.put_many("docs", [{**GOOD, "id": i} for i in range(4)])
        engine.put_many("docs", [{**BAD, "id": i} for i in range(4)])
        before = entries(engine)
        engine.drop([e.id for e in before if e.key == 2])
    with ps.open(world(fails, fails), store_path) as engine:
        assert entries(engine) == [e for e in before if e.key != 2]
        assert {e.key for e in entries(engine, resting=True) if e.resting} == {2}
        fails.now = False
        assert engine.retry(kind="document").released == 9
    with ps.open(world(fails, fails), store_path) as engine:
        assert shown(engine, "names") == {"b": 3, "bb": 3}
        engine.put("docs", {**GOOD, "id": 2})
        assert shown(engine, "names") == {"a": 1, "aa": 1, "b": 3, "bb": 3}
        assert entries(engine, resting=True) == []


def test_through_the_process_that_holds_the_store(store_path: Path, fails: Fails) -> None:
    with ps.open(world(fails, fails), store_path) as engine, writer(store_path, engine.store.core.app) as client:
        assert client.holder is not None
        engine.put_many("docs", [GOOD, {**BAD, "id": 2}, b"no"])
        steps: list[tuple[int, int]] = []
        settled = client.retry(progress=lambda done, total: steps.append((done, total)))
        assert (settled.left, len(settled.why)) == (4, 4)
        assert steps[-1] == (4, 4)
        assert client.drop(kind="record").dropped == 1
        fails.now = False
        assert client.retry([e.id for e in entries(engine, view="names")]).released == 1
        with pytest.raises(ps.PenstockError, match="give it ids"):
            client.drop()


def test_the_feed_tells_what_a_retry_changes(engine: ps.Engine, fails: Fails) -> None:
    with engine.snapshot() as snap:
        since = snap.position
    fails.now = False
    engine.retry(view="names")
    seen = [(c.group, c.old, c.new) for c in engine.changes("names", since=since)]
    absent = ps.ABSENT
    assert sorted(seen, key=lambda change: str(change[0])) == [
        ("a", 1, absent),
        ("aa", 1, absent),
        ("b", absent, 1),
        ("bb", absent, 1),
    ]


def test_counts_are_in_the_status(engine: ps.Engine) -> None:
    engine.put_many("docs", [b"no", {"id": 2, "name": "b", "v": 1, "w": 3}])
    status = engine.status()
    assert status["tables"]["docs"]["quarantined"] == status["tables"]["docs"]["rejected"] == 1
    views = status["views"]
    assert {n: v["held"] for n, v in views.items() if v["held"]} == {"names": 1, "tree": 1, "index": 1}
    assert {n: v["held_groups"] for n, v in views.items() if v["held_groups"]} == {"owed": 1, "longest": 1}
