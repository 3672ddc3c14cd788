"""Views with changed definitions: other work during a build, and the calls that are refused."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.cache import MemoryStore
from penstock.engine import open_on
from penstock.generations.build import build_small_change
from penstock.spout import Record
from penstock.views import Kind
from tests.generations.app_pair import CHANGED, DROPPED, NEW, SAME, Moving, first, followed, second, shown
from tests.generations.changing import LETTERS, Define, Store, app_of, by, cut, with_lengths
from tests.harness.histories import Failed, LastingStore

# -- other work during a build


def test_compacting_and_repairs_wait_for_what_is_being_built() -> None:
    for work in (
        lambda engine: engine.compact(),
        lambda engine: engine.restate("names"),
        lambda engine: engine.check(),
    ):
        store = Store(by("name"))
        store.open(by("id"))
        work(store.engine)
        assert store.core.build is None
        assert store.view("names") == dict.fromkeys(range(6), 1)


def test_nothing_is_compacted_while_views_are_built() -> None:
    docs = [[Record("users", i % 7, {"id": i % 7, "g": "Sue", "v": i, "ts": i}) for i in range(4)]]
    moving = Moving(docs)
    moving.open()
    head = moving.core.tables["users"].log.head
    for ts in range(10, 60):
        moving.take([Record("users", ts % 7, {"id": ts % 7, "g": "Joe", "v": ts, "ts": ts})])
    assert moving.core.tables["users"].log.head == head, "records would get other numbers"
    moving.finish()
    moving.take([Record("users", 1, {"id": 1, "g": "Joe", "v": 1, "ts": 99})])
    assert moving.core.tables["users"].log.head > head
    moving.check()


def test_a_step_that_fails_is_made_again() -> None:
    store = Store(with_lengths(by("name")))
    store.open(with_lengths(cut(1)))
    done = False
    while not done:
        store.store.fails_in = 0
        with pytest.raises(Failed):
            store.core.build_step(1)
        store.store.fails_in = -1
        done = not store.core.build_step(1)
    assert store.view("names") == LETTERS
    assert store.view("lengths") == {1: 6}


def test_everything_at_once() -> None:
    records = [
        [Record("users", i, {"id": i, "g": "SueJoe"[i % 6 :][:3], "h": i % 2, "v": i, "ts": i}) for i in range(9)],
        [Record("orders", i, {"id": i, "g": "Bob", "v": i - 2}) for i in range(5)],
        [Record("plain", i, {"id": i, "g": "x", "tags": ["a", "b"][: i % 3], "v": i}) for i in range(7)],
        [Record("few", i, {"id": i, "g": "x", "h": i % 3, "v": i, "ts": 1}) for i in range(4)],
    ]
    moving = Moving(records)
    before = shown(moving.engine, [*CHANGED, *DROPPED])
    same = shown(moving.engine, SAME)
    with moving.engine.snapshot() as snap:
        start = snap.position
        rows = {(name, row.key): row.value for name in snap.schema.views for row in snap.view(name)}
    moving.open()
    assert set(moving.engine.status()["building"]["views"]) == {*CHANGED, *NEW, *DROPPED}
    while moving.core.build is not None:
        assert shown(moving.engine, [*CHANGED, *DROPPED]) == before
        moving.core.build_step(2)
    assert shown(moving.engine, SAME) == same
    moving.check()
    after = followed(moving.engine.changes(since=start), rows)
    with moving.engine.snapshot() as snap:
        assert after == {(name, row.key): row.value for name in snap.schema.views for row in snap.view(name)}


def test_build_few_leaves_many() -> None:
    app = app_of(by("name"))
    store = LastingStore()
    engine, _ = open_on(app, store)
    engine.put_many("users", [{"id": i, "name": "Sue"} for i in range(2_500)])
    engine, core = open_on(app_of(by("id")), store)
    build_small_change(core)
    assert core.build is not None
    engine.migrate()
    assert core.build is None


def test_a_memory_store_needs_no_migration() -> None:
    with ps.open(second(), None) as engine:
        assert str(engine.migrate()) == "all views are as the app has them"
    engine, core = open_on(first(), MemoryStore())
    assert core.build is None


@pytest.mark.parametrize(
    ("define", "why"),
    [
        (
            lambda users: users.view("names", key=("name", "n"), reduce=ps.count()),
            "its key was 'name' and is ('name', 'n')",
        ),
        (lambda users: users.view("names", key="name", reduce=ps.sum("n")), "its reducers were count() and are sum(n)"),
        (lambda users: users.view("names", key="name", value="n", reduce=ps.count()), "its value was none and is 'n'"),
        (
            lambda users: users.view("names", key="name", sources=True, reduce=ps.count()),
            "its sources were none and are True",
        ),
        (lambda users: users.view("names", key="name", reduce={"n": ps.count()}), "its fields were none and are ['n']"),
        (cut(1), "it was made by fields, and is by a function"),
    ],
)
def test_a_difference_is_named(define: Define, why: str) -> None:
    store = Store(by("name"))
    store.open(define)
    assert store.changed() == {"names": (Kind.CHANGED, why)}
