"""The scan of a view's documents, with tombstones among the lines of the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

LONG = "x" * 500  # the index stores the hash of this key


def ends(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield several values per group, so that documents have contributions of several ranks."""
    for group in doc["gs"]:
        yield group, doc["v"]
    yield doc["gs"][0], -doc["v"]


def app_of(merge: str) -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts", merge=merge)
    users.view("latest", reduce=ps.last())(ends)
    users.view("both", reduce={"first": ps.first(), "last": ps.last(), "n": ps.count()})(ends)
    return app


def fill(engine: Any) -> None:
    engine.put_many("users", [{"id": i, "gs": [i % 3, "all"], "v": i, "ts": i} for i in (*range(1, 40), 40.5)])
    engine.put("users", {"id": LONG, "gs": [1], "v": 7, "ts": 3})
    for i, key in enumerate((4, 12, 39, 40.5, "never seen", LONG)):
        engine.delete("users", key, ts=100 + i)
    engine.put("users", {"id": 12, "gs": [2], "v": 5, "ts": 200})
    engine.put("users", {"id": 13, "gs": [], "v": 5, "ts": 201})  # the function fails on it


@pytest.mark.parametrize("merge", ["replace", "patch"])
@pytest.mark.parametrize("partitions", [None, 2])
def test_views_that_read_ts_are_checked_and_restated_beside_tombstones(
    merge: Any, partitions: int | None, tmp_path: Path
) -> None:
    path = None if partitions else tmp_path / "store"
    how: dict[str, Any] = {"partitions": partitions} if partitions else {}
    with ps.open(app_of(merge), path, **how) as engine:
        fill(engine)
        before = engine.digest()
        assert engine.check().ok
        for name in ("latest", "both"):
            assert engine.restate(name) == []
            assert engine.restate(name, "all") == []
        assert engine.restate("users", 4) == engine.restate("users", 12) == []
        assert engine.digest() == before
        engine.compact()
        assert engine.check(fix=True).ok
        assert engine.digest() == before
