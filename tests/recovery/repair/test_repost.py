"""Reposts: they remove the contributions of an old value, restore those of the document, and change no document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import RecordError
from penstock.recovery import Mended, Repaired
from penstock.spout import SPOUTS, UriError, opened
from penstock.views import ABSENT
from tests.recovery.damage import add_to_lane, content_of, tell, yield_otherwise

FAILS: set[Any] = set()


def shop() -> ps.App:
    """Return an app with every kind of view of users, and a table that merges patches."""
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("names", key="name", reduce=ps.count())
    users.view("oldest", key="name", value="age", reduce=ps.max())
    users.view("listed", key="name", reduce=None)
    names.view("lengths", key="value", reduce=ps.count())

    @users.view(reduce=ps.sum())
    def initials(user: dict[str, Any]) -> Iterator[Any]:
        if user["name"] in FAILS:
            raise ValueError("not this one")
        yield user["name"][0], user["age"]

    marks = app.table("marks", key="id", merge="patch")
    marks.view("pairs", key=("a", "b"), reduce=ps.count())
    return app


@pytest.fixture
def engine(place: Path | None) -> Iterator[Any]:
    FAILS.clear()
    with ps.open(shop(), place) as engine:
        names = ("Sue", "Joe", "Ann")
        engine.put_many("users", [{"id": i, "name": names[i % 3], "age": i, "ts": 7} for i in range(30)])
        engine.put_many("marks", [{"id": i, "a": i % 2, "b": i % 3} for i in range(12)])
        yield engine


def views_of(repaired: list[Repaired]) -> set[tuple[str, Any]]:
    return {(one.view, one.group) for one in repaired}


def user(i: int, name: str, **fields: Any) -> dict[str, Any]:
    return {"id": i, "name": name, "age": 90, **fields}


@pytest.mark.parametrize("ts", [None, 0, 1 << 60])
def test_it_orders_nothing_and_makes_no_document(ts: Any, engine: Any) -> None:
    before, position = engine.digest(), engine.status()["position"]
    assert engine.repost("users", user(3, "Sam"), ts=ts) == []
    assert engine.repost("users", user(3, "Sam", ts=1 << 60)) == []
    assert engine.repost("users", user(4_711, "Sam")) == []
    assert (engine.digest(), engine.status()["position"]) == (before, position)


@pytest.mark.parametrize("key", [3, 4_711])
@pytest.mark.parametrize("view", ["names", "oldest", "initials", "listed"])
def test_what_an_old_value_left_behind_goes(view: str, key: int, engine: Any) -> None:
    before = engine.digest()
    group, value = ("S", 90) if view == "initials" else ("Sam", 90)
    group = "Z" if view == "initials" else group
    tell(engine, view, [(key, group, value)], [])
    assert engine.digest() != before
    found = engine.repost("users", user(key, "Zed" if view == "initials" else "Sam"))
    whole = ("Sam", key, 0) if view == "listed" else group
    assert [one for one in found if one.view == view] == [Repaired(view, whole, found[0].old, ABSENT, Mended.RESULT)]
    assert engine.digest() == before


def test_the_groups_of_its_document_come_back(engine: Any) -> None:
    before = engine.digest()
    tell(engine, "names", [], [(3, "Sue", None)])
    tell(engine, "oldest", [], [(3, "Sue", 3)])
    tell(engine, "initials", [(8, "J", 5)], [(3, "S", 3)])
    found = views_of(engine.repost("users", user(3, "Sam")))
    assert {("names", "Sue"), ("initials", "S")} <= found
    assert ("oldest", "Sue") in found, "its tree, though the maximum stayed"
    assert ("initials", "J") not in found, "that is another document's"
    engine.repost("users", user(1, "Joe"))
    assert engine.digest() == before


def test_a_remembered_emission_that_no_longer_fits_is_replaced(engine: Any) -> None:
    before = engine.digest()
    yield_otherwise(
        engine,
        "initials",
        lambda docs: [[(g, v + 1) for g, v in pairs] if i == 6 else pairs for i, pairs in enumerate(docs)],
    )
    engine.store.core.tables["users"].forget()
    assert engine.restate("users", 6)[0].new == sum(range(0, 30, 3)) + 1, "a restatement goes by what is remembered"
    assert engine.check().told == {"initials": 1}
    [one] = engine.repost("users", user(6, "Sue"))
    assert (one.view, one.group, one.new) == ("initials", "S", sum(range(0, 30, 3)))
    assert engine.digest() == before
    assert engine.check().told == {}


def test_a_hold_is_released(engine: Any) -> None:
    with_all = engine.digest()
    FAILS.add("Kim")
    engine.put("users", user(50, "Kim", ts=7))
    assert engine.status()["views"]["initials"]["held"] == 1
    assert engine.repost("users", user(50, "Kim")) == [], "the function fails still"
    FAILS.clear()
    [one] = engine.repost("users", user(50, "any"))
    assert one == Repaired("initials", "K", ABSENT, 90)
    assert engine.status()["views"]["initials"]["held"] == 0
    with ps.open(shop(), None) as anew, engine.snapshot() as snap:
        for table in ("users", "marks"):
            anew.put_many(table, [doc for _, doc in snap.table(table).items()])
        assert engine.digest() == anew.digest() != with_all


def test_under_patch_a_value_is_applied_over_the_document(engine: Any) -> None:
    before = engine.digest()
    tell(engine, "pairs", [(5, (1, 77), None)], [])  # a=1 of the document, b=77 of an old patch
    assert views_of(engine.repost("marks", {"id": 5, "b": 77})) == {("pairs", (1, 77))}
    assert engine.digest() == before


def test_several_damages_of_several_kinds(engine: Any) -> None:
    before = engine.digest()
    add_to_lane(engine, "names", "Sue", lane=0, by=4)
    add_to_lane(engine, "initials", "S", lane=1, by=9)
    tell(engine, "oldest", [(3, "Sam", 90)], [(3, "Sue", 3)])
    tell(engine, "listed", [(3, "Sam", None)], [])
    found = engine.repost("users", user(3, "Sam"))
    wanted = {("names", "Sue"), ("initials", "S"), ("oldest", "Sam"), ("oldest", "Sue"), ("listed", ("Sam", 3, 0))}
    assert wanted <= views_of(found)
    assert engine.digest() == before
    assert engine.repost("users", user(3, "Sam")) == []


@pytest.mark.parametrize(
    ("doc", "why"),
    [
        ({"name": "Sam"}, "no key in field 'id': it is null"),
        ({"id": {}, "name": "Sam"}, "no key in field 'id'"),
        (b"{", "its JSON can't be taken"),
        (7, "no document but int"),
    ],
)
def test_what_can_t_have_been_a_document(doc: Any, why: str, engine: Any) -> None:
    before = engine.digest()
    with pytest.raises(RecordError, match=why):
        engine.repost("users", doc)
    assert engine.digest() == before


# -- in one batch with others


def test_the_wire_form(engine: Any) -> None:
    app = engine.store.core.app
    wire = {"topic": "users(id)", "ts": 0, "id": 3, "name": "Sam"}
    assert opened(app, wire) == ps.Record("users", None, {"id": 3, "name": "Sam"}, repost=True)
    assert not opened(app, wire | {"ts": False}).repost
    assert opened(app, wire | {"ts": 0.0}).repost
    before = engine.digest()
    tell(engine, "names", [(3, "Sam", None)], [])
    records = [opened(app, wire), opened(app, {"topic": "users", "ts": 0, "name": "Sam"})]
    counts = engine.ingest(records, "file:a", 2)
    assert (counts.equal, counts.rejected) == (1, 1)
    assert "no key in field 'id'" in counts.rejections[0].reason
    assert engine.digest() == before
    with engine.snapshot() as snap:
        assert snap.sources == {"file:a": 2}


def delivered(engine: Any, path: Path, *wires: Any) -> list[ps.Counts]:
    """Load records in the wire form from a file. Return the counts of each batch."""
    with path.open("a") as file:
        file.writelines((wire if isinstance(wire, str) else json.dumps(wire)) + "\n" for wire in wires)
    spout = SPOUTS.open(f"file:{path}?envelope=topic", "users")
    with engine.snapshot() as snap:
        spout.begin(snap.remembered)
    out: list[ps.Counts] = []
    while (batch := spout.next_batch(100)) is not None:
        out += [counts for _, counts in engine.load("users", [batch])]
        spout.committed(batch)
    spout.close()
    return out


def test_a_spout_of_the_wire_form(engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    tell(engine, "names", [(3, "Sam", None)], [])
    first = delivered(
        engine,
        path,
        {"topic": "users(id)", "ts": 9, "id": 3, "name": "Kim", "age": 4},
        {"topic": "users", "ts": 0, "id": 3, "name": "Sam"},
        {"topic": "marks(id)", "id": 77, "a": 1, "b": 2},
        {"topic": "nobody", "id": 1},
        "",
        {"id": 5},
        "{",
    )
    total = sum(first, ps.Counts())
    assert (total.applied, total.equal, total.rejected) == (2, 1, 3)
    assert sorted(r.where.rpartition(" ")[2] for r in total.rejections) == ["4", "6", "7"]
    assert any("there is no table named 'nobody'" in r.reason for r in total.rejections), total.rejections
    with engine.snapshot() as snap:
        assert snap.view("names").get("Sam") is None, "what the posted value left behind is gone"
        assert (snap.table("users")[3]["name"], snap.table("marks")[77]) == ("Kim", {"id": 77, "a": 1, "b": 2})
        assert snap.table("users")[3]["ts"] == 9
    assert engine.check().ok
    assert delivered(engine, path) == [], "the file goes on where it stood"
    [more] = delivered(engine, path, {"topic": "users", "ts": 0, "id": 3, "name": "Kim"})
    assert str(more) == "1 equal"


def test_what_no_envelope_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n")
    for uri, why in (
        (f"file:{tmp_path}/a.csv?envelope=topic", "JSON lines"),
        ("file:a?envelope=all", "no envelope 'all'"),
    ):
        with pytest.raises(UriError, match=why):
            SPOUTS.open(uri, "users")


def test_it_is_done_before_the_documents_that_come_with_it(engine: Any) -> None:
    tell(engine, "names", [(3, "Sam", None)], [])
    records = [
        ps.Record("users", 3, user(3, "Sam", ts=8), offset=0),
        ps.Record("users", None, {"id": 3, "name": "Sam"}, offset=1, repost=True),
    ]
    assert str(engine.ingest(records, "file:a", 2)) == "1 applied, 1 equal"
    with engine.snapshot() as snap:
        assert snap.view("names")["Sam"] == 1
    assert engine.check().ok
    tell(engine, "names", [(9, "Sam", None)], [])
    assert engine.ingest(records, "file:a", 2).late == 2, "delivered again, it is done already"
    with engine.snapshot() as snap:
        assert snap.view("names")["Sam"] == 2


def test_one_scan_serves_all_values_of_a_call(engine: Any) -> None:
    passed: list[int] = []
    for i in range(6):
        tell(engine, "names", [(i, f"Sam{i}", None)], [])
    values = [user(i, f"Sam{i}") for i in range(6)]
    engine.repost_many({"users": values}, progress=lambda done, total: passed.append(done))
    one: list[int] = []
    engine.repost("users", values[0], progress=lambda done, total: one.append(done))
    assert len(passed) <= len(one) + 4, "and the views on a view that changed"
    assert engine.check().ok


def test_tickets_are_waited_for(tmp_path: Path) -> None:
    with ps.open(shop(), tmp_path / "state", durability="group") as engine:
        engine.put_many("users", [user(i, "Sue", ts=1) for i in range(20)])
        assert engine.repost("users", user(3, "Sue")) == []
        assert engine.restate("users") == []
        with engine.snapshot() as snap:
            assert snap.view("names")["Sue"] == 20


def test_a_store_that_is_right_is_not_written_to() -> None:
    FAILS.clear()
    with ps.open(shop(), None) as engine:
        engine.put_many("users", [user(i, "Sue", ts=1) for i in range(20)])
        engine.store.core.ready()
        before = content_of(engine)
        for doc in (user(3, "Sam"), user(3, "Sue"), user(99, "Sue")):
            assert engine.repost("users", doc) == []
        assert content_of(engine) == before


def test_what_named_no_table_of_the_app_is_taken_once_it_does(engine: Any, tmp_path: Path) -> None:
    """A retry puts a record into the table that the record names, never into the default table of its source."""
    wires: list[dict[str, Any]] = [
        {"topic": "users(name)", "ts": 3, "id": 1, "name": "Sue", "age": 1},
        {"topic": "marks(id)", "ts": 0, "a": 3},
        {"topic": "nobody", "id": 2, "ts": 3},
        {"id": 3, "name": "Joe", "ts": 3},
    ]
    before = engine.digest()
    [counts] = delivered(engine, tmp_path / "wire.jsonl", *wires)
    assert counts.rejected == 4
    entries = list(engine.quarantine("record"))
    assert [(own.table, own.key, own.document) for own in entries] == [("users", None, None)] * 4
    assert [json.loads(own.data) for own in entries] == wires
    settled = engine.retry(kind="record")
    assert (settled.applied, settled.left) == (0, 4)
    assert sorted(left.reason[:30] for left in settled.why) == [
        "it names no table; write it as",
        "it posts an old value, which t",
        "its topic 'users(name)' names ",
        "there is no table named 'nobod",
    ]
    assert engine.digest() == before, "nothing of that was taken as a document of users"
    assert engine.drop(kind="record").dropped == 4
