"""Previews: they show the effect of another app on a store before the store changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.engine import open_on
from penstock.generations import preview, preview_sample
from penstock.spout import Record
from penstock.views import Kind, Preview, Sampled
from tests.generations.app_pair import CHANGED, DROPPED, NEW, Moving, first, second, shown
from tests.generations.changing import DOCS, Half, Store, by, cut, reduced, with_lengths
from tests.harness.histories import LastingStore


def rows(found: Preview) -> dict[str, dict[Any, tuple[Any, Any]]]:
    """Return the rows of a preview by view and group."""
    out: dict[str, dict[Any, tuple[Any, Any]]] = {}
    for one in found.sample:
        out.setdefault(one.view, {})[one.group] = one.old, one.new
    return out


@pytest.fixture
def sampled() -> Iterator[None]:
    """Limit the sample to a part of the documents."""
    with mock.patch.multiple(preview_sample, _SAMPLE=4, _PLACES=2):
        yield


def test_nothing_to_change() -> None:
    store = Store(by("name"))
    assert store.engine.preview(_app(by("name"))) == Preview(())


def _app(*definitions: Any) -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id")
    for define in definitions:
        define(users)
    return app


def test_of_few_documents_rows_are_those_that_come() -> None:
    store = Store(with_lengths(cut(3)))
    before, position = store.engine.digest(), store.core.state.position
    found = store.engine.preview(_app(with_lengths(cut(1))))
    assert [(c.view, c.kind) for c in found.changes] == [("names", Kind.CHANGED), ("lengths", Kind.FOLLOWS)]
    assert (found.documents, found.rows, found.groups, found.sampled, found.all) == (6, 0, 5, 6, True)
    assert found.seconds > 0
    assert rows(found) == {
        "names": {"B": (ps.ABSENT, 1), "Bob": (1, ps.ABSENT), "J": (ps.ABSENT, 2)},
        "lengths": {1: (ps.ABSENT, 6), 3: (6, ps.ABSENT)},
    }
    assert (store.engine.digest(), store.core.state.position) == (before, position)
    assert store.core.build is None


def test_of_many_both_sides_are_of_the_sample_alone(sampled: None) -> None:
    store = Store(with_lengths(cut(3)))
    found = store.engine.preview(_app(with_lengths(cut(1))))
    assert (found.all, found.sampled) == (False, 4)
    names = rows(found)["names"]
    assert all(old in (1, 2, ps.ABSENT) and new in (1, 2, 3, ps.ABSENT) for old, new in names.values())
    assert {group for group, (old, _) in names.items() if old is not ps.ABSENT} <= {"Sue", "Joe", "Sam", "Bob"}
    assert rows(found)["lengths"] == {1: (ps.ABSENT, 4), 3: (4, ps.ABSENT)}, "of 4 documents, by the same code"


def test_what_is_remembered_stands_for_code_that_is_gone(sampled: None) -> None:
    """The document's emission comes from code that is in no app now."""
    store = Store(cut(2))
    found = store.engine.preview(_app(reduced(ps.max())))
    old = {group for group, (before, _) in rows(found)["names"].items() if before is not ps.ABSENT}
    assert old <= {"Su", "Jo", "Sa", "Bo"}
    assert old


def test_a_reducer_whose_code_is_gone_shows_no_former_rows(sampled: None, tmp_path: Path) -> None:
    grouped = reduced(ps.group(Half()))
    with ps.open(_app(grouped), tmp_path / "s") as engine:
        engine.put_many("users", DOCS)
    with ps.open(_app(), tmp_path / "s", readonly=True) as reader:
        found = reader.preview(_app(reduced(ps.sum())))
        assert found.changes[0].kind is Kind.CHANGED
        assert rows(found) == {}
        again = reader.preview(_app(grouped, lambda users: by("id")(_Named(users))))
        assert set(rows(again)) == {"other"}, "the other one stays"


class _Named:
    """A proxy for a table that gives another name to the view defined on it."""

    def __init__(self, users: ps.Table) -> None:
        self._users = users

    def view(self, _: str, **how: Any) -> Any:
        return self._users.view("other", **how)


def test_new_and_dropped_views() -> None:
    store = Store(by("name"))
    found = store.engine.preview(_app(lambda users: by("id")(_Named(users))))
    assert [(c.view, c.kind) for c in found.changes] == [("other", Kind.NEW), ("names", Kind.DROPPED)]
    assert rows(found)["names"]["Bob"] == (1, ps.ABSENT)
    assert rows(found)["other"] == {0: (ps.ABSENT, 1), 1: (ps.ABSENT, 1), 2: (ps.ABSENT, 1)}


def test_documents_that_could_not_be_taken() -> None:
    def strict(users: ps.Table) -> object:
        @users.view("names", reduce=ps.count())
        def names(user: Any) -> Iterator[Any]:
            yield 1 // user["n"]

        return names

    found = Store(by("name")).engine.preview(_app(strict))
    assert found.held == {"names": (1, "ZeroDivisionError: integer division or modulo by zero")}


def test_a_table_that_changed_is_refused() -> None:
    app = ps.App("shop")
    app.table("users", key="name")
    with pytest.raises(ps.DefinitionChanged, match="'users'"):
        Store(by("name")).engine.preview(app)


@pytest.mark.parametrize("many", [False, True])
def test_everything_at_once(many: bool) -> None:
    """A preview of all documents agrees with a build. A preview of a sample has something of every view."""
    records = [
        [Record("users", i, {"id": i, "g": "SueJoe"[i % 6 :][:3], "h": i % 2, "v": i, "ts": i}) for i in range(9)],
        [Record("orders", i, {"id": i, "g": "Bob", "v": i - 2}) for i in range(5)],
        [Record("plain", i, {"id": i, "g": "x", "tags": ["a", "b"][: i % 3], "v": i}) for i in range(7)],
        [Record("few", i, {"id": i, "g": "x", "h": i % 3, "v": i, "ts": 1}) for i in range(4)],
        [Record("orders", 1, None), Record("plain", 2, None), Record("users", 3, None, 99)],
    ]
    moving = Moving(records)
    names = [*CHANGED, *DROPPED]
    old = {name: {key: value for key, value, _ in found} for name, found in shown(moving.engine, names).items()}
    shows = mock.patch.object(preview, "_ROWS", 1_000)
    with shows, mock.patch.multiple(preview_sample, _SAMPLE=4 if many else 1_000, _PLACES=2):
        found = moving.engine.preview(second())
    assert {change.view for change in found.changes} == {*CHANGED, *NEW, *DROPPED}
    assert found.all is not many
    assert found.rows == len(shown(moving.engine, ["same"])["same"]), "of which another view is made"
    if many:
        return
    moving.open()
    moving.finish()
    new = {name: {k: v for k, v, _ in own} for name, own in shown(moving.engine, [*CHANGED, *NEW]).items()}
    for one in found.sample:
        assert one.old == old.get(one.view, {}).get(one.group, ps.ABSENT), one
        assert one.new == new.get(one.view, {}).get(one.group, ps.ABSENT), one
    differing = {
        (name, group)
        for name in {*old, *new}
        for group in {**old.get(name, {}), **new.get(name, {})}
        if old.get(name, {}).get(group, ps.ABSENT) != new.get(name, {}).get(group, ps.ABSENT)
    }
    assert {(one.view, one.group) for one in found.sample} == differing


def test_of_a_store_on_its_way() -> None:
    store = LastingStore()
    engine, _ = open_on(first(), store)
    engine.put_many("plain", [{"id": 1, "g": "x"}])
    engine, core = open_on(second(), store)
    assert core.build is not None
    kinds = {change.view: change.kind for change in engine.preview(second()).changes}
    assert kinds["listed"] is Kind.CHANGED
    back = {change.view: change.kind for change in engine.preview(first()).changes}
    assert back["listed"] is Kind.FOLLOWS
    assert back["fresh"] is Kind.DROPPED
    assert isinstance(Sampled("v", 1, 2, 3), Sampled)
