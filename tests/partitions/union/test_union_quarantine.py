"""The quarantine of several partitions: retries and drops work as in a store of one partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import encode_key
from tests.partitions.stores import placed
from tests.recovery.repair.test_repost import delivered

FAILS: set[Any] = set()


class Adds:
    """A sum that fails for chosen values."""

    zero = 0

    def lift(self, value: Any) -> Any:
        if ("group", value) in FAILS:
            raise ValueError("not this value")
        return value

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def unmerge(self, a: Any, b: Any) -> Any:
        return a - b


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts")
    names = users.view("names", key="name", reduce=ps.count())
    users.view("spent", key="name", value="age", reduce=ps.group(Adds()))

    @users.view(reduce=ps.sum())
    def initials(user: dict[str, Any]) -> Iterator[Any]:
        if user["name"] in FAILS:
            raise ValueError("not this one")
        yield user["name"][0], user["age"]

    @names.view(reduce=ps.count())
    def sizes(row: Any) -> Iterator[Any]:
        if ("row", row.key) in FAILS:
            raise ValueError("not this row")
        yield row.value

    return app


def user(i: int, name: str, **fields: Any) -> dict[str, Any]:
    return {"id": i, "name": name, "age": i, "ts": 1} | fields


@pytest.fixture
def both() -> Iterator[tuple[Any, Any]]:
    """Put the same records into three partitions and into one, while some functions fail."""
    FAILS.clear()
    FAILS.update(["Kim", ("row", "Joe"), ("group", 13)])
    with placed(), ps.open(shop(), None, partitions=3) as partitioned, ps.open(shop(), None) as whole:
        for engine in (partitioned, whole):
            engine.put_many("users", [user(i, ("Sue", "Kim", "Joe")[i % 3]) for i in range(24)])
            engine.put_many("users", [{"id": i, "name": "Sue"} for i in range(6)])  # without ts
            engine.settle()
        yield partitioned, whole
    FAILS.clear()


def kinds(engine: Any) -> list[tuple[str, str, Any]]:
    return sorted((own.kind.value, own.reason, repr(own.key)) for own in engine.quarantine())


def test_all_is_retried_as_in_one_piece(both: tuple[Any, Any]) -> None:
    partitioned, whole = both
    assert kinds(partitioned) == kinds(whole)
    for engine in both:
        settled = engine.retry()
        assert (settled.released, settled.applied) == (0, 0)
        assert settled.left == len(kinds(engine))
    FAILS.clear()
    one, other = partitioned.retry(), whole.retry()
    assert (one.applied, one.released, one.left) == (other.applied, other.released, other.left) == (0, 10, 6)
    assert {left.id for left in one.why} == {own.id for own in partitioned.quarantine("record")}
    assert partitioned.digest() == whole.digest()
    assert partitioned.check().ok
    assert kinds(partitioned) == kinds(whole)


def test_all_is_dropped_as_in_one_piece(both: tuple[Any, Any]) -> None:
    partitioned, whole = both
    for kind in ("record", "document", "group"):
        one, other = partitioned.drop(kind=kind), whole.drop(kind=kind)
        assert (one.dropped, one.left) == (other.dropped, other.left), kind
    assert kinds(partitioned) == kinds(whole)
    with partitioned.snapshot(consistency="position") as one, whole.snapshot() as other:
        for view in ("names", "initials", "sizes"):  # the content of a held group depends on its history
            assert list(one.view(view).items()) == list(other.view(view).items())


def test_entries_are_named_by_their_ids_and_counted(both: tuple[Any, Any]) -> None:
    partitioned, _ = both
    entries = list(partitioned.quarantine())
    records = [own.id for own in entries if own.kind.value == "record"]
    documents = [own.id for own in entries if own.kind.value == "document"]
    assert len({name.partition("@")[2] for name in records}) > 1
    settled = partitioned.drop([records[0], "r99@1", "d00"])
    assert settled.dropped == 1
    assert sorted(left.id for left in settled.why) == ["d00", "r99@1"]
    steps: list[tuple[int, int]] = []
    assert (
        partitioned.drop(kind="record", limit=2, progress=lambda done, total: steps.append((done, total))).dropped == 2
    )
    assert steps[-1][0] == steps[-1][1]
    FAILS.clear()
    assert partitioned.retry(documents[:3]).released == 3
    assert [own.id for own in partitioned.quarantine()] == records[3:] + [
        own.id for own in entries if own.kind.value != "record" and own.id not in documents[:3]
    ]


def test_what_lies_with_another_than_its_owner_stays(tmp_path: Path) -> None:
    """The first partition keeps a record without a table; another partition may own its key."""
    with placed(), ps.open(shop(), tmp_path / "store", partitions=3) as partitioned:
        delivered(
            partitioned, tmp_path / "wire.jsonl", *({"topic": "nobody", "id": 100 + i, "ts": 5} for i in range(8))
        )
        assert partitioned.retry(kind="record").left == 8
    app = shop()
    app.table("nobody", key="id", ts="ts")
    partitioned: Any
    with placed(), ps.open(app, tmp_path / "store", partitions=3) as partitioned:
        here = sum(partitioned.store.ranges.of(encode_key(100 + i)) == 0 for i in range(8))
        settled = partitioned.retry(kind="record")
        assert (settled.applied, settled.left) == (here, 8 - here)
        assert "its key belongs to partition" in settled.why[0].reason
        with partitioned.snapshot() as snap:
            assert (len(snap.table("nobody")), len(snap.table("users"))) == (here, 0)
        assert partitioned.check().ok


def test_in_processes_of_their_own(tmp_path: Path) -> None:
    FAILS.clear()
    with ps.open(shop(), tmp_path / "store", partitions=2) as partitioned:
        partitioned.put_many("users", [{"id": i, "name": "Sue"} for i in range(6)])
        entries = [own.id for own in partitioned.quarantine()]
        assert len(entries) == 6
        assert partitioned.retry().left == 6
        assert partitioned.drop(entries).dropped == 6
        assert list(partitioned.quarantine()) == []


def test_a_listed_id_of_one_partition_is_dropped() -> None:
    with ps.open(shop(), None, partitions=1) as engine:
        engine.put_many("users", [{"name": "no key"}, {"name": "nor here"}])
        first, second = [entry.id for entry in engine.quarantine()]
        assert [left.id for left in engine.retry(first).why] == [first]
        assert engine.drop(first).dropped == 1
        assert [entry.id for entry in engine.quarantine()] == [second]
