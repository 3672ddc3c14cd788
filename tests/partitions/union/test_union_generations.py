"""Changed views in a store of several partitions: the same rows as in one partition, after a kill at any point."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.cache import decode_key, encode_key
from penstock.engine import PartitionedStore
from penstock.partitions.union import view_building
from penstock.views import NotBuilt
from tests.generations.app_pair import first, followed, second, shown

VIEWS = [view.name for view in second().views()]
TAGS = (None, [], ["a"], ["a", "b"], ["b", "b", "c"])


def documents(choose: Random, n: int, ts: int) -> list[tuple[str, dict[str, Any]]]:
    def doc(i: int) -> dict[str, Any]:
        return {
            "id": i,
            "g": choose.choice(("Joe", "Sue", "Bob", "")),
            "h": choose.choice((None, 1, 2)),
            "v": choose.choice((None, 1, 2.5, -3)),
            "tags": choose.choice(TAGS),
            "ts": ts,
        }

    return [(choose.choice(("users", "orders", "plain", "few")), doc(choose.randrange(max(4, n)))) for _ in range(n)]


def put(engine: Any, docs: list[tuple[str, dict[str, Any]]]) -> None:
    for table in ("users", "orders", "plain", "few"):
        engine.put_many(table, [doc for name, doc in docs if name == table])


def test_they_are_what_they_are_in_a_store_in_one_piece(tmp_path: Path) -> None:
    choose = Random(3)
    before, after = documents(choose, 300, 1), documents(choose, 40, 2)
    with (
        ps.open(first(), tmp_path / "parted", partitions=3, processes=False) as parts,
        ps.open(first(), tmp_path / "whole") as whole,
    ):
        for engine in (parts, whole):
            put(engine, before)
        parts.settle()
        since = [engine.status()["position"] for engine in (parts, whole)]
        rows = {(c.view, encode_key(c.group)): c.new for c in whole.changes(initial=True)}
    with (
        ps.open(second(), tmp_path / "parted", readonly=True) as parts,
        ps.open(second(), tmp_path / "whole", readonly=True) as whole,
    ):
        here, there = parts.preview(second()), whole.preview(second())
        assert (here.changes, here.documents, here.rows, here.groups) == (
            there.changes,
            there.documents,
            there.rows,
            there.groups,
        )
        assert here.sample == there.sample
    with (
        ps.open(second(), tmp_path / "parted", processes=False) as parts,
        ps.open(second(), tmp_path / "whole") as whole,
    ):
        assert parts.digest() == whole.digest()
        assert str(parts.migrate()) == str(whole.migrate())
        assert parts.status()["building"] is None
        told = [{str(c.data() | {"position": None}) for c in e.changes(since=s)} for e, s in zip((parts, whole), since)]
        assert told[0] == told[1]
        assert told[0], "the feed shows the switch"
        now = followed(parts.changes(since=since[0]), {(view, group): new for (view, group), new in decoded(rows)})
        assert now == {(view, row[0]): row[1] for view in VIEWS for row in shown(whole, VIEWS)[view]}
        for engine in (parts, whole):
            put(engine, after)
        parts.settle()
        assert shown(parts, VIEWS) == shown(whole, VIEWS)
        assert parts.digest() == whole.digest()


def decoded(rows: dict[tuple[str, bytes], Any]) -> list[tuple[tuple[str, Any], Any]]:
    return [((view, decode_key(group)), new) for (view, group), new in rows.items()]


def test_readers_see_what_was_until_all_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_building.PartitionedBuilding, "begin", lambda self: None)  # no build starts by itself
    docs = documents(Random(5), 200, 1)
    with ps.open(first(), tmp_path / "s", partitions=2, processes=False) as parts:
        put(parts, docs)
        parts.settle()
        was = shown(parts, ["sums", "same"])
    with ps.open(second(), tmp_path / "s", processes=False) as parts, ps.open(second(), None) as whole:
        assert isinstance(parts.store, PartitionedStore)
        put(whole, docs)
        steps = 0
        while parts.store.building.build_once(7).more:
            steps += 1
            if parts.status()["building"] is not None:
                with parts.snapshot() as snap:
                    assert snap.view("sums").as_of is not None
                    assert [(row.key, row.value, row.held) for row in snap.view("sums")] == was["sums"]
                    with pytest.raises(NotBuilt):
                        snap.view("fresh")
            if steps == 3:
                for engine in (parts, whole):
                    put(engine, documents(Random(6), 60, 2))
        assert steps > 10
        parts.settle()
        assert shown(parts, VIEWS) == shown(whole, VIEWS)
        assert parts.digest() == whole.digest()


def test_what_may_not_be_built_is_refused_and_left(tmp_path: Path) -> None:
    with ps.open(first(), tmp_path / "s", partitions=2, processes=False) as parts:
        put(parts, documents(Random(7), 50, 1))
        digest = parts.digest()
    with pytest.raises(ps.DefinitionChanged, match="penstock migrate"):
        ps.open(second(), tmp_path / "s", migrate="refuse")
    other = ps.App("shop")
    other.table("users", key="h", ts="ts")
    with pytest.raises(ps.DefinitionChanged, match="key was"):
        ps.open(other, tmp_path / "s")
    with ps.open(first(), tmp_path / "s", processes=False, migrate="refuse") as parts:
        assert parts.digest() == digest


def test_a_partition_is_killed_while_it_builds_and_then_who_serves_them(tmp_path: Path) -> None:
    docs = documents(Random(8), 2_400, 1)
    with ps.open(first(), tmp_path / "s", partitions=2) as parts, ps.open(second(), None) as whole:
        put(parts, docs)
        put(whole, docs)
    with ps.open(second(), tmp_path / "s") as parts:
        assert isinstance(parts.store, PartitionedStore)
        os.kill(parts.store.handles[0].pid, signal.SIGKILL)  # type: ignore[attr-defined]
    with ps.open(second(), tmp_path / "s") as parts:  # the build continues
        told: list[tuple[int, int]] = []
        assert len(parts.migrate(lambda *passed: told.append(passed)).changes) > 10
        assert all(done <= total for done, total in told)
        assert parts.digest() == whole_of(docs)


def whole_of(docs: list[tuple[str, dict[str, Any]]]) -> str:
    with ps.open(second(), None) as whole:
        put(whole, docs)
        return whole.digest()
