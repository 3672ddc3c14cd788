"""Views with changed definitions: the rows and changes that readers see during the build and after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine import open_on
from tests.generations.changing import DOCS, NAMES, Half, Store, app_of, by, cut, reduced, with_lengths
from tests.harness.histories import LastingStore
from tests.harness.worlds import TINY

# -- what readers see


def test_a_view_that_is_being_built_for_the_first_time() -> None:
    store = Store()
    store.open(by("name"))
    store.core.build_step(3)
    with store.engine.snapshot() as snap, pytest.raises(ps.PenstockError, match="'names' is being built, 50 %"):
        snap.view("names")
    with pytest.raises(ps.PenstockError, match="is being built"):
        next(store.engine.changes("names", initial=True))
    building = store.engine.status()["building"]
    assert building == {"views": ["names"], "done": 3, "total": 6, "trouble": None}
    store.engine.migrate()
    assert store.view("names") == NAMES


def test_a_view_that_gives_way_says_of_when_it_is() -> None:
    store = Store(by("name"))
    old = store.engine.snapshot()
    before = store.core.state.position
    store.open(by("id"))
    store.engine.put("users", {"id": 9, "name": "Ann"})
    with store.engine.snapshot() as snap:
        assert (snap.view("names").as_of, snap.position) == (before, before + 1)
        assert snap.view("names").get("Ann") is None
    assert store.engine.status()["views"]["names"]["as_of"] == before
    during = store.engine.snapshot()
    store.engine.migrate()
    with store.engine.snapshot() as snap:
        assert snap.view("names").as_of is None
        assert snap.view("names")[9] == 1
    for older in (old, during):
        assert dict(older.view("names").items()) == NAMES, "a snapshot keeps what it has"
        older.close()


def test_an_older_app_reads_what_the_store_has(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with ps.open(app_of(with_lengths(cut(3))), path) as engine:
        engine.put_many("users", DOCS)
        digest = engine.digest()
    with ps.open(app_of(cut(1)), path, readonly=True) as reader:
        with reader.snapshot() as snap:
            assert dict(snap.view("names").items()) == NAMES
            assert dict(snap.view("lengths").items()) == {3: 6}, "which its own app does not have"
            document = snap.stored("users", 1)
            assert document is not None
            assert [(one.view, one.pairs) for one in document.told] == [("names", (("Joe", None),))]
        assert reader.digest() == digest
        assert set(reader.status()["views"]) == {"names", "lengths"}
        with ps.open(app_of(reduced(ps.group(Half()))), path) as engine:
            engine.put("users", {"id": 9, "name": "Ann", "n": 8})
            with reader.snapshot() as snap:
                assert snap.view("names")["Ann"] == 4, "a reader goes on with what comes"
                with pytest.raises(ps.UnknownName):
                    snap.view("lengths")
            assert reader.digest() == engine.digest()


def test_documents_that_a_view_could_not_take() -> None:
    def strict(users: ps.Table) -> object:
        @users.view("names", reduce=ps.count())
        def names(user: Any) -> Iterator[Any]:
            if user["n"] == 2:
                raise ValueError("unlucky")
            yield user["name"]

        return names

    store = Store(by("name"))
    store.open(strict)
    store.core.build_step(4)
    assert store.engine.status()["views"]["names"]["held"] == 0, "of what readers see"
    store.engine.migrate()
    assert store.view("names") == {"Sue": 2, "Joe": 2, "Bob": 1}
    [hold] = store.engine.status()["views"]["names"]["holds"]
    assert (hold["key"], hold["reason"]) == (2, "ValueError: unlucky")
    store.engine.put("users", {"id": 2, "name": "Sam", "n": 3})
    assert store.view("names") == NAMES
    assert store.engine.status()["views"]["names"]["held"] == 0


def test_groups_that_a_reducer_fails_on() -> None:
    class Fussy(Half):
        def lift(self, value: Any) -> Any:
            if value == 3:
                raise ValueError("unlucky")
            return value

    store = Store(reduced(ps.sum()))
    store.open(reduced(ps.group(Fussy())))
    store.core.build_step(10)
    assert store.engine.status()["views"]["names"]["held_groups"] == 0
    store.engine.migrate()
    assert store.engine.status()["views"]["names"]["held_groups"] == 1
    with store.engine.snapshot() as snap:
        assert [row.key for row in snap.view("names") if row.held] == ["Joe"]


# -- the feed


def test_the_feed_shows_what_differs_and_nothing_else() -> None:
    store = Store(by("name"))
    position = store.core.state.position
    store.open(cut(2))
    store.engine.put("users", {"id": 6, "name": "Jo"})
    store.engine.migrate()
    switched = store.core.switched
    store.engine.put("users", {"id": 7, "name": "Sue"})
    changes = [c.data() for c in store.engine.changes("names", since=position)]
    at = [c for c in changes if c["position"] == switched]
    assert sorted((c["group"], c.get("old"), c.get("new")) for c in at) == [
        ("Bo", None, 1),
        ("Bob", 1, None),
        ("Jo", None, 3),
        ("Joe", 2, None),
        ("Sa", None, 1),
        ("Sam", 1, None),
        ("Su", None, 2),
        ("Sue", 2, None),
    ], "and not the document that came meanwhile, nor the one that came since"
    assert [c for c in changes if c not in at] == [
        {"view": "names", "group": "Su", "old": 2, "new": 3, "position": store.core.state.position}
    ]


def test_a_definition_that_gives_the_same_changes_nothing_in_the_feed() -> None:
    store = Store(by("name"))
    position = store.core.state.position
    store.open(cut(3))
    assert store.engine.migrate().groups == 0
    assert list(store.engine.changes(since=position)) == []


def test_former_rows_go_with_the_feed() -> None:
    store = LastingStore()
    engine, core = open_on(app_of(by("name")), store, TINY)
    engine.put_many("users", DOCS)
    engine, core = open_on(app_of(by("id")), store, TINY)
    core.feed._changes = 8
    while core.build_step():
        pass
    assert [former.name for former in core.catalog.former] == ["names"]
    for i in range(20):
        engine.put("users", {"id": 100 + i, "name": "Ann"})
    assert core.catalog.former == ()
    while core.build_step():
        pass
    with store.read() as reader:
        assert reader.count("view:2") == 0
    with pytest.raises(ps.PositionExpired):
        list(engine.changes(since=1))


def test_without_a_feed_former_rows_go_at_once(tmp_path: Path) -> None:
    for define in (by("name"), by("id")):
        with ps.open(app_of(define), tmp_path / "s", changes=0) as engine:
            engine.put_many("users", DOCS)
            report = engine.migrate()
            assert report.groups in (0, None)
            assert engine.store.core.catalog.former == ()
