"""Builds end although others write fast: between two steps they write more than a step reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, pairwise
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.engine import Core, open_on
from penstock.mapreduce import rows_db
from tests.harness.histories import LastingStore
from tests.harness.planting import Edit
from tests.harness.worlds import TINY

LIMIT = 64  # documents or rows per step
BEFORE = 1_200  # documents from before the build
KEYS = 50  # writes make ever more versions of them
Doc = dict[str, Any]


def app(later: bool) -> ps.App:
    """Return an app with one group per document, and a view on that. `later` changes one definition of each kind."""
    out = ps.App("busy")
    docs = out.table("docs", key="id")
    each = docs.view("each", key="g", value="v", reduce=ps.sum())
    each.view("spread", key="value", reduce=ps.sum("value") if later else ps.count())
    docs.view("sums", key="v", value="v", reduce=ps.max() if later else ps.sum())
    return out


def documents(order: str) -> Iterator[Doc]:
    """Yield documents without end, each with its own group: in ascending order, or anywhere among the others."""
    choose, i = Random(1), 0
    while True:
        yield {"id": i, "g": i if order == "ascending" else choose.getrandbits(60), "v": i % 7}
        i += 1


def turns(order: str) -> Iterator[Core]:
    """Yield after each turn of a build. Between two turns, put three times as many documents as one turn reads."""
    store, source = LastingStore(), documents(order)
    engine, _ = open_on(app(False), store)
    engine.put_many("docs", [next(source) for _ in range(BEFORE)])
    engine, core = open_on(app(True), store)
    while core.build is not None:
        engine.store.building.build_once(LIMIT)
        yield core
        engine.put_many("docs", [next(source) for _ in range(3 * LIMIT)])


def left_of_rows(order: str, most: int = 1 << 30) -> list[int]:
    """Return the number of rows left after each turn that reads rows.

    Those turns follow the turns that read documents.
    """
    out: list[int] = []
    for core in turns(order):
        if core.build is None:
            out.append(0)
        elif core.build.built.rows:
            until, _ = core.build.built.rows["each"]
            with core.store.read() as reader:
                rows = reader.scan(rows_db(core.views["each"].number), until)
                out.append(0 if until is None else sum(1 for _ in rows))
        if len(out) == most:
            break
    return out


@pytest.mark.parametrize("order", ["ascending", "anywhere"])
def test_rows_that_come_while_rows_are_told(order: str) -> None:
    left = left_of_rows(order)
    for before, after in pairwise(left):
        assert after <= max(0, before - LIMIT), "as many rows are told as came, and those of a step"
    assert left[-1] == 0


def test_rows_that_come_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    Edit("mapreduce.hidden_generation:HiddenGeneration.covered", "self.ahead += sum(", "sum(").plant(monkeypatch)
    left = left_of_rows("ascending", 50)
    assert all(after > before for before, after in pairwise(left)), "or there is ever more to do"


def test_documents_that_come_are_told_by_their_batch() -> None:
    for turn, core in enumerate(turns("ascending"), 1):
        assert core.build is not None
        if core.build.built.rows:
            break
        assert turn <= -(-BEFORE // LIMIT), "what there was is passed over once, whatever comes"


def test_dead_versions_pile_up_only_as_long_as_it_lasts() -> None:
    """Compaction waits for the end of the build.

    The build does not read later records. Compaction removes the old versions afterwards.
    """
    store, versions = LastingStore(), count()
    engine, core = open_on(app(False), store, TINY)

    def put() -> None:
        version = next(versions)
        engine.put_many("docs", [{"id": i, "g": i % 5, "v": i % 7, "n": version} for i in range(KEYS)])

    for _ in range(4):
        put()
    engine, core = open_on(app(True), store, TINY)
    log, steps = core.tables["docs"].log, 0
    assert core.catalog.since is not None
    first, since = core.catalog.since["docs"]
    while core.build is not None and not core.build.built.rows:
        put()
        engine.store.building.build_once(5)
        steps += 1
    assert steps <= -(-(since - first) // 5) + 1
    held = log.mark.tail - log.head
    assert held > 10 * KEYS
    engine.migrate()
    for _ in range(20):
        put()
    assert log.mark.tail - log.head < held / 2
