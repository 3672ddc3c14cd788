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
        ps.open(first(), tmp_path / "parted", partitions=3, processes=False) as partitioned,
        ps.open(first(), tmp_path / "whole") as whole,
    ):
        for engine in (partitioned, whole):
            put(engine, before)
        partitioned.settle()
        since = [engine.status()["position"] for engine in (partitioned, whole)]
        rows = {(c.view, encode_key(c.group)): c.new for c in whole.changes(initial=True)}
    with (
        ps.open(second(), tmp_path / "parted", readonly=True) as partitioned,
        ps.open(second(), tmp_path / "whole", readonly=True) as whole,
    ):
        split_preview, whole_preview = partitioned.preview(second()), whole.preview(second())
        assert (split_preview.changes, split_preview.documents, split_preview.rows, split_preview.groups) == (
            whole_preview.changes,
            whole_preview.documents,
            whole_preview.rows,
            whole_preview.groups,
        )
        assert split_preview.sample == whole_preview.sample
    with (
        ps.open(second(), tmp_path / "parted", processes=False) as partitioned,
        ps.open(second(), tmp_path / "whole") as whole,
    ):
        assert partitioned.digest() == whole.digest()
        assert str(partitioned.migrate()) == str(whole.migrate())
        assert partitioned.status()["building"] is None
        seen = [
            {str(c.data() | {"position": None}) for c in e.changes(since=s)}
            for e, s in zip((partitioned, whole), since)
        ]
        assert seen[0] == seen[1]
        assert seen[0], "the feed shows the switch"
        now = followed(
            partitioned.changes(since=since[0]), {(view, group): new for (view, group), new in decoded(rows)}
        )
        assert now == {(view, row[0]): row[1] for view in VIEWS for row in shown(whole, VIEWS)[view]}
        for engine in (partitioned, whole):
            put(engine, after)
        partitioned.settle()
        assert shown(partitioned, VIEWS) == shown(whole, VIEWS)
        assert partitioned.digest() == whole.digest()


def decoded(rows: dict[tuple[str, bytes], Any]) -> list[tuple[tuple[str, Any], Any]]:
    return [((view, decode_key(group)), new) for (view, group), new in rows.items()]


def test_readers_see_what_was_until_all_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_building.PartitionedBuilding, "begin", lambda self: None)  # no build starts by itself
    docs = documents(Random(5), 200, 1)
    with ps.open(first(), tmp_path / "s", partitions=2, processes=False) as partitioned:
        put(partitioned, docs)
        partitioned.settle()
        was = shown(partitioned, ["sums", "same"])
    with ps.open(second(), tmp_path / "s", processes=False) as partitioned, ps.open(second(), None) as whole:
        assert isinstance(partitioned.store, PartitionedStore)
        put(whole, docs)
        steps = 0
        while partitioned.store.building.build_once(7).more:
            steps += 1
            if partitioned.status()["building"] is not None:
                with partitioned.snapshot() as snap:
                    assert snap.view("sums").as_of is not None
                    assert [(row.key, row.value, row.held) for row in snap.view("sums")] == was["sums"]
                    with pytest.raises(NotBuilt):
                        snap.view("fresh")
            if steps == 3:
                for engine in (partitioned, whole):
                    put(engine, documents(Random(6), 60, 2))
        assert steps > 10
        partitioned.settle()
        assert shown(partitioned, VIEWS) == shown(whole, VIEWS)
        assert partitioned.digest() == whole.digest()


def test_what_may_not_be_built_is_refused_and_left(tmp_path: Path) -> None:
    with ps.open(first(), tmp_path / "s", partitions=2, processes=False) as partitioned:
        put(partitioned, documents(Random(7), 50, 1))
        digest = partitioned.digest()
    with pytest.raises(ps.DefinitionChanged, match="penstock migrate"):
        ps.open(second(), tmp_path / "s", migrate="refuse")
    other = ps.App("shop")
    other.table("users", key="h", ts="ts")
    with pytest.raises(ps.DefinitionChanged, match="key was"):
        ps.open(other, tmp_path / "s")
    with ps.open(first(), tmp_path / "s", processes=False, migrate="refuse") as partitioned:
        assert partitioned.digest() == digest


def test_a_partition_is_killed_while_it_builds_and_then_who_serves_them(tmp_path: Path) -> None:
    docs = documents(Random(8), 2_400, 1)
    with ps.open(first(), tmp_path / "s", partitions=2) as partitioned, ps.open(second(), None) as whole:
        put(partitioned, docs)
        put(whole, docs)
    with ps.open(second(), tmp_path / "s") as partitioned:
        assert isinstance(partitioned.store, PartitionedStore)
        os.kill(partitioned.store.handles[0].pid, signal.SIGKILL)  # type: ignore[attr-defined]
    with ps.open(second(), tmp_path / "s") as partitioned:  # the build continues
        seen: list[tuple[int, int]] = []
        assert len(partitioned.migrate(lambda *passed: seen.append(passed)).changes) > 10
        assert all(done <= total for done, total in seen)
        assert partitioned.digest() == whole_of(docs)


def whole_of(docs: list[tuple[str, dict[str, Any]]]) -> str:
    with ps.open(second(), None) as whole:
        put(whole, docs)
        return whole.digest()
