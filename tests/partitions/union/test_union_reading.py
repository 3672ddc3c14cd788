"""Reading over partitions: each way of reading gives what a store of one partition gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import encode_key
from penstock.core.metadata.store_layout import NAME, read_layout
from tests.harness.strategies import LONG, bounds
from tests.partitions.stores import Partitions, parted

NAMES: list[Any] = [
    "Sue",
    "Joe",
    "Bob",
    "",
    None,
    1,
    1.5,
    True,
    LONG + "a",
    LONG + "b",
    LONG + "c",
    ("NO", 1),
    ("NO", 2),
]
DOCS = [{"id": i, "name": NAMES[i % len(NAMES)], "n": i % 7, "city": "xyz"[i % 3]} for i in range(120)]
VIEWS = ("names", "sums", "kept", "index", "words", "sizes", "tuples")


def app() -> ps.App:
    shop = ps.App("shop")
    users = shop.table("users", key="id")

    @users.view(reduce={"n": ps.count(), "most": ps.max("n")}, sources=True)
    def kept(user: Any) -> Iterator[Any]:
        yield user["name"], user

    @users.view(reduce=ps.count())
    def words(user: Any) -> Iterator[Any]:
        for i in range(user["n"]):
            yield i, user["id"]

    names = users.view("names", key="name", reduce=ps.count())
    users.view("sums", key="name", value="n", reduce={"total": ps.sum(), "avg": ps.mean()})
    users.view("index", key="name", value="n", reduce=None)
    users.view("tuples", key=("city", "n"), reduce=ps.count())

    @names.view(reduce=ps.sum())
    def sizes(row: ps.Row) -> Iterator[Any]:
        yield len(str(row.key)), row.value

    return shop


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ps.Engine, ps.Engine]]:
    path = tmp_path_factory.mktemp("spanned") / "store"
    partitioned, plain = parted(app(), path, {"users": DOCS}, 3)
    with partitioned, plain:
        yield partitioned, plain


def listed(rows: Any) -> list[tuple[bytes, Any, bool]]:
    """Return rows by the encodings of their keys, so that 1 and true differ."""
    return [(encode_key(row.key), row.value, row.held) for row in rows]


@settings(max_examples=60)
@given(view=st.sampled_from(VIEWS), asked=bounds())
def test_scans_come_in_the_order_of_groups(both: Any, view: str, asked: dict[str, Any]) -> None:
    partitioned, plain = both
    with partitioned.snapshot() as union_snap, plain.snapshot() as plain_snap:
        assert listed(union_snap.view(view).items(**asked)) == listed(plain_snap.view(view).items(**asked))


@settings(max_examples=30)
@given(view=st.sampled_from(["names", "sums", "kept", "tuples", "words"]), level=st.integers(0, 2), asked=bounds())
def test_rollups_merge_groups_of_several_partitions(both: Any, view: str, level: int, asked: dict[str, Any]) -> None:
    partitioned, plain = both
    with partitioned.snapshot() as union_snap, plain.snapshot() as plain_snap:
        assert listed(union_snap.view(view).rollup(level, **asked)) == listed(
            plain_snap.view(view).rollup(level, **asked)
        )


@pytest.mark.parametrize("view", VIEWS)
def test_points_are_found_wherever_they_are(both: Any, view: str) -> None:
    partitioned, plain = both
    with partitioned.snapshot() as union_snap, plain.snapshot() as plain_snap:
        keys = [row.key for row in plain_snap.view(view)]
        assert len(union_snap.view(view)) == len(keys)
        assert union_snap.view(view).get_many([*keys, "nobody"], 0) == plain_snap.view(view).get_many(
            [*keys, "nobody"], 0
        )
        for key in keys:
            assert union_snap.view(view).row(key) == plain_snap.view(view).row(key)
        assert "nobody" not in union_snap.view(view)
        assert union_snap.weight(view, 3).contributions == plain_snap.weight(view, 3).contributions
        assert dict(union_snap.weight(view, 3).hot) == dict(plain_snap.weight(view, 3).hot)


@pytest.mark.parametrize("view", VIEWS)
def test_why_adds_up(both: Any, view: str) -> None:
    partitioned, plain = both
    with partitioned.snapshot() as union_snap, plain.snapshot() as plain_snap:
        groups = NAMES if view in ("names", "sums", "kept", "index") else [row.key for row in plain_snap.view(view)]
        steps: list[tuple[int, int]] = []
        mine = union_snap.view(view).why_many(groups, progress=lambda done, of: steps.append((done, of)))
        yours = plain_snap.view(view).why_many(groups)
        assert mine == yours
        assert any(mine)
        for own, other in zip(mine, yours, strict=True):
            assert [one.document for one in own] == [one.document for one in other]
        assert all(0 <= done <= of for done, of in steps)


def test_documents_are_found_in_the_partition_that_owns_their_key(both: Any) -> None:
    partitioned, plain = both
    with partitioned.snapshot() as union_snap, plain.snapshot() as plain_snap:
        table = union_snap.table("users")
        assert len(table) == len(DOCS)
        assert sorted(table.items(), key=lambda row: row.key) == sorted(
            plain_snap.table("users"), key=lambda row: row.key
        )
        assert table.get_many([3, "nobody", 5]) == [DOCS[3], None, DOCS[5]]
        assert table[7] == DOCS[7]
        assert table.row(7) == plain_snap.table("users").row(7)
        assert 121 not in table
        stored, other = union_snap.stored("users", 7), plain_snap.stored("users", 7)
        assert stored is not None
        assert other is not None
        assert stored.told == other.told
        assert union_snap.stored("users", "nobody") is None
        with pytest.raises(ps.KeyKind, match="null"):
            table.get(None)


def test_the_digest_is_that_of_a_store_of_one(both: Any) -> None:
    assert both[0].digest() == both[1].digest()


def test_the_status_adds_up(both: Any) -> None:
    status, plain = both[0].status(), both[1].status()
    assert status["tables"]["users"]["documents"] == len(DOCS)
    for view in VIEWS:
        assert status["views"][view]["groups"] == plain["views"][view]["groups"]
    partitioned = status["partitions"]
    assert [part["folder"] for part in partitioned] == ["1-0", "1-1", "1-2"]
    assert sum(part["documents"] for part in partitioned) == len(DOCS)
    assert min(part["documents"] for part in partitioned) > 20, "hashes spread keys"
    assert sum(part["bytes"] for part in partitioned) == status["store"]["bytes"]
    assert list(status["position"]) == [part["position"] for part in partitioned]


def test_what_writes_is_refused(both: Any) -> None:
    engine = both[0]
    for write in (
        lambda: engine.put("users", {"id": 1}),
        lambda: engine.delete("users", 1),
        lambda: engine.put_many("users", []),
        lambda: engine.restate("names"),
        lambda: engine.retry(),
        lambda: engine.compact(),
        lambda: engine.migrate(),
    ):
        with pytest.raises(ps.ReadOnly):
            write()
    with engine.snapshot() as snap, pytest.raises(ps.PenstockError, match=r"log in each of 3 partitions"):
        snap.log("users")


def test_a_snapshot_that_is_closed_says_so(both: Any) -> None:
    snap = both[0].snapshot()
    view = snap.view("names")
    assert repr(snap) == f"<snapshot at {list(snap.position)}>"
    snap.close()
    with pytest.raises(ps.Closed):
        view.get("Sue")


def test_partitions_whose_definitions_differ_are_not_read_as_one(store_path: Path) -> None:
    def older() -> ps.App:
        shop = ps.App("own")
        shop.table("users", key="id").view("mine", key="id", reduce=ps.count("n"))
        return shop

    partitions = Partitions(own(), store_path, 2)
    partitions.close()
    layout = read_layout(str(store_path))
    assert layout is not None
    with ps.open(older(), store_path / layout.parts[1].folder, listen=False):
        pass
    with ps.open(own(), store_path, readonly=True) as engine, pytest.raises(ps.PenstockError, match="partition 1 has"):
        engine.snapshot()


def test_a_partition_that_is_missing_is_named(store_path: Path) -> None:
    Partitions(own(), store_path, 2).close()
    (store_path / "1-1" / "data.mdb").unlink()
    with pytest.raises(ps.StoreMissing, match="1-1"):
        ps.open(own(), store_path, readonly=True)
    (store_path / NAME).write_text("{")
    with pytest.raises(ps.StoreDamaged, match="no JSON"):
        ps.open(own(), store_path, readonly=True)


# -- the feed


def own() -> ps.App:
    """Return an app whose views have the documents' own keys as groups."""
    shop = ps.App("own")
    users = shop.table("users", key="id")
    users.view("mine", key="id", reduce={"n": ps.sum("n"), "times": ps.count()})
    return shop


def test_a_follower_gets_all_changes_of_a_group_in_order(store_path: Path) -> None:
    partitions = Partitions(own(), store_path, 3)
    for turn in range(1, 6):
        partitions.put("users", [{"id": i, "n": turn} for i in range(20)])
    partitions.delete("users", 4)
    with ps.open(own(), store_path, readonly=True) as engine:
        changes = list(engine.changes("mine"))
        assert len(changes) == 20 * 5 + 1
        for i in range(20):
            mine = [change.new and change.new["n"] for change in changes if change.group == i]
            assert mine == [1, 2, 3, 4, 5, *([ps.ABSENT] if i == 4 else [])]
        for place in range(0, len(changes), 9):
            since = json.loads(json.dumps(changes[place].position))
            rest = list(engine.changes("mine", since=since))
            assert sorted(map(repr, rest)) != [] or place + 9 > len(changes)
            assert {(c.group, str(c.new)) for c in rest} == {(c.group, str(c.new)) for c in changes[place + 1 :]}
            assert len(rest) == len(changes) - place - 1, "nothing twice"
        with engine.snapshot() as snap:
            now = snap.position
            rows = {row.key: row.value for row in snap.view("mine")}
        assert list(engine.changes("mine", since=now)) == []
        assert list(engine.changes("mine", since=list(now), until=now)) == []
        half = changes[50].position
        assert len(list(engine.changes("mine", until=half))) + len(list(engine.changes("mine", since=half))) == 101
        first = list(engine.changes("mine", initial=True))
        assert {change.group: change.new for change in first} == rows
        assert {change.position for change in first} == {now}
    partitions.close()


def test_who_follows_sees_what_each_partition_commits(store_path: Path) -> None:
    partitions = Partitions(own(), store_path, 2)
    with ps.open(own(), store_path, readonly=True) as engine:
        coming = engine.changes("mine", initial=True, follow=True)
        seen: dict[Any, int] = {}
        position: Any = None
        for turn in range(1, 4):
            partitions.put("users", [{"id": i, "n": turn} for i in range(10)])
            while [seen.get(i) for i in range(10)] != [turn] * 10:
                change = next(coming)
                seen[change.group] = change.new["n"]
                assert position is None or all(a <= b for a, b in zip(position, change.position, strict=True))
                position = change.position
        coming.close()
    partitions.close()


def test_positions_that_cannot_be_followed_from_are_refused(store_path: Path) -> None:
    partitions = Partitions(own(), store_path, 2)
    partitions.put("users", [{"id": i, "n": 1} for i in range(10)])
    with ps.open(own(), store_path, readonly=True) as engine:
        with engine.snapshot() as snap:
            now = snap.position
        ahead = (now[0], now[1] + 1)
        with pytest.raises(ps.PositionAhead, match=r"changes since \[\d+, \d+\] were asked for"):
            engine.changes(since=ahead)
        with pytest.raises(ps.PositionExpired, match=r"since position 3; .* is \[0, 0\]"):
            engine.changes(since=3)
        with pytest.raises(ps.PositionAhead):
            engine.changes(until=3)
        for wrong in ("now", [True, 1], [1, "x"], 1.5):
            with pytest.raises(ps.PenstockError, match="write a position"):
                engine.changes(since=wrong)
        with pytest.raises(ps.PenstockError, match="two places to begin at"):
            engine.changes(since=now, initial=True)
        with pytest.raises(ps.UnknownName):
            engine.changes("mind")
    with ps.open(own(), None) as engine, pytest.raises(ps.PositionExpired, match=r"since position \[1, 2\]"):
        engine.changes(since=[1, 2])
    partitions.close()


def test_a_partition_whose_feed_is_over_is_said_with_all_positions(store_path: Path) -> None:
    partitions = Partitions(own(), store_path, 2)
    partitions.close()
    layout = read_layout(str(store_path))
    assert layout is not None
    key = next(i for i in range(100) if partitions.owner(i) == 1)
    with ps.open(own(), layout.folders(str(store_path))[1], listen=False, changes=0) as engine:
        engine.put("users", {"id": key, "n": 1})
    with ps.open(own(), store_path, readonly=True) as engine, pytest.raises(ps.PositionExpired, match=r"\[0, 1\]"):
        engine.changes(since=(0, 0))


def test_sources_stand_where_the_least_far_partition_has_them(store_path: Path) -> None:
    partitions = Partitions(own(), store_path, 2)
    for engine, resume in zip(partitions.engines, (5, 3), strict=True):
        engine.ingest([], source="file:a", resume=resume)
    partitions.engines[0].ingest([], source="file:b", resume=9)
    with ps.open(own(), store_path, readonly=True) as engine, engine.snapshot() as snap:
        assert snap.sources == {"file:a": 3}
        found = snap.remembered("file:a")
        assert found is not None
        assert found.offset == 3
        assert snap.remembered("file:b") is None
    partitions.close()
