"""A batch that was processed, and then cancelled or lost with its process, is processed again with the same result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cache import MemoryStore, pack_document
from penstock.engine import open_on
from penstock.gateway import TableBatch
from penstock.mapreduce import count
from penstock.views import App


def an_app() -> App:
    app = App("shop")

    @app.table("orders", key="id").view("letters", reduce=count())
    def _(doc: Any) -> Iterator[Any]:
        yield doc["name"][0]  # an empty name is held

    return app


@pytest.mark.parametrize("n", [2, 40])
def test_another_engine_takes_the_same_batch(n: int) -> None:
    docs = [{"id": i, "name": "" if i == 1 else f"{chr(97 + i % 20)}…"} for i in range(n)]
    batch = TableBatch([pack_document(doc) for doc in docs])
    first, core = open_on(an_app(), MemoryStore(), seed=7)
    first.put_many("orders", [{"id": 100 + i, "name": chr(120 + i)} for i in range(3)])
    core.commit({"orders": batch})
    for i in range(3):
        first.delete("orders", 100 + i)
    second, other = open_on(an_app(), MemoryStore(), seed=7)
    other.commit({"orders": batch})
    assert second.digest() == first.digest()
    with second.snapshot() as snap:
        rows = {row.key: row.value for row in snap.view("letters").items()}
        assert rows["a"] == len([doc for doc in docs if doc["name"].startswith("a")])
        assert len(snap.holds("letters")) == 1
