"""Conditions on null: in the engine, in its oracle, and in stores with conditions of an older version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cache import Limits
from penstock.views import Compare, Family, Op

DOCS: list[dict[str, Any]] = [
    {"id": 1, "g": "x", "o": {"h": 1}},
    {"id": 2, "g": None, "o": {"h": None}},
    {"id": 3},
    {"id": 4, "g": 0, "o": 7},
    {"id": 5, "g": False, "o": {"h": 0.0}},
]


def shop(**conditions: Any) -> ps.App:
    app = ps.App("shop")
    table = app.table("t", key="id")
    for name, where in conditions.items():
        table.view(name, key="id", where=where, reduce=ps.count())
    return app


CONDITIONS = {
    "has": ps.field("g") != None,  # noqa: E711
    "lacks": ps.field("g") == None,  # noqa: E711
    "within": ps.field("o.h") != None,  # noqa: E711
    "both": (ps.field("g") != None) & ~(ps.field("o.h") == None) & (ps.field("id") < 5),  # noqa: E711
}
SHOWN = {"has": [1, 4, 5], "lacks": [2, 3], "within": [1, 5], "both": [1]}


def shown(engine: Any) -> dict[str, list[Any]]:
    with engine.snapshot() as snap:
        return {view.name: [row.key for row in snap.view(view.name)] for view in engine.store.core.app.views()}


@pytest.mark.parametrize("few", [0, 16])
@pytest.mark.parametrize("form", ["documents", "lines"])
def test_none_tests_for_null(few: int, form: str) -> None:
    docs: Any = DOCS if form == "documents" else [json.dumps(doc).encode() for doc in DOCS]
    with ps.open(shop(**CONDITIONS), None, limits=Limits(few=few)) as engine:
        engine.put_many("t", docs)
        assert shown(engine) == SHOWN
        assert engine.check().ok
        engine.put("t", {"id": 1, "g": None, "o": {"h": None}})
        assert shown(engine) == {"has": [4, 5], "lacks": [1, 2, 3], "within": [5], "both": []}
        assert engine.check().ok


def test_a_store_with_the_condition_of_an_older_version_is_built_anew(tmp_path: Path) -> None:
    older = Compare(("g",), Op.NE, Family.NULL, None)
    with ps.open(shop(has=older), tmp_path / "s") as engine:
        engine.put_many("t", DOCS)
        assert shown(engine) == {"has": []}
    with ps.open(shop(has=CONDITIONS["has"]), tmp_path / "s") as engine:
        engine.migrate()
        assert shown(engine) == {"has": [1, 4, 5]}
