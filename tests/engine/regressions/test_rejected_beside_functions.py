"""Records without a key beside documents that two function views read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import penstock as ps


def by_inner(doc: dict[str, Any]) -> Iterator[Any]:
    yield doc["inner"]["group"], doc["id"]


def test_functions_read_only_the_accepted_documents_of_a_block() -> None:
    app = ps.App("app")
    table = app.table("docs", key="id")
    table.view("first", reduce=ps.sum())(by_inner)
    table.view("second", reduce=ps.sum())(by_inner)
    docs: list[dict[str, Any]] = [{"id": i, "inner": {"group": i % 3}} for i in range(60)]
    with ps.open(app, None) as engine:
        report = engine.put_many("docs", [{"id": None, "inner": {"group": 0}}, *docs])
        expected = {group: sum(range(group, 60, 3)) for group in range(3)}
        with engine.snapshot() as snap:
            assert dict(snap.view("first").items()) == dict(snap.view("second").items()) == expected
    assert report.rejected == 1
