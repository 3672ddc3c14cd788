"""Keys that are text: a batch names its contributions by the keys that it has decoded."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.gateway import view_deltas
from penstock.testing import TestEngine


def engine_with_sources(merge: str = "replace") -> TestEngine:
    app = ps.App("shop")
    users = app.table("users", key="id", ts="ts", merge=merge)
    users.view("names", key="name", value="id", reduce=ps.collect(99), sources=True)
    return TestEngine(app)


def puts(first: int, stop: int, name: str) -> list[ps.Record]:
    return [ps.Record("users", f"é{i}", {"id": f"é{i}", "name": name, "ts": 1}) for i in range(first, stop)]


def test_documents_are_not_decoded_again_for_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Any] = []
    key_of = view_deltas.key_of
    monkeypatch.setattr(view_deltas, "key_of", lambda *given: decoded.append(given) or key_of(*given))
    engine = engine_with_sources()
    engine.engine.put_many("users", [{"id": f"é{i}", "name": "a", "ts": 1} for i in range(300)])
    assert decoded == []
    with engine.engine.snapshot() as snap:
        assert [one.key for one in snap.view("names").why("a")] == sorted(f"é{i}" for i in range(300))


@pytest.mark.parametrize("merge", ["replace", "patch"])
def test_batches_with_deletions_and_late_records_name_the_right_keys(merge: str) -> None:
    engine = engine_with_sources(merge)
    engine.engine.put_many("users", [{"id": f"é{i}", "name": "a", "ts": 5} for i in range(200)])
    late = puts(0, 50, "b")  # older than the documents that are there
    gone = [ps.Record("users", f"é{i}", None, 9) for i in range(50, 90)]
    mixed = [ps.Record("users", 7, {"id": 7, "name": "b", "ts": 1}), ps.Record("users", 1 << 70, None, 9)]
    engine.engine.ingest([*late, *gone, *puts(200, 260, "b"), *mixed], "spout", 1)
    with engine.engine.snapshot() as snap:
        assert {one.key for one in snap.view("names").why("b")} == {7, *(f"é{i}" for i in range(200, 260))}
        left = {f"é{i}" for i in range(200) if not 50 <= i < 90}
        assert {one.key for one in snap.view("names").why("a")} == left
    assert engine.engine.check().ok
