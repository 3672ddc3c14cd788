"""The split of a batch by partitions runs beside the one before it only where that one is large enough."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import penstock as ps
from penstock.engine import PartitionedStore, partitioned_writing


class Pool(ThreadPoolExecutor):
    """A pool that does its work in the calling thread, and counts the batches that it splits ahead."""

    def __init__(self) -> None:
        super().__init__(1)
        self.split = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.split += fn is next
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@pytest.mark.parametrize(("docs", "batch", "ahead"), [(1, None, 0), (9, 3, 0), (24, 8, 3), (20, 10, 2)])
def test_small_batches_are_split_in_the_calling_thread(
    docs: int, batch: int | None, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned_writing, "_AHEAD", 8)
    shop = ps.App("shop")
    shop.table("users", key="id").view("by_name", key="name", reduce=ps.count())
    with ps.open(shop, None, partitions=2) as engine, Pool() as pool:
        assert isinstance(engine.store, PartitionedStore)
        monkeypatch.setattr(engine.store.writing, "_pool", pool)
        engine.put_many("users", [{"id": i, "name": "Sue"} for i in range(docs)], batch=batch)
        engine.settle()
        assert pool.split == ahead
        with engine.snapshot() as snap:
            assert snap.view("by_name")["Sue"] == docs
