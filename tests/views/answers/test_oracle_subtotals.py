"""Compare rollups from subtotals, which are kept between snapshots, with a fold of all rows, over random histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import canonical
from penstock.cache.store import database_watch
from penstock.mapreduce import RowCodec
from penstock.views import ViewReader
from penstock.views.answers import rollup
from penstock.views.answers.view_reader import _ABSENT, _bounds

LONG = "k" * 380  # more characters follow, so the key is not stored whole
NUMBERS: list[Any] = [1, 2.5, 0.1, -7, 2**62, Decimal("1.10"), None, 1.0, float("nan"), 1e300]
TEXTS = ["a", "b", "bb", LONG + "x", LONG + "y" * 40, LONG + "z" * 40]


class Lengths:
    """A user's reducer, for which subtotals are not used."""

    zero = ""

    def lift(self, value: Any) -> str:
        return str(value)[:3]

    def merge(self, a: str, b: str) -> str:
        return a + b


ROW = {
    "n": ps.count(),
    "sum": ps.sum("v"),
    "spread": ps.variance("v", ddof=0),
    "bins": ps.histogram([0, 2], "v"),
}
TREES = {"max": ps.max("w"), "low": ps.bottom(2, "w"), "last": ps.last("w", "id"), "some": ps.collect(2, "w")}
VIEWS = ("row", "trees", "flat", "own", "function")


def shop() -> ps.App:
    app = ps.App("shop")
    docs = app.table("docs", key="id")
    docs.view("row", key=("g", "h", "id"), reduce=ROW)
    docs.view("trees", key=("g", "h", "id"), reduce={**TREES, "sum": ps.sum("v")})
    docs.view("flat", key="id", reduce={"n": ps.count(), "sum": ps.sum("v")})
    docs.view("own", key=("g", "h"), value="v", reduce=ps.monoid(Lengths()))

    @docs.view("function", reduce=ps.sum())
    def function(doc: Any) -> Iterator[Any]:
        yield (doc["g"], doc["id"]), doc["n"] + 1

    return app


def folded(view: ViewReader, level: int, **asked: Any) -> list[tuple[bytes, bytes, bool]]:
    """Return the rollup from all rows, one after the other."""
    start, stop, through = (asked.get(name, _ABSENT) for name in ("start", "stop", "through"))
    low, high = _bounds(asked.get("prefix"), start, stop, through, None)
    return written(view._rolled(level, view._ordered(low, high, False)))


def written(rows: Any) -> list[tuple[bytes, bytes, bool]]:
    return [(canonical(row.key), canonical(row.value), row.held) for row in rows]


class Story:
    """A history of one store, and the snapshots that stay open meanwhile."""

    def __init__(self, engine: Any, seed: int, size: int) -> None:
        self.engine = engine
        self.choose = Random(seed)
        self.size = size
        self.snaps: list[Any] = []

    def document(self) -> dict[str, Any]:
        choose = self.choose
        return {
            "id": choose.randrange(self.size),
            "g": choose.choice(TEXTS),
            "h": choose.randrange(3),
            "v": choose.choice(NUMBERS),
            "w": choose.choice([1, 1.0, True, "x", [1], 0.0, -0.0, None]),
            "n": choose.choice([1, 2, 3, 4, 5, 6, 7, "no number"]),
        }

    def step(self) -> None:
        choose, engine = self.choose, self.engine
        which = choose.random()
        if which < 0.3:
            engine.put_many("docs", [self.document() for _ in range(choose.choice([1, 3, self.size]))])
        elif which < 0.5:
            engine.put("docs", self.document())
        elif which < 0.65:
            engine.delete("docs", choose.randrange(self.size))
        elif which < 0.7:
            engine.restate(choose.choice(VIEWS))
        elif which < 0.75 and len(self.snaps) < 3:
            self.snaps.append(engine.snapshot())
        elif which < 0.8 and self.snaps:
            self.snaps.pop(choose.randrange(len(self.snaps))).close()
        elif which < 0.85 and self.snaps:
            self.compare(choose.choice(self.snaps))
        else:
            with engine.snapshot() as snap:
                self.compare(snap)

    def compare(self, snap: Any) -> None:
        choose = self.choose
        view, level = snap.view(choose.choice(VIEWS)), choose.randrange(4)
        asked: dict[str, Any] = {}
        if choose.random() < 0.5 and view.name != "flat":
            name = choose.choice(["prefix", "start", "stop", "through"])
            asked[name] = (choose.choice(TEXTS), choose.randrange(3))[: choose.choice([1, 2])]
        elif view.name == "flat" and choose.random() < 0.5:
            asked = {"start": choose.randrange(self.size), "stop": choose.randrange(self.size)}
        wanted = folded(view, level, **asked)
        for _ in range(2):
            assert written(view.rollup(level, **asked)) == wanted
        backwards = written(view.rollup(level, reverse=True, **asked))
        if view.name != "own":  # its merge depends on the order
            assert backwards[::-1] == wanted
        assert written(view.rollup(level, limit=2, **asked)) == wanted[:2]


@contextmanager
def small() -> Iterator[None]:
    """Use runs of a few rows, and keep few keys."""
    with ExitStack() as stack:
        for module, name, value in (
            (rollup, "_ROWS", 8),
            (rollup, "_FEW_ROWS", 3),
            (rollup, "_ROWS_A_PART", 1),
            (rollup, "_MOST_PARTS", 60),
            (database_watch, "_MOST_KEYS", 40),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def checked_history(seed: int, place: Path | None, partitions: int, steps: int = 50) -> None:
    with small(), ps.open(shop(), place, partitions=partitions) as engine:
        story = Story(engine, seed, 60)
        engine.put_many("docs", [story.document() for _ in range(150)])
        try:
            for _ in range(steps):
                story.step()
        finally:
            for snap in story.snaps:
                snap.close()


@pytest.mark.parametrize("seed", range(3))
def test_subtotals_equal_the_fold_of_all_rows(seed: int, place: Path | None) -> None:
    checked_history(seed, place, 1)


def test_partitions_add_up_like_one_store() -> None:
    checked_history(4, None, 3)
    rows = []
    for partitions in (1, 3):
        with small(), ps.open(shop(), None, partitions=partitions) as engine:
            story = Story(engine, 5, 60)
            for _ in range(3):
                engine.put_many("docs", [story.document() for _ in range(40)])
                engine.settle()
                with engine.snapshot() as snap:
                    for name in ("row", "trees", "flat"):
                        rows.append([written(snap.view(name).rollup(level)) for level in range(3)])
    assert rows[: len(rows) // 2] == rows[len(rows) // 2 :]


def test_a_new_generation_has_its_own_subtotals(tmp_path: Path) -> None:
    for factor in (1, 2, 1):
        app = ps.App("shop")

        @app.table("docs", key="id").view(version=str(factor), reduce=ps.sum())
        def total(doc: Any, factor: int = factor) -> Iterator[Any]:
            yield doc["id"], doc["id"] * factor

        with small(), ps.open(app, tmp_path / "s") as engine:
            engine.put_many("docs", [{"id": i} for i in range(50)])
            engine.migrate()
            for _ in range(2):
                with engine.snapshot() as snap:
                    assert [row.value for row in snap.view("total").rollup(0)] == [factor * sum(range(50))]


def histories() -> None:
    for seed in range(2):
        checked_history(seed, None, 1)


def a_held_group_shows() -> None:
    with small(), ps.open(shop(), None) as engine:
        docs = [{"id": i, "g": "a", "h": 0, "n": 1} for i in range(40)]
        engine.put_many("docs", docs)
        for n, held in ((1, False), ("no number", True), ("no number", True), (1, False)):
            engine.put("docs", {**docs[20], "n": n})
            for level in range(2):
                with engine.snapshot() as snap:
                    [row] = snap.view("function").rollup(level)
                assert (row.value, row.held) == (80, held)


def sums_of_any_size() -> None:
    with ps.open(shop(), None) as engine:
        engine.put_many("docs", [{"id": i, "g": "a", "h": 0, "v": 2**62} for i in range(300)])
        with engine.snapshot() as snap:
            assert [row.value["sum"] for row in snap.view("flat").rollup(0)] == [300 * 2**62]


# Rows that are read


@contextmanager
def counted() -> Iterator[list[int]]:
    """Return how many rows each call adds up."""
    states, rows = RowCodec.states, list[int]()

    def noting(self: RowCodec, some: Any, where: str) -> Any:
        rows.append(len(some))
        return states(self, some, where)

    with mock.patch.object(RowCodec, "states", noting):
        yield rows


def by_country(place: Path | None) -> ps.Engine:
    app = ps.App("shop")
    app.table("docs", key="id").view("sums", key=("g", "id"), reduce=ps.sum("v"))
    engine = ps.open(app, place)
    engine.put_many("docs", [{"id": i, "g": i % 4, "v": i} for i in range(8_000)])
    return engine


@pytest.mark.parametrize("level", [0, 1])
def test_a_rollup_reads_only_changed_runs(place: Path | None, level: int) -> None:
    def rolled() -> int:
        with counted() as rows, engine.snapshot() as snap:
            list(snap.view("sums").rollup(level))
        return sum(rows)

    with by_country(place) as engine:
        assert rolled() == 8_000
        assert rolled() == 0
        engine.put("docs", {"id": 17, "g": 1, "v": 18})
        assert 0 < rolled() <= 2_048
        assert rolled() == 0
        with engine.snapshot() as snap, counted() as rows:
            assert [row.value for row in snap.view("sums").rollup(level, prefix=(2,))] == [sum(range(2, 8_000, 4))]
        assert sum(rows) <= 2_048


def test_a_view_that_is_not_rolled_up_is_not_watched(place: Path | None) -> None:
    with by_country(place) as engine:

        def watched() -> list[str]:
            with engine.snapshot() as snap:
                reader: Any = snap.reader()
                [moment] = reader.moments()
                return list(moment.watches.names())

        with engine.snapshot() as snap:
            list(snap.view("sums").items())
            list(snap.view("sums").rollup(2))  # each group alone
        assert watched() == []
        with engine.snapshot() as snap:
            list(snap.view("sums").rollup(0))
        assert len(watched()) == 1


# Planted bugs


def _none_changed(levels: Any, changed: Any) -> Any:
    return dict(levels)


def _all_noted(self: Any, number: int, keys: Any) -> bool:
    self.until = number
    return True


def _without_held(self: Any, runs: Any, low: bytes, high: Any, pieces: Any = rollup.Rollup._pieces) -> Any:
    return pieces(replace(self, held=frozenset()), runs, low, high)


def _wide(codec: RowCodec, payloads: Any, total: Any = RowCodec._total) -> Any:
    with mock.patch("penstock.mapreduce.fold.row_format.LANE_MAX", 1 << 200):
        return total(codec, payloads)


@pytest.mark.parametrize(
    ("target", "name", "bug", "test"),
    [
        (rollup, "_unchanged", _none_changed, histories),
        (database_watch._DatabaseWatch, "note", _all_noted, histories),
        (rollup.Rollup, "_pieces", _without_held, a_held_group_shows),
        (RowCodec, "_total", _wide, sums_of_any_size),
    ],
    ids=["a changed run stays", "no key is noted", "a held group is passed over", "a lane overflows"],
)
def test_a_planted_bug_is_found(target: Any, name: str, bug: Any, test: Callable[[], None]) -> None:
    test()
    with mock.patch.object(target, name, bug), pytest.raises(AssertionError):
        test()
