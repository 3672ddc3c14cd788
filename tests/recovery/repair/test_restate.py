"""Restatement: it repairs and reports each kind of damage in accumulators, trees and indexes, while others write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import StoreDamaged, UnknownName, encode_key
from penstock.engine import opening
from penstock.mapreduce import emissions_db, nodes_db, rows_db
from penstock.recovery import Mended, Repaired, recomputed
from penstock.recovery.repair import repair_site
from penstock.views import ABSENT
from tests.harness.histories import Failed, LastingStore
from tests.partitions.stores import placed
from tests.recovery.damage import add_to_lane, change_payload, overwrite, tell, turn_a_bit

VIEWS = ("counted", "kept", "yielded", "listed")
MANY = 200  # contributions of a group with nodes


def shop() -> ps.App:
    """Return an app with every kind of view:

    accumulators, a tree, a function's accumulators, an index, a view of each.
    """
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    counted = users.view("counted", key="g", reduce={"n": ps.count(), "total": ps.sum("v")})
    kept = users.view("kept", key="g", value="v", reduce={"max": ps.max(), "q": ps.quantiles([0.5])})
    users.view("listed", key="g", value="v", reduce=None)

    @users.view(reduce=ps.sum())
    def yielded(user: dict[str, Any]) -> Iterator[Any]:
        yield user["g"], user["v"]

    counted.view("sizes", key="value.n", reduce=ps.count())

    @kept.view(reduce=ps.count())
    def heights(row: Any) -> Iterator[Any]:
        yield row.value["max"]

    return app


def document(i: int, **fields: Any) -> dict[str, Any]:
    """Return a user. Most are in one group, the others in a few small groups."""
    return {"id": i, "g": "all" if i < MANY else f"g{i % 7}", "v": i, "ts": 1, **fields}


@pytest.fixture
def engine(place: Path | None) -> Iterator[Any]:
    with ps.open(shop(), place) as engine:
        engine.put_many("users", [document(i) for i in range(MANY + 50)])
        yield engine


def number(engine: Any, view: str) -> int:
    return int(engine.store.core.views[view].number)


def restated(engine: Any, *asked: Any) -> dict[Any, Repaired]:
    """Return the reports of a restatement by view and group."""
    return {(one.view, one.group): one for one in engine.restate(*asked)}


# -- kinds of damage


def test_an_accumulator_that_is_off(engine: Any) -> None:
    before = engine.digest()
    add_to_lane(engine, "counted", "all", lane=0, by=5)
    found = restated(engine, "counted", "all")
    was = {"n": MANY, "total": sum(range(MANY))}
    assert found == {("counted", "all"): Repaired("counted", "all", was | {"n": MANY + 5}, was, Mended.RESULT)}
    assert engine.digest() == before


@pytest.mark.parametrize("view", ["counted", "kept", "yielded"])
@pytest.mark.parametrize("group", ["all", "g3"])
def test_a_row_that_is_lost_and_one_that_was_never_there(view: str, group: str, engine: Any) -> None:
    before, reduce = engine.digest(), engine.store.core.views[view].reduce
    with engine.snapshot() as snap:
        right = snap.view(view)[group]
        [row] = snap.reader().get_many(reduce.db, [encode_key(group)])
    overwrite(engine, reduce.db, {encode_key(group): None})
    change = reduce.codec.sealed(encode_key("nobody"), reduce.codec.decode(encode_key(group), row, ""))
    overwrite(engine, reduce.db, {encode_key("nobody"): change})
    found = restated(engine, view)
    assert found[view, group] == Repaired(view, group, ABSENT, right)
    assert (found[view, "nobody"].old, found[view, "nobody"].new) == (right, ABSENT)
    assert engine.digest() == before


@pytest.mark.parametrize("view", VIEWS)
def test_a_bit_of_a_row(view: str, engine: Any) -> None:
    before, db = engine.digest(), rows_db(number(engine, view))
    with engine.snapshot() as snap:
        rows = dict(snap.reader().scan(db))
        groups = [row.key for row in snap.view(view).items()]
    overwrite(engine, db, turn_a_bit(sorted(rows)[3], rows, Random(3)))
    with engine.snapshot() as snap, pytest.raises(StoreDamaged, match=view):
        snap.view(view)[groups[3]]
    [one] = engine.restate(view, groups[3][0] if view == "listed" else groups[3])
    assert (one.view, one.group, one.what) == (view, groups[3], Mended.UNREADABLE)
    assert engine.digest() == before


@pytest.mark.parametrize("group", ["all", "g3"])
@pytest.mark.parametrize(("view", "value"), [("kept", 999), ("yielded", 999), ("listed", 999)])
def test_a_contribution_that_is_lost_added_or_changed(view: str, value: Any, group: str, engine: Any) -> None:
    before = engine.digest()
    mine = 5 if group == "all" else next(i for i in range(MANY, MANY + 50) if f"g{i % 7}" == group)
    for plus, minus in (
        ([(7_000, group, value)], []),  # of a document that does not exist
        ([], [(mine, group, mine)]),
        ([(mine, group, value)], [(mine, group, mine)]),
    ):
        tell(engine, view, plus, minus)
        assert engine.digest() != before
        found = engine.restate(view, group)
        assert {one.view for one in found} <= {view, "heights"}
        assert any(one.view == view for one in found)
        assert engine.digest() == before, (plus, minus)


def test_a_partial_of_a_tree(engine: Any) -> None:
    before, db = engine.digest(), nodes_db(number(engine, "kept"))
    engine.put_many("users", [document(i, v=i + 1, ts=2) for i in range(MANY)])
    engine.put_many("users", [document(i, ts=3) for i in range(MANY)])
    right = engine.digest()
    engine.store.core.views["kept"].reduce.forget()
    with engine.store.core.store.write() as writer:  # write the nodes that are in the log only
        engine.store.core.views["kept"].reduce.read_node_log(writer).write_all(writer, {})
    engine.store.core.views["kept"].reduce.forget()
    assert engine.digest() == right != before

    with engine.snapshot() as snap:
        inner = [key for key, row in snap.reader().scan(db) if row[1] == 1]

    def larger(payload: list[Any]) -> list[Any]:
        columns = payload[2]
        columns[1] = b"\xff" * len(columns[1]) if isinstance(columns[1], bytes) else columns[1]
        return [payload[0], payload[1], columns]

    change_payload(engine, db, inner[0], larger)
    [one] = engine.restate("kept", "all")
    assert (one.group, one.old, one.what) == ("all", one.new, Mended.TREE)
    assert engine.digest() == right


def test_nodes_that_are_lost_or_lead_nowhere(engine: Any) -> None:
    reduce = engine.store.core.views["kept"].reduce
    with engine.store.core.store.write() as writer:
        reduce.read_node_log(writer).write_all(writer, {})
    reduce.forget()
    before, db = engine.digest(), nodes_db(reduce.number)
    with engine.snapshot() as snap:
        nodes = dict(snap.reader().scan(db))
    lost = sorted(nodes)[2]
    overwrite(engine, db, {lost: None, encode_key("nobody") + lost[-10:]: nodes[lost]})
    found = restated(engine, "kept")
    assert found["kept", "all"].what is Mended.TREE
    assert ("kept", "nobody") in found
    assert engine.digest() == before


def test_what_is_written_behind_can_t_be_read(engine: Any) -> None:
    before, db = engine.digest(), f"behind:{number(engine, 'kept')}"
    with engine.snapshot() as snap:
        rows = dict(snap.reader().scan(db))
    assert rows, "nodes are written behind"
    overwrite(engine, db, {key: row[:-1] + bytes([row[-1] ^ 1]) for key, row in rows.items()})
    found = engine.restate("kept", "g3")
    assert found, "the trees that it is of are made anew, whichever group was asked for"
    assert engine.digest() == before


def test_what_is_remembered_of_rows_that_are_gone(engine: Any) -> None:
    before, db = engine.digest(), emissions_db(number(engine, "heights"))
    tell(engine, "kept", [(7_000, "orphan", 77)], [])
    with engine.snapshot() as snap:
        assert snap.view("heights")[77] == 1
    found = restated(engine, "kept", "orphan")
    assert found["kept", "orphan"].new is ABSENT
    assert found["heights", 77] == Repaired("heights", 77, 1, ABSENT)
    with engine.snapshot() as snap:
        assert encode_key("orphan") not in dict(snap.reader().scan(db))
    assert engine.digest() == before


def test_views_on_a_view_follow_its_rows(engine: Any) -> None:
    before = engine.digest()
    tell(engine, "counted", [(7_000, "g3", {"v": 1})], [])  # the views on it get it as well
    found = restated(engine, "counted")
    assert {view for view, _ in found} == {"counted", "sizes"}
    assert engine.digest() == before


@pytest.mark.parametrize("fields", [True, False])
@pytest.mark.parametrize("partitions", [None, 2])
def test_a_view_on_a_view_takes_a_row_again_that_is_right(fields: bool, partitions: int | None) -> None:
    app = ps.App("shop")
    most = app.table("users", key="id").view("most", key="g", value="v", reduce=ps.max())
    if fields:
        most.view("sums", key=(), value="value", reduce=ps.sum())
    else:
        most.view("sums", reduce=ps.sum())(lambda row: [((), row.value * 2 // 2)])
    with placed(), ps.open(app, None, partitions=partitions) as engine:
        engine.put_many("users", [{"id": i, "g": "ab"[i % 2], "v": i} for i in range(8)])
        before = engine.digest()
        owner = engine
        if partitions is not None:
            owner = ps.Engine(engine.store.handles[engine.store.ranges.of(encode_key("a"))].engine)
        tell(owner, "most", [(7_000, "a", "more than any number")], [])
        if partitions is not None:
            engine.settle()
        assert [one.key for one in engine.quarantine(view="sums")] == ["a"]
        engine.restate("most")
        assert not list(engine.quarantine()), "it is right again, and nothing new has come"
        assert engine.digest() == before
        assert engine.restate("users") == []


def test_a_document_s_groups(engine: Any) -> None:
    before = engine.digest()
    add_to_lane(engine, "counted", "all", lane=0)
    add_to_lane(engine, "counted", "g3", lane=0)
    found = engine.restate("users", 7)
    assert [(one.view, one.group) for one in found] == [("counted", "all")], "g3 is another document's"
    assert engine.restate("users", 7) == engine.restate("users", 100_000) == []
    assert [one.group for one in engine.restate("users")] == ["g3"]
    assert engine.digest() == before


# -- reports


def test_the_feed_has_what_was_repaired(engine: Any) -> None:
    position = engine.status()["position"]
    shown = {row.key: row.value for row in engine.snapshot().view("counted").items()}
    add_to_lane(engine, "counted", "all", lane=0, by=5)
    engine.restate("counted")
    [change] = engine.changes("counted", since=position)
    assert (change.group, change.old["n"], change.new) == ("all", MANY + 5, shown["all"])
    assert change.position == position + 1 == engine.status()["position"]


@pytest.mark.parametrize(("name", "error"), [("nobody", UnknownName), ("counte", UnknownName)])
def test_a_name_that_is_none(name: str, error: type[Exception], engine: Any) -> None:
    with pytest.raises(error):
        engine.restate(name)


def test_readers_can_t(tmp_path: Path) -> None:
    path = tmp_path / "state"
    ps.open(shop(), path).close()
    with ps.open(shop(), path, readonly=True) as engine, pytest.raises(ps.ReadOnly):
        engine.restate("counted")


def test_progress_is_told(engine: Any) -> None:
    steps: list[tuple[int, int]] = []
    engine.restate("counted", "all", progress=lambda done, total: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] > 0


# -- while others write


def writing(engine: Any, monkeypatch: pytest.MonkeyPatch, work: Callable[[int], None]) -> None:
    """Let another thread write at each step of a repair's scan, where the repair has no lock."""
    real, n = repair_site.Shadow.add, iter(range(1_000_000))

    def add(self: Any, *sides: Any) -> None:
        real(self, *sides)
        if len(sides) == 1:  # from the scan; a call from a batch has two sides
            thread = threading.Thread(target=work, args=(next(n),))
            thread.start()
            thread.join()

    monkeypatch.setattr(repair_site.Shadow, "add", add)


@pytest.mark.parametrize("view", VIEWS)
def test_what_comes_meanwhile_is_kept(view: str, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if view == "counted":
        add_to_lane(engine, view, "all", lane=2)
        engine.store.core.views[view].reduce.forget()
    else:
        tell(engine, view, [(7_000, "all", 5)], [])

    def work(n: int) -> None:
        engine.put_many("users", [document(i, v=i + n, g="g1", ts=2 + n) for i in range(0, MANY, 3)])
        engine.put_many("users", [document(10_000 + n, g="all", ts=1)])
        engine.delete("users", MANY - 1 - n, ts=50)

    writing(engine, monkeypatch, work)
    assert engine.restate(view)
    monkeypatch.undo()
    assert engine.restate("users") == []
    with engine.snapshot() as snap, ps.open(shop(), None) as anew:
        anew.put_many("users", [doc for _, doc in snap.table("users").items()])
        with anew.snapshot() as fresh:
            for name in (*VIEWS, "sizes", "heights"):
                assert list(snap.view(name).items()) == list(fresh.view(name).items()), name


def test_another_thread_writes_as_fast_as_it_can(place: Path | None) -> None:
    """Repairs end while another thread writes, and its writes go on."""
    with ps.open(shop(), place) as engine:
        engine.put_many("users", [document(i, g=f"g{i % 40}") for i in range(2_000)])
        for view in VIEWS:
            if view == "counted":
                add_to_lane(engine, view, "g7", lane=2, by=5)
            else:
                tell(engine, view, [(7_000, "orphan", 5)], [(7, "g7", 7)])
        engine.store.core.forget()
        done, batches = threading.Event(), 0

        def write() -> None:
            nonlocal batches
            choose = Random(batches)
            while not done.is_set():  # without document 7: its retraction would find the damage
                batches += 1
                some = [document(choose.randrange(8, 2_100), ts=1 + batches, v=batches + i) for i in range(40)]
                engine.put_many("users", some)
                engine.delete("users", choose.randrange(8, 2_100), ts=1 + batches)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            before = batches
            for view in VIEWS:
                found = restated(engine, view)
                assert view == "counted" or any(str(one.group).count("orphan") for one in found.values())
            checked = engine.check()
            assert batches > before + 1, "the writer waited until it was done"
        finally:
            done.set()
            thread.join()
        assert checked.ok, checked
        assert engine.check().ok
        assert engine.restate("users") == []
        with engine.snapshot() as snap:
            documents = [(row.key, row.value) for row in snap.table("users").items()]
            for name in VIEWS:
                wanted = recomputed(engine.store.core.app.view_of(name), documents).sorted()
                assert [(row.key, row.value) for row in snap.view(name).items()] == wanted, name


def test_a_batch_that_fails_meanwhile_begins_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = LastingStore()
    with mock.patch.object(opening, "MemoryStore", return_value=store):
        engine: Any = ps.open(shop(), None)
    engine.put_many("users", [document(i) for i in range(20)])
    add_to_lane(engine, "counted", "all", lane=0)

    def work(n: int) -> None:
        if n == 0:
            store.fails_in = 0
            with pytest.raises(Failed):
                engine.put("users", document(3, ts=9))
            store.fails_in = -1
        engine.put("users", document(4, ts=9 + n))

    writing(engine, monkeypatch, work)
    assert [one.group for one in engine.restate("counted")] == ["all"]
    monkeypatch.undo()
    assert engine.restate("users") == []


def test_a_large_table_is_built_in_a_folder_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_site, "_IN_MEMORY", 10)
    path = tmp_path / "state"
    with ps.open(shop(), path) as engine:
        engine.put_many("users", [document(i) for i in range(MANY + 50)])
        before = engine.digest()
        (path / "repair-killed").mkdir()
        for view in VIEWS:
            add_to_lane(engine, "counted", "all", lane=0)
            engine.restate(view)
        engine.restate("users")
        assert engine.digest() == before
        assert not list(path.glob("repair-*"))
