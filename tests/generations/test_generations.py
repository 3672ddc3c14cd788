"""Views with changed definitions: the views that are built again, and those that are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine import open_on
from penstock.views import Kind
from tests.generations.changing import DOCS, LETTERS, NAMES, Define, Store, app_of, by, cut, reduced, with_lengths
from tests.harness.histories import LastingStore


def test_the_same_app_builds_nothing() -> None:
    store = Store(with_lengths(cut(1)))
    position = store.core.state.position
    store.open(with_lengths(cut(1)))
    assert store.core.build is None
    assert store.core.state.position == position
    assert store.changed() == {}
    assert store.engine.status()["building"] is None


def test_a_changed_key() -> None:
    store = Store(by("name"))
    store.open(by("id"))
    assert store.changed()["names"][0] is Kind.CHANGED
    assert store.changed()["names"][1] == "its key was 'name' and is 'id'"
    assert store.view("names") == NAMES, "until it is complete"
    while store.core.build_step(2):
        pass
    assert store.view("names") == dict.fromkeys(range(6), 1)


def test_a_changed_value_of_a_closure() -> None:
    store = Store(cut(3))
    store.open(cut(1))
    assert store.changed() == {"names": (Kind.CHANGED, "width of its map changed")}
    store.engine.migrate()
    assert store.view("names") == LETTERS


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        (ps.sum(), {"Sue": 5, "Joe": 4, "Sam": 2, "Bob": 4}),
        (ps.max(), {"Sue": 5, "Joe": 3, "Sam": 2, "Bob": 4}),
        ({"n": ps.count(), "k": ps.distinct()}, {name: {"n": n, "k": n} for name, n in NAMES.items()}),
        (lambda values, rereduce: sum(values) if rereduce else len(values), NAMES),
    ],
)
def test_a_changed_reducer(reduce: Any, wanted: Any) -> None:
    store = Store(reduced(ps.min()))
    assert store.view("names") == {"Sue": 0, "Joe": 1, "Sam": 2, "Bob": 4}
    store.open(reduced(reduce))
    assert store.changed()["names"][0] is Kind.CHANGED
    store.engine.migrate()
    assert store.view("names") == wanted


def test_a_view_of_a_changed_view_is_built_with_it() -> None:
    store = Store(with_lengths(cut(3)))
    assert store.view("lengths") == {3: 6}
    store.open(with_lengths(cut(1)))
    assert store.changed()["lengths"] == (Kind.FOLLOWS, "it is on names")
    seen = []
    while store.core.build_step(1):
        seen.append((store.view("names") == LETTERS, store.view("lengths") == {1: 6}))
    assert store.view("lengths") == {1: 6}
    assert all(one == other for one, other in seen), "both change in one transaction"


def test_a_changed_view_of_a_view_that_stays() -> None:
    def over(wide: int) -> Define:
        def define(users: ps.Table) -> object:
            names = users.view("names", key="name", reduce=ps.count())

            @names.view("over", reduce=ps.sum())
            def over(row: ps.Row) -> Iterator[Any]:
                yield row.key[:wide], row.value

            return over

        return define

    store = Store(over(3))
    store.open(over(1))
    assert set(store.changed()) == {"over"}
    store.core.build_step(2)
    store.engine.put_many("users", [{"id": 9, "name": "Ann"}, {"id": 0, "name": "Zoe"}])  # on both sides of the cursor
    store.engine.migrate()
    assert store.view("over") == {"A": 1, "B": 1, "J": 2, "S": 2, "Z": 1}


def test_a_view_is_dropped_and_comes_again() -> None:
    store = Store(with_lengths(cut(1)))
    number = store.core.views["names"].number
    store.open(migrate="auto")
    assert {name: kind for name, (kind, _) in store.changed().items()} == dict.fromkeys(
        ("names", "lengths"), Kind.DROPPED
    )
    assert store.view("names") == LETTERS, "until it goes"
    store.engine.migrate()
    with pytest.raises(ps.UnknownName):
        store.view("names")
    with store.store.read() as reader:
        rows = [name for name in store.store.databases if name.startswith(("view:", "told:")) and reader.count(name)]
        assert rows == ["view:2", "view:3"], "the feed still tells of them"
    store.engine.put("users", {"id": 9, "name": "Ann"})
    store.open(cut(1))
    assert store.core.views["names"].number > number + 1, "another generation"
    assert store.changed() == {"names": (Kind.NEW, "")}
    store.engine.migrate()
    assert store.view("names") == {**LETTERS, "A": 1}


def test_views_of_a_table_without_documents_are_there_at_once() -> None:
    store = LastingStore()
    open_on(app_of(by("name")), store)
    engine, core = open_on(app_of(cut(1)), store)
    assert core.build is None
    engine.put_many("users", DOCS)
    with engine.snapshot() as snap:
        assert dict(snap.view("names").items()) == LETTERS


def test_few_documents_are_gone_through_while_a_store_is_opened(tmp_path: Path) -> None:
    with ps.open(app_of(by("name")), tmp_path / "s") as engine:
        engine.put_many("users", DOCS)
    with ps.open(app_of(cut(1)), tmp_path / "s") as engine, engine.snapshot() as snap:
        assert dict(snap.view("names").items()) == LETTERS
        report = engine.migrate()
    assert [change.view for change in report.changes] == ["names"]
    assert (report.told, report.groups) == (6, 7), "four groups went, and three came"


def test_a_table_may_not_change() -> None:
    store = Store(by("name"))
    app = ps.App("shop")
    app.table("users", key="id", ts="ts").view("names", key="name", reduce=ps.count())
    with pytest.raises(ps.DefinitionChanged, match=r"'users'.*ts was None.*load into a new path"):
        open_on(app, store.store)
    with pytest.raises(ps.DefinitionChanged, match="in the store and not in the app"):
        open_on(ps.App("shop"), store.store)


def test_refusing_names_the_view_the_difference_and_the_command() -> None:
    store = Store(with_lengths(cut(3)))
    wanted = r"'names': width of its map changed \(and 1 more: lengths\).*`penstock migrate`"
    with pytest.raises(ps.DefinitionChanged, match=wanted):
        store.open(with_lengths(cut(1)), migrate="refuse")
    with pytest.raises(ps.DefinitionChanged, match="'names': it is in the store and not in the app"):
        store.open(migrate="refuse")
    store.open(with_lengths(cut(3)), migrate="refuse")
    assert store.view("names") == NAMES, "and nothing was changed"
    store.open(with_lengths(cut(1)))
    store.core.build_step(2)
    with pytest.raises(ps.DefinitionChanged, match="width of its map changed"):
        store.open(with_lengths(cut(1)), migrate="refuse")  # the view is not complete


@pytest.mark.parametrize("migrate", ["", "yes", None, True])
def test_migrate_is_one_of_two_words(migrate: Any) -> None:
    with pytest.raises(ps.DefinitionError, match="migrate="):
        ps.open(app_of(by("name")), None, migrate=migrate)


def test_a_version_says_that_code_is_the_same() -> None:
    def of(version: str | None, width: int) -> Define:
        def define(users: ps.Table) -> object:
            @users.view("names", reduce=ps.count(), version=version)
            def names(user: Any) -> Iterator[Any]:
                yield user["name"][:width]

            return names

        return define

    store = Store(of("1", 3))
    store.open(of("1", 1))
    assert store.changed() == {}
    store.open(of("2", 1))
    assert store.changed() == {"names": (Kind.CHANGED, "its version was '1' and is '2'")}
    store.engine.migrate()
    assert store.view("names") == LETTERS
    store.open(of(None, 1))
    assert store.changed() == {}, "the code is that of version 2"


def test_another_app_while_views_are_built_begins_anew() -> None:
    store = Store(cut(3))
    store.open(cut(2))
    store.core.build_step(2)
    store.engine.put("users", {"id": 6, "name": "Ann"})
    store.open(cut(1))
    assert store.view("names") == NAMES
    store.core.build_step(2)
    store.open(cut(3))  # the former definition: but this view has missed a document
    assert store.changed() == {"names": (Kind.FOLLOWS, "it was left behind while another definition was built")}
    store.engine.migrate()
    assert store.view("names") == {**NAMES, "Ann": 1}
    with store.store.read() as reader:
        left = [name for name in store.store.databases if name.startswith("told:") and reader.count(name)]
    assert left == [f"told:{store.core.views['names'].number}"], "what was begun is gone"
