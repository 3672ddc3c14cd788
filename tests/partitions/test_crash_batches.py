"""Crashes in the middle of atomic batches over partitions.

`test_crash_partitions.py` kills processes, and its stories have atomic batches too.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import encode_key
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.engine import BatchWaits, PartitionedStore, post, writer
from penstock.views import ProductionName
from tests.harness.planting import Bug
from tests.partitions.stores import placed
from tests.testing.planted import planted
from tests.waiting import PATIENCE

KEYS = range(8)


def shop(production: ProductionName = "strong") -> ps.App:
    app = ps.App("shop")
    users, orders = app.table("users", key="id"), app.table("orders", key="id", ts="v")
    names = users.view("names", key="name", reduce={"n": ps.count(), "most": ps.max("v")}, production=production)
    names.view("sizes", key="value.n", reduce=ps.count())
    orders.view("totals", key="user", reduce=ps.sum("v"), production=production)
    return app


def put(engine: Any, v: int) -> None:
    """Put an atomic batch that changes every key, and has records without ts, which their partitions reject."""
    with engine.batch() as batch:
        for key in KEYS:
            batch.put("users", {"id": key, "name": f"n{v}{key % 3}", "v": v})
            if v % 2:
                batch.put("orders", {"id": key, "user": key % 3, "v": v})
            else:
                batch.delete("orders", key, ts=v)
            batch.put("orders", {"id": key})
    assert (batch.counts.records, batch.counts.rejected) == (24, 8)


def opened(path: Path | None, production: ProductionName = "strong", partitions: int | None = 2) -> Any:
    with placed():
        return ps.open(shop(production), path, partitions=partitions, processes=False)


@contextmanager
def imaged(path: Path, images: list[Path]) -> Iterator[None]:
    """Copy the store before and after each commit, as a kill would leave it."""
    real = LmdbWriter._commit_now

    def taken() -> None:
        image = path.with_name(f"image{len(images)}")
        shutil.copytree(path, image, ignore=shutil.ignore_patterns("owner*", "lock.mdb", "socket"))
        images.append(image)

    def commit(self: LmdbWriter) -> None:
        if not images:
            taken()
        real(self)
        taken()

    with mock.patch.object(LmdbWriter, "_commit_now", commit):
        yield


def killed_anywhere(
    path: Path, production: ProductionName, give: Callable[[Any, int], None], partitions: int = 2
) -> set[int]:
    """Open every image of a batch; return which batches were found, before and after it."""
    images: list[Path] = []
    digests: dict[str, int] = {}
    with opened(path, production, partitions) as engine:
        give(engine, 1)
        digests[engine.digest()] = 1
        with imaged(path, images):
            give(engine, 2)
        digests[engine.digest()] = 2
    found: list[int] = []
    for image in images:
        with opened(image, production, None) as engine:
            found.append(digests.get(engine.digest(), 0))
            rejected = engine.status()["tables"]["orders"]
            assert rejected["rejected"] == rejected["quarantined"] == (0 if give is strict else 8 * found[-1])
    assert 0 not in found, "an image has a part of a batch"
    assert found == sorted(found), "a later image has no less"
    return set(found)


def strict(engine: Any, v: int) -> None:
    assert engine.put_many("users", [{"id": key, "name": f"n{v}", "v": v} for key in KEYS], strict=True).records == 8


@pytest.mark.parametrize(("production", "partitions"), [("strong", 3), ("weak", 2)])
def test_a_kill_leaves_the_whole_batch_or_nothing(production: ProductionName, partitions: int, tmp_path: Path) -> None:
    assert killed_anywhere(tmp_path / "store", production, put, partitions) == {1, 2}


def test_a_kill_leaves_a_strict_batch_whole_or_not_at_all(tmp_path: Path) -> None:
    assert killed_anywhere(tmp_path / "store", "strong", strict) == {1, 2}


BUGS = [
    Bug(
        "each by itself",
        "engine.partitioned_writing:PartitionedWriting._give",
        "if not atomic or len(routed) <= 1:",
        "if True:",
    ),
    Bug(
        "records are not owed",
        "partitions.exchange.exchange:PartitionExchange.fold",
        "in self._records.items():",
        "in ():",
    ),
    Bug(
        "rejections are lost", "partitions.exchange.exchange:_take", "added(state.rejected, refused)", "state.rejected"
    ),
    Bug(
        "rejected records are lost",
        "partitions.exchange.batch_production:take_records",
        "if any(refused.values()):",
        "if False:",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, tmp_path: Path) -> None:
    with planted(bug), pytest.raises((AssertionError, KeyError)):
        killed_anywhere(tmp_path / "store", "strong", put)


# -- waiting


def damaged(handle: Any, sender: int) -> Any:
    """Let a partition refuse the productions of another one."""

    def refuse() -> int:
        raise ps.PenstockError("the disk is full")

    def receive(production: Any) -> Any:
        return handle._unless_refused(sender, refuse)

    return mock.patch.object(handle, "receive", receive)


def test_a_partition_that_can_t_take_its_records_takes_no_other_batch_first() -> None:
    with opened(None, partitions=3) as engine:
        assert isinstance(engine.store, PartitionedStore)
        put(engine, 1)
        handles: Any = engine.store.handles
        own = [[key for key in KEYS if engine.store.ranges.of(encode_key(key)) == i] for i in range(3)]
        with damaged(handles[1], 0):
            with pytest.raises(BatchWaits, match="partition 1 can't take its records of a batch that is saved"):
                put(engine, 2)
            with pytest.raises(BatchWaits, match="the disk is full; once that is mended"):
                engine.put("users", {"id": own[1][0], "name": "later", "v": 9})
            with suppress(ps.PenstockError):  # it is stored, and its production is refused
                engine.put("users", {"id": own[0][0], "name": "later", "v": 9})
        engine.put("users", {"id": own[1][0], "name": "later", "v": 9})
        with engine.snapshot(consistency="position") as snap:
            shown = {row.key: (row.value["name"], row.value["v"]) for row in snap.table("users").items()}
        later = {own[0][0], own[1][0]}
        assert shown == {key: ("later", 9) if key in later else (f"n2{key % 3}", 2) for key in KEYS}


def test_a_batch_that_can_t_be_tried_somewhere_is_in_nowhere() -> None:
    with opened(None) as engine:
        put(engine, 1)
        before = engine.digest()
        broken = mock.patch.object(engine.store.handles[1], "tried", side_effect=ps.PenstockError("it is damaged"))
        with broken, pytest.raises(ps.PenstockError, match="it is damaged"):
            put(engine, 2)
        assert engine.digest() == before


def test_a_put_that_fails_in_one_partition_ends_after_the_others(tmp_path: Path) -> None:
    ended: list[bool] = []
    failed = threading.Event()
    with ps.open(shop(), tmp_path / "store", partitions=2) as engine:
        assert isinstance(engine.store, PartitionedStore)
        other, take = engine.store.handles[1], engine.store.handles[1].take

        def fail(*_: Any) -> None:
            failed.set()
            raise ps.PenstockError("it is damaged")

        def late(*share: Any) -> Any:
            assert failed.wait(PATIENCE)
            answer = take(*share)
            ended.append(True)
            return answer

        with mock.patch.object(engine.store.handles[0], "take", fail), mock.patch.object(other, "take", late):
            with pytest.raises(ps.PenstockError, match="it is damaged"):
                engine.put_many("users", [{"id": key, "name": "n", "v": 1} for key in KEYS])
            assert ended == [True]


def test_a_batch_that_another_process_posts_is_atomic(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as engine:
        give = mock.patch.object(engine.store.writing.saved, "give", wraps=engine.store.writing.saved.give)
        with give as saved, writer(tmp_path / "store", shop()) as other:
            assert other.holder is not None
            post(other, [ps.Record("users", key, {"id": key, "name": "a", "v": 1}) for key in KEYS])
            assert saved.call_count == 1
            other.put_many("users", [{"id": key, "name": "b", "v": 1} for key in KEYS])
            assert saved.call_count == 1, "a list is a transaction at each partition"
            other.put_many("users", [{"id": key, "name": "c", "v": 1} for key in KEYS], strict=True)
            assert saved.call_count == 2
